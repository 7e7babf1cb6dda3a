package extproc

import (
	"errors"
	"fmt"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
)

var errOrder = errors.New("extproc: message out of order")

// order is the last check before a message goes out: per direction headers,
// then body, then trailers or one end of stream, and a streamed immediate
// response or an ImmediateResponse in place of the rest. Envoy ends a stream
// with a spurious-message error otherwise.
type order struct {
	request, response, immediate stage
}

type stage int

const (
	stageStart stage = iota
	stageBody
	stageDone
)

// check returns an error that wraps errOrder if msg may not be sent now.
func (o *order) check(msg *pb.ProcessingResponse) error {
	ok := true
	switch r := msg.GetResponse().(type) {
	case *pb.ProcessingResponse_RequestHeaders:
		ok = o.immediate == stageStart && o.request.headers()
	case *pb.ProcessingResponse_RequestBody:
		ok = o.immediate == stageStart && o.request.body(r.RequestBody.GetResponse())
	case *pb.ProcessingResponse_RequestTrailers:
		ok = o.immediate == stageStart && o.request.end()
	case *pb.ProcessingResponse_ResponseHeaders:
		ok = o.immediate == stageStart && o.response.headers()
	case *pb.ProcessingResponse_ResponseBody:
		ok = o.immediate == stageStart && o.response.body(r.ResponseBody.GetResponse())
	case *pb.ProcessingResponse_ResponseTrailers:
		ok = o.immediate == stageStart && o.response.end()
	case *pb.ProcessingResponse_ImmediateResponse:
		ok = o.immediate == stageStart && o.response == stageStart
		o.immediate = stageDone
	case *pb.ProcessingResponse_StreamedImmediateResponse:
		ok = o.request == stageStart && o.response == stageStart && o.streamed(r.StreamedImmediateResponse)
	}
	if !ok {
		return fmt.Errorf("%w: %T", errOrder, msg.GetResponse())
	}
	return nil
}

func (o *order) streamed(r *pb.StreamedImmediateResponse) bool {
	if r.GetHeadersResponse() != nil {
		return o.immediate.headers()
	}
	ok := o.immediate == stageBody
	if r.GetBodyResponse().GetEndOfStream() {
		o.immediate = stageDone
	}
	return ok
}

func (s *stage) headers() bool {
	ok := *s == stageStart
	*s = stageBody
	return ok
}

func (s *stage) body(common *pb.CommonResponse) bool {
	ok := *s == stageBody
	if common.GetBodyMutation().GetStreamedResponse().GetEndOfStream() {
		*s = stageDone
	}
	return ok
}

func (s *stage) end() bool {
	ok := *s == stageBody
	*s = stageDone
	return ok
}
