package extproc

import (
	"net/http"
	"slices"
	"strconv"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
)

// This file is what the handler may wish for. Measured on Envoy 1.37.0,
// 1.38.3, 1.39.3 and 1.40.0, what Envoy accepts as an answer depends on how
// far the exchange is:
//
//	request held                       streamed immediate response; but while the
//	                                   client still sends its body, the upstream
//	                                   may see a cut request, so wait for its end
//	request released, upstream silent  an ImmediateResponse; a streamed one is
//	                                   spurious and the client gets a 500
//	upstream's response headers here   their answer, but a body only after the
//	                                   upstream's first body message: before it
//	                                   ours is spurious and the client is cut
//	… and they were all of it          no body can follow: an ImmediateResponse
//
// An ImmediateResponse is good in every state as long as nothing was sent.

func (m *machine) stepRelease(in releaseInput) ([]output, error) {
	if m.request != requestHeld || m.answer != answerNone {
		return nil, m.illegal(in)
	}
	if m.requestBare {
		if !in.last {
			return nil, m.illegal(in)
		}
		m.request = requestClosed
		if len(in.body) == 0 {
			return send(headersAnswer(sideRequest, in.mut)), nil
		}
		return send(replaceAnswer(sideRequest, in.mut, in.body)), nil
	}
	m.request = requestOpen
	out := send(headersAnswer(sideRequest, in.mut))
	if len(in.body) == 0 && !in.last {
		return out, nil
	}
	more, err := m.stepRequest(requestInput{body: in.body, last: in.last, trailer: in.trailer})
	return append(out, more...), err
}

func (m *machine) stepRequest(in requestInput) ([]output, error) {
	if m.request != requestOpen {
		return nil, m.illegal(in)
	}
	if m.answer == answerClosed || m.answer == answerForeign {
		return nil, nil
	}
	// The trailers' answer ends the body, so it carries no end of stream then;
	// an end of stream would drop the trailers.
	withTrailers := in.last && m.requestTrailers
	out := chunks(in.body, in.last && !withTrailers, func(data []byte, last bool) *pb.ProcessingResponse {
		return bodyAnswer(sideRequest, data, last)
	})
	if withTrailers {
		m.requestTrailers = false
		out = append(out, output{do: doSend, msg: trailersAnswer(sideRequest, in.trailer)})
	}
	if in.last {
		m.request = requestClosed
		// What the client still sends nobody will read; left in the pipe it
		// would keep the response behind it.
		out = append(out, output{do: doRequestDrop})
	}
	return out, nil
}

func (m *machine) stepAnswer(in answerInput) ([]output, error) {
	switch m.answer {
	case answerNone:
		if in.head == nil {
			return nil, m.illegal(in)
		}
		m.head, m.answer = in.head, answerCollecting
		var out []output
		if m.request == requestHeld {
			// As in HTTP/1, who answers gives up the rest of the request.
			out = append(out, output{do: doRequestDrop})
		}
		m.kept = append(m.kept, in.body...)
		return append(out, m.settle(in.last, in.trailer)...), nil
	case answerCollecting:
		if len(m.kept)+len(in.body) > wholeLimit {
			return nil, errTooLarge
		}
		m.kept = append(m.kept, in.body...)
		return m.settle(in.last, in.trailer), nil
	case answerMutated, answerStreamed:
		return m.answerBody(in.body, in.last, in.trailer), nil
	}
	return nil, m.illegal(in)
}

// settle sends a collected answer as soon as Envoy can take it.
func (m *machine) settle(last bool, trailer http.Header) []output {
	if m.answer != answerCollecting {
		return nil
	}
	head, body := m.head, m.kept
	var out []output
	switch {
	case m.upstreamBare && last && len(body) == 0:
		m.answer = answerClosed
		return send(headersAnswer(sideResponse, m.responseMutation(head)))
	case m.upstreamBody:
		out = send(headersAnswer(sideResponse, m.responseMutation(head)))
		m.answer, m.upstream = answerMutated, nil
	case last:
		m.answer, m.kept = answerClosed, nil
		return send(immediateAnswer(head.status, immediateHeaders(head.header), body))
	case m.upstreamStatus == 0 && m.request == requestHeld && m.requestEnd:
		out = send(streamedHead(headerList(head.status, head.header)))
		m.answer = answerStreamed
	default:
		return nil
	}
	m.head, m.kept = nil, nil
	if len(body) == 0 && !last {
		return out
	}
	return append(out, m.answerBody(body, last, trailer)...)
}

func (m *machine) answerBody(data []byte, last bool, trailer http.Header) []output {
	kind := func(data []byte, last bool) *pb.ProcessingResponse { return bodyAnswer(sideResponse, data, last) }
	if m.answer == answerStreamed {
		kind = streamedBody
	}
	// Trailers can only go where the upstream's came; an end of stream on the
	// body drops those.
	withTrailers := last && m.answer == answerMutated && m.upstreamTrailer != nil && len(trailer) > 0
	out := chunks(data, last && !withTrailers, kind)
	if withTrailers {
		out = append(out, output{do: doSend, msg: trailersAnswer(sideResponse, diff(m.upstreamTrailer, trailer, protected))})
	}
	if last {
		m.answer = answerClosed
	}
	return out
}

// responseMutation turns the upstream's response head into the handler's.
func (m *machine) responseMutation(head *answerHead) *pb.HeaderMutation {
	mut := diff(m.upstream, head.header, func(key string) bool {
		// net/http adds a Date to every answer, so a handler writes none.
		return protected(key) || key == "Date" && len(head.header[key]) == 0
	})
	if head.status != m.upstreamStatus {
		if mut == nil {
			mut = &pb.HeaderMutation{}
		}
		mut.SetHeaders = append(setOptions(":status", []string{strconv.Itoa(head.status)}), mut.SetHeaders...)
	}
	return mut
}

// immediateHeaders sets the fields of a response that Envoy makes; it counts
// the body itself.
func immediateHeaders(h http.Header) *pb.HeaderMutation {
	return diff(nil, h, func(key string) bool { return protected(key) || key == "Content-Length" })
}

func send(msgs ...*pb.ProcessingResponse) []output {
	out := make([]output, len(msgs))
	for i, msg := range msgs {
		out[i] = output{do: doSend, msg: msg}
	}
	return out
}

// chunks cuts data into messages; only the last of them carries last. No data
// makes a message only to carry it.
func chunks(data []byte, last bool, message func([]byte, bool) *pb.ProcessingResponse) []output {
	var out []output
	for part := range slices.Chunk(data, chunkSize) {
		out = append(out, output{do: doSend, msg: message(part, false)})
	}
	if !last {
		return out
	}
	var tail []byte
	if n := len(data); n > 0 {
		tail = data[(n-1)/chunkSize*chunkSize:]
		out = out[:len(out)-1]
	}
	return append(out, output{do: doSend, msg: message(tail, true)})
}
