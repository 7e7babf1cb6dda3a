package main

import (
	"errors"
	"io"
	"net"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
)

// copyCommand serves the floor: a full-duplex external processor that gives every message back as it came. No service
// that reads both bodies can cost less.
type copyCommand struct {
	Listen string `default:"127.0.0.1:9102" help:"address"`
	Hold   bool   `help:"give the parts of a message back when the whole of it is there, as all must do that read it first"`
}

func (c *copyCommand) Run() error {
	listener, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	pb.RegisterExternalProcessorServer(server, copier{hold: c.Hold})
	return server.Serve(listener)
}

type copier struct {
	pb.UnimplementedExternalProcessorServer
	hold bool
}

func (c copier) Process(stream pb.ExternalProcessor_ProcessServer) error {
	var held []*pb.ProcessingResponse
	for {
		in, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		held = append(held, same(in))
		if c.hold && !ends(in) {
			continue
		}
		for _, out := range held {
			if err := stream.Send(out); err != nil {
				return err
			}
		}
		held = held[:0]
	}
}

// ends says whether a request or a response is whole.
func ends(in *pb.ProcessingRequest) bool {
	switch m := in.Request.(type) {
	case *pb.ProcessingRequest_RequestHeaders:
		return m.RequestHeaders.GetEndOfStream()
	case *pb.ProcessingRequest_ResponseHeaders:
		return m.ResponseHeaders.GetEndOfStream()
	case *pb.ProcessingRequest_RequestBody:
		return m.RequestBody.GetEndOfStream()
	case *pb.ProcessingRequest_ResponseBody:
		return m.ResponseBody.GetEndOfStream()
	}
	return true // trailers
}

func same(in *pb.ProcessingRequest) *pb.ProcessingResponse {
	streamed := func(b *pb.HttpBody) *pb.BodyResponse {
		return &pb.BodyResponse{Response: &pb.CommonResponse{BodyMutation: &pb.BodyMutation{Mutation: &pb.BodyMutation_StreamedResponse{
			StreamedResponse: &pb.StreamedBodyResponse{Body: b.GetBody(), EndOfStream: b.GetEndOfStream()}}}}}
	}
	switch m := in.Request.(type) {
	case *pb.ProcessingRequest_RequestHeaders:
		return &pb.ProcessingResponse{Response: &pb.ProcessingResponse_RequestHeaders{RequestHeaders: &pb.HeadersResponse{}}}
	case *pb.ProcessingRequest_ResponseHeaders:
		return &pb.ProcessingResponse{Response: &pb.ProcessingResponse_ResponseHeaders{ResponseHeaders: &pb.HeadersResponse{}}}
	case *pb.ProcessingRequest_RequestBody:
		return &pb.ProcessingResponse{Response: &pb.ProcessingResponse_RequestBody{RequestBody: streamed(m.RequestBody)}}
	case *pb.ProcessingRequest_ResponseBody:
		return &pb.ProcessingResponse{Response: &pb.ProcessingResponse_ResponseBody{ResponseBody: streamed(m.ResponseBody)}}
	case *pb.ProcessingRequest_RequestTrailers:
		return &pb.ProcessingResponse{Response: &pb.ProcessingResponse_RequestTrailers{RequestTrailers: &pb.TrailersResponse{}}}
	default:
		return &pb.ProcessingResponse{Response: &pb.ProcessingResponse_ResponseTrailers{ResponseTrailers: &pb.TrailersResponse{}}}
	}
}
