package extproc

import (
	"fmt"
	"net/http"
	"strconv"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
)

const (
	// chunkSize bounds one body message to Envoy. With what is around it, it fits
	// one of gRPC's buffers of 32 KiB: the next size is 1 MiB, cleared each time.
	chunkSize = 31 << 10
	// collectLimit bounds what is kept of an answer that can be streamed as
	// soon as the client has sent its request; beyond it Write waits.
	collectLimit = 1 << 20
	// wholeLimit bounds an answer that Envoy only takes whole, because the
	// upstream is silent or sent no body.
	wholeLimit = 32 << 20
)

// requestPhase is what Envoy was told about the request.
type requestPhase int

const (
	requestHeld   requestPhase = iota // the request headers are unanswered
	requestOpen                       // released, body going out
	requestClosed                     // released, end of stream sent
)

// answerPhase is what Envoy was told about the response.
type answerPhase int

const (
	answerNone       answerPhase = iota
	answerCollecting             // the handler answers, Envoy cannot stream it yet
	answerMutated                // the upstream's headers were answered, body going out
	answerStreamed               // a streamed immediate response, body going out
	answerClosed                 // all was sent
	answerForeign                // Envoy answers by itself; its response is passed
)

var requestPhases = [...]string{"held", "open", "closed"}
var answerPhases = [...]string{"none", "collecting", "mutated", "streamed", "closed", "foreign"}

// machine is one exchange as a state machine: an input goes in, the outputs
// come out in the order in which they must be carried out. It does no I/O,
// takes no time and starts no goroutine.
type machine struct {
	request requestPhase
	answer  answerPhase

	// What Envoy has sent so far.
	requestEnd      bool // end of stream or trailers
	requestBare     bool // the headers carried the end of stream: Envoy takes no body
	requestTrailers bool // trailers came and are unanswered
	upstream        http.Header
	upstreamStatus  int  // 0: no response headers yet
	upstreamBare    bool // the headers carried the end of stream
	upstreamBody    bool // a body message or the trailers came
	upstreamEnd     bool
	upstreamTrailer http.Header // nil: none came

	head *answerHead // of the answer being collected
	kept []byte
}

// newMachine starts with the request headers, which Envoy sends first.
func newMachine(bare bool) *machine {
	return &machine{requestBare: bare, requestEnd: bare}
}

// input is one of the types below.
type input interface{ String() string }

// envoyInput is a message from Envoy.
type envoyInput struct{ msg *pb.ProcessingRequest }

// releaseInput is the first round trip: let the request go.
type releaseInput struct {
	mut     *pb.HeaderMutation
	body    []byte             // the first part of the body, or all of it
	last    bool               // body is all of it
	trailer *pb.HeaderMutation // as in requestInput
}

// requestInput is more of the outbound request's body.
type requestInput struct {
	body    []byte
	last    bool
	trailer *pb.HeaderMutation // with last: how the client's trailers change
}

// answerInput is a part of the handler's answer.
type answerInput struct {
	head    *answerHead // with the first part
	body    []byte      // not retained
	last    bool
	trailer http.Header // with last: the handler's trailers
}

// answerHead is what WriteHeader says.
type answerHead struct {
	status int
	header http.Header
}

func (in envoyInput) String() string   { return messageName(in.msg) }
func (in releaseInput) String() string { return "release" }
func (in requestInput) String() string { return "outbound request body" }
func (in answerInput) String() string  { return "answer" }

// action is what has to be done with an output.
type action int

const (
	doSend          action = iota // msg to Envoy
	doRequestBody                 // data to the request's Body
	doRequestEnd                  // its end; header are the trailers
	doRequestDrop                 // nobody needs the rest of it
	doResponseHead                // status and header to the first round trip
	doResponseBody                // data to its response's Body
	doResponseEnd                 // its end; header are the trailers
	doCountLate                   // data came after the end of stream
	doCancelHandler               // the answer is Envoy's now
)

type output struct {
	do     action
	msg    *pb.ProcessingResponse
	data   []byte
	header http.Header
	status int
	bare   bool // with doResponseHead: no body follows
}

// StepError says that an input does not fit the phase the exchange is in.
type StepError struct {
	Phase string // of the request and of the answer, "open/none"
	Input string
}

func (e *StepError) Error() string {
	return fmt.Sprintf("extproc: %s does not fit an exchange in phase %s", e.Input, e.Phase)
}

func (m *machine) illegal(in input) error {
	return &StepError{Phase: requestPhases[m.request] + "/" + answerPhases[m.answer], Input: in.String()}
}

// step advances the exchange. After an error the machine is as it was.
func (m *machine) step(in input) ([]output, error) {
	switch in := in.(type) {
	case envoyInput:
		return m.stepEnvoy(in)
	case releaseInput:
		return m.stepRelease(in)
	case requestInput:
		return m.stepRequest(in)
	case answerInput:
		return m.stepAnswer(in)
	}
	return nil, m.illegal(in)
}

// full asks to take no more of the answer for now.
func (m *machine) full() bool {
	return m.answer == answerCollecting && m.request == requestHeld && len(m.kept) >= collectLimit
}

// done says that Envoy needs nothing more from us.
func (m *machine) done() bool { return m.answer == answerClosed }

