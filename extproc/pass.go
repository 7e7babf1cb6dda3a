package extproc

import (
	"maps"
	"net/http"

	filterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
)

// passer answers the messages of a request that is not ours, so that both
// directions go on as they came. Like machine it does no I/O.
type passer struct {
	config *pb.ProtocolConfiguration
	ended  [2]bool // by side
}

// first answers the request headers.
func (p *passer) first(headers *pb.HttpHeaders, mut *pb.HeaderMutation) *pb.ProcessingResponse {
	p.ended[sideRequest] = headers.GetEndOfStream()
	return headersAnswer(sideRequest, mut)
}

// step answers any later message; late counts the bytes after an end of
// stream, which get no answer.
func (p *passer) step(msg *pb.ProcessingRequest) (answer *pb.ProcessingResponse, late int, err error) {
	switch r := msg.GetRequest().(type) {
	case *pb.ProcessingRequest_RequestBody:
		return p.body(sideRequest, r.RequestBody)
	case *pb.ProcessingRequest_ResponseBody:
		return p.body(sideResponse, r.ResponseBody)
	case *pb.ProcessingRequest_RequestTrailers:
		return p.trailers(sideRequest)
	case *pb.ProcessingRequest_ResponseTrailers:
		return p.trailers(sideResponse)
	case *pb.ProcessingRequest_ResponseHeaders:
		p.ended[sideResponse] = r.ResponseHeaders.GetEndOfStream()
		return headersAnswer(sideResponse, nil), 0, nil
	}
	return nil, 0, &StepError{Phase: "passing", Input: messageName(msg)}
}

func (p *passer) body(s side, body *pb.HttpBody) (*pb.ProcessingResponse, int, error) {
	if p.ended[s] {
		return nil, len(body.GetBody()), nil
	}
	p.ended[s] = body.GetEndOfStream()
	mode := p.config.GetRequestBodyMode()
	if s == sideResponse {
		mode = p.config.GetResponseBodyMode()
	}
	if mode != filterv3.ProcessingMode_FULL_DUPLEX_STREAMED {
		return bodyMessage(s, &pb.CommonResponse{}), 0, nil // the others take it as "unchanged"
	}
	return bodyAnswer(s, body.GetBody(), body.GetEndOfStream()), 0, nil
}

func (p *passer) trailers(s side) (*pb.ProcessingResponse, int, error) {
	if p.ended[s] {
		return nil, 0, nil
	}
	p.ended[s] = true
	return trailersAnswer(s, nil), 0, nil
}

// pass runs a stream that is not ours, with these fields of the request, until Envoy
// ends it. In override mode Envoy does so right after the first answer.
func (s *Server) pass(st stream, first *pb.ProcessingRequest, from http.Header) error {
	p := &passer{config: first.GetProtocolConfig()}
	headers := first.GetRequestHeaders()
	to := maps.Clone(from)
	s.strip(to)
	mut := diff(from, to, protected)
	var sent order
	answer := p.first(headers, mut)
	_ = sent.check(answer)
	if err := st.Send(answer); err != nil {
		return nil // the stream has ended; so has our part
	}
	for {
		msg, err := st.Recv()
		if err != nil {
			return nil
		}
		answer, late, err := p.step(msg)
		if err == nil && answer != nil {
			err = sent.check(answer)
		}
		switch {
		case err != nil:
			return s.abort(st.Context(), err)
		case answer == nil:
			s.observe(st.Context(), Event{Kind: EventLateBody, Bytes: late})
		default:
			if err := st.Send(answer); err != nil {
				return nil
			}
		}
	}
}
