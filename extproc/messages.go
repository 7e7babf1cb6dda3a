package extproc

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	filterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
)

// side is a direction of the exchange as Envoy sees it.
type side int

const (
	sideRequest side = iota
	sideResponse
)

// standaloneOverride switches the rest of the exchange to full duplex. It has
// no response set, so the request headers stay unanswered; that form exists
// since Envoy 1.40 (ProcessingResponse.mode_override).
func standaloneOverride() *pb.ProcessingResponse {
	return &pb.ProcessingResponse{ModeOverride: &filterv3.ProcessingMode{
		RequestHeaderMode:   filterv3.ProcessingMode_SEND,
		ResponseHeaderMode:  filterv3.ProcessingMode_SEND,
		RequestBodyMode:     filterv3.ProcessingMode_FULL_DUPLEX_STREAMED,
		ResponseBodyMode:    filterv3.ProcessingMode_FULL_DUPLEX_STREAMED,
		RequestTrailerMode:  filterv3.ProcessingMode_SEND,
		ResponseTrailerMode: filterv3.ProcessingMode_SEND,
	}}
}

func headersAnswer(s side, mut *pb.HeaderMutation) *pb.ProcessingResponse {
	return headersMessage(s, &pb.CommonResponse{HeaderMutation: mut})
}

// replaceAnswer gives a message that came without a body one. Envoy takes it
// whole and frames it itself.
func replaceAnswer(s side, mut *pb.HeaderMutation, body []byte) *pb.ProcessingResponse {
	return headersMessage(s, &pb.CommonResponse{
		Status:         pb.CommonResponse_CONTINUE_AND_REPLACE,
		HeaderMutation: mut,
		BodyMutation:   &pb.BodyMutation{Mutation: &pb.BodyMutation_Body{Body: body}},
	})
}

func headersMessage(s side, common *pb.CommonResponse) *pb.ProcessingResponse {
	h := &pb.HeadersResponse{Response: common}
	if s == sideRequest {
		return &pb.ProcessingResponse{Response: &pb.ProcessingResponse_RequestHeaders{RequestHeaders: h}}
	}
	return &pb.ProcessingResponse{Response: &pb.ProcessingResponse_ResponseHeaders{ResponseHeaders: h}}
}

// bodyAnswer is made of one allocation: there are more messages of it than of all others.
func bodyAnswer(s side, data []byte, last bool) *pb.ProcessingResponse {
	p := new(struct {
		common   pb.CommonResponse
		mutation pb.BodyMutation
		streamed pb.BodyMutation_StreamedResponse
		body     pb.StreamedBodyResponse
		bodyParts
	})
	p.body.Body, p.body.EndOfStream = data, last
	p.streamed.StreamedResponse = &p.body
	p.mutation.Mutation = &p.streamed
	p.common.BodyMutation = &p.mutation
	return p.message(s, &p.common)
}

func bodyMessage(s side, common *pb.CommonResponse) *pb.ProcessingResponse {
	return new(bodyParts).message(s, common)
}

// bodyParts are those of a message about a body.
type bodyParts struct {
	all      pb.ProcessingResponse
	request  pb.ProcessingResponse_RequestBody
	response pb.ProcessingResponse_ResponseBody
	answer   pb.BodyResponse
}

func (p *bodyParts) message(s side, common *pb.CommonResponse) *pb.ProcessingResponse {
	p.answer.Response = common
	if s == sideRequest {
		p.request.RequestBody = &p.answer
		p.all.Response = &p.request
	} else {
		p.response.ResponseBody = &p.answer
		p.all.Response = &p.response
	}
	return &p.all
}

func trailersAnswer(s side, mut *pb.HeaderMutation) *pb.ProcessingResponse {
	t := &pb.TrailersResponse{HeaderMutation: mut}
	if s == sideRequest {
		return &pb.ProcessingResponse{Response: &pb.ProcessingResponse_RequestTrailers{RequestTrailers: t}}
	}
	return &pb.ProcessingResponse{Response: &pb.ProcessingResponse_ResponseTrailers{ResponseTrailers: t}}
}

// immediateAnswer is a whole response in one message; Envoy sets its
// content-length and resets the upstream request, if there is one.
func immediateAnswer(status int, mut *pb.HeaderMutation, body []byte) *pb.ProcessingResponse {
	return &pb.ProcessingResponse{Response: &pb.ProcessingResponse_ImmediateResponse{
		ImmediateResponse: &pb.ImmediateResponse{
			Status:  &typev3.HttpStatus{Code: typev3.StatusCode(status)},
			Headers: mut,
			Body:    body,
			Details: "mcp_via_llm",
		},
	}}
}

func streamedHead(headers *corev3.HeaderMap) *pb.ProcessingResponse {
	return streamed(&pb.StreamedImmediateResponse{
		Response: &pb.StreamedImmediateResponse_HeadersResponse{HeadersResponse: &pb.HttpHeaders{Headers: headers}},
	})
}

func streamedBody(data []byte, last bool) *pb.ProcessingResponse {
	return streamed(&pb.StreamedImmediateResponse{
		Response: &pb.StreamedImmediateResponse_BodyResponse{
			BodyResponse: &pb.StreamedBodyResponse{Body: data, EndOfStream: last},
		},
	})
}

func streamed(r *pb.StreamedImmediateResponse) *pb.ProcessingResponse {
	return &pb.ProcessingResponse{
		Response: &pb.ProcessingResponse_StreamedImmediateResponse{StreamedImmediateResponse: r},
	}
}