// stepEnvoy takes what Envoy sends. In full duplex it may send response
// messages while the request body is still coming.
func (m *machine) stepEnvoy(in envoyInput) ([]output, error) {
	switch r := in.msg.GetRequest().(type) {
	case *pb.ProcessingRequest_RequestBody:
		return m.requestBody(r.RequestBody.GetBody(), r.RequestBody.GetEndOfStream()), nil
	case *pb.ProcessingRequest_RequestTrailers:
		return m.requestTrailersCame(toHeader(r.RequestTrailers.GetTrailers())), nil
	case *pb.ProcessingRequest_ResponseHeaders:
		if m.upstreamStatus != 0 {
			return nil, m.illegal(in)
		}
		return m.responseHeaders(r.ResponseHeaders), nil
	case *pb.ProcessingRequest_ResponseBody:
		if m.upstreamStatus == 0 && m.answer != answerClosed {
			return nil, m.illegal(in)
		}
		return m.responseBody(r.ResponseBody.GetBody(), r.ResponseBody.GetEndOfStream()), nil
	case *pb.ProcessingRequest_ResponseTrailers:
		if m.upstreamStatus == 0 && m.answer != answerClosed {
			return nil, m.illegal(in)
		}
		return m.responseTrailers(toHeader(r.ResponseTrailers.GetTrailers())), nil
	}
	return nil, m.illegal(in)
}

func (m *machine) requestBody(data []byte, last bool) []output {
	if m.requestEnd {
		// Envoy 1.35 and later may deliver the last chunk twice
		// (https://github.com/envoyproxy/envoy/issues/46237).
		return []output{{do: doCountLate, data: data}}
	}
	var out []output
	if len(data) > 0 {
		out = append(out, output{do: doRequestBody, data: data})
	}
	if last {
		m.requestEnd = true
		out = append(out, output{do: doRequestEnd})
		out = append(out, m.settle(false, nil)...)
	}
	return out
}

func (m *machine) requestTrailersCame(trailer http.Header) []output {
	if m.requestEnd {
		return []output{{do: doCountLate}}
	}
	m.requestEnd = true
	m.requestTrailers = m.request != requestClosed
	return append([]output{{do: doRequestEnd, header: trailer}}, m.settle(false, nil)...)
}

func (m *machine) responseHeaders(h *pb.HttpHeaders) []output {
	m.upstream = toHeader(h.GetHeaders())
	m.upstreamStatus = statusOf(h.GetHeaders())
	m.upstreamBare = h.GetEndOfStream()
	m.upstreamEnd = m.upstreamBare
	if m.request == requestHeld && (m.answer == answerNone || m.answer == answerCollecting) {
		// A local reply of Envoy's, such as the stream idle timeout's 504:
		// nothing can be released or said any more.
		m.answer, m.kept = answerForeign, nil
		return []output{{do: doCancelHandler}, {do: doSend, msg: headersAnswer(sideResponse, nil)}}
	}
	if m.answer != answerNone && m.answer != answerCollecting {
		return nil
	}
	out := []output{{do: doResponseHead, header: m.upstream, status: m.upstreamStatus, bare: m.upstreamBare}}
	return append(out, m.settle(false, nil)...)
}

func (m *machine) responseBody(data []byte, last bool) []output {
	switch {
	case m.upstreamEnd:
		return []output{{do: doCountLate, data: data}}
	case m.answer == answerForeign:
		m.upstreamEnd = last
		return []output{{do: doSend, msg: bodyAnswer(sideResponse, data, last)}}
	}
	m.upstreamBody, m.upstreamEnd = true, last
	if m.answer == answerClosed || m.answer == answerStreamed {
		return nil
	}
	out := m.settle(false, nil)
	if len(data) > 0 {
		out = append(out, output{do: doResponseBody, data: data})
	}
	if last {
		out = append(out, output{do: doResponseEnd})
	}
	return out
}

func (m *machine) responseTrailers(trailer http.Header) []output {
	switch {
	case m.upstreamEnd:
		return []output{{do: doCountLate}}
	case m.answer == answerForeign:
		m.upstreamEnd = true
		return []output{{do: doSend, msg: trailersAnswer(sideResponse, nil)}}
	}
	m.upstreamBody, m.upstreamEnd = true, true
	m.upstreamTrailer = trailer
	if m.answer == answerClosed || m.answer == answerStreamed {
		return nil
	}
	return append(m.settle(false, nil), output{do: doResponseEnd, header: trailer})
}

// statusOf reads :status; an upstream without a proper one is a bad gateway.
func statusOf(h *corev3.HeaderMap) int {
	status, err := strconv.Atoi(pseudo(h, ":status"))
	if err != nil || status < 100 || status > 999 {
		return http.StatusBadGateway
	}
	return status
}

func messageName(msg *pb.ProcessingRequest) string {
	switch msg.GetRequest().(type) {
	case *pb.ProcessingRequest_RequestHeaders:
		return "request_headers"
	case *pb.ProcessingRequest_RequestBody:
		return "request_body"
	case *pb.ProcessingRequest_RequestTrailers:
		return "request_trailers"
	case *pb.ProcessingRequest_ResponseHeaders:
		return "response_headers"
	case *pb.ProcessingRequest_ResponseBody:
		return "response_body"
	case *pb.ProcessingRequest_ResponseTrailers:
		return "response_trailers"
	}
	return "a message of no known kind"
}
