package extproc

import (
	"bytes"
	"net/http"
	"testing"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"pgregory.net/rapid"
)

// exchangeScript is a recording taken apart, so that it can be put together in
// other ways that Envoy could have chosen.
type exchangeScript struct {
	bare, upstreamBare         bool
	request, response          []byte
	trailers, upstreamTrailers bool
	upstream                   *pb.ProcessingRequest // nil: it never answers
}

func takeApart(r *recording) exchangeScript {
	var s exchangeScript
	for _, msg := range r.envoy {
		switch {
		case msg.GetRequestHeaders() != nil:
			s.bare = msg.GetRequestHeaders().GetEndOfStream()
		case msg.GetRequestBody() != nil:
			s.request = append(s.request, msg.GetRequestBody().GetBody()...)
		case msg.GetRequestTrailers() != nil:
			s.trailers = true
		case msg.GetResponseHeaders() != nil:
			s.upstream, s.upstreamBare = msg, msg.GetResponseHeaders().GetEndOfStream()
		case msg.GetResponseBody() != nil:
			s.response = append(s.response, msg.GetResponseBody().GetBody()...)
		case msg.GetResponseTrailers() != nil:
			s.upstreamTrailers = true
		}
	}
	return s
}

// rechunk cuts a body anywhere, ends it in the last chunk, in an empty one or
// with trailers, and may repeat the end.
func rechunk(t *rapid.T, data []byte, trailers bool, message func(string, bool) *pb.ProcessingRequest, end *pb.ProcessingRequest) []*pb.ProcessingRequest {
	var msgs []*pb.ProcessingRequest
	for len(data) > 0 {
		n := rapid.IntRange(1, len(data)).Draw(t, "chunk")
		msgs = append(msgs, message(string(data[:n]), false))
		data = data[n:]
		if len(msgs) == 8 {
			msgs = append(msgs, message(string(data), false))
			data = nil
		}
	}
	switch {
	case trailers:
		msgs = append(msgs, end)
	case len(msgs) > 0 && rapid.Bool().Draw(t, "end with data"):
		last := msgs[len(msgs)-1]
		if b := last.GetRequestBody(); b != nil {
			b.EndOfStream = true
		} else {
			last.GetResponseBody().EndOfStream = true
		}
	default:
		msgs = append(msgs, message("", true))
	}
	if rapid.Bool().Draw(t, "duplicate end") {
		msgs = append(msgs, message("tail", true))
	}
	return msgs
}

// actor is a handler as a pure function of the machine's outputs.
type actor func(o output) []input

// copyActor forwards both ways at once.
func copyActor(o output) []input {
	switch o.do {
	case doRequestBody:
		return []input{requestInput{body: o.data}}
	case doRequestEnd:
		return []input{requestInput{last: true}}
	case doResponseHead:
		return []input{answerInput{head: &answerHead{o.status, o.header}}}
	case doResponseBody:
		return []input{answerInput{body: o.data}}
	case doResponseEnd:
		return []input{answerInput{last: true, trailer: o.header}}
	}
	return nil
}

// holdActor sends its own body, waits for the whole response, then answers.
func holdActor(o output) []input {
	switch o.do {
	case doRequestEnd:
		return []input{requestInput{body: []byte("own"), last: true}}
	case doResponseEnd:
		return []input{answerInput{head: &answerHead{502, http.Header{}}, body: []byte("own"), last: true}}
	}
	return nil
}

// runner drives a machine with Envoy's messages and an actor and checks every
// output on its way out.
type runner struct {
	t       *rapid.T
	m       *machine
	order   order
	act     actor
	out, in bytes.Buffer // what Envoy got: of the request, of the answer
	ends    int          // of the answer
	reqEnds int
}

func (r *runner) step(in input) {
	out, err := r.m.step(in)
	if err != nil {
		r.t.Fatalf("%v", err)
	}
	for _, o := range out {
		if o.do != doSend {
			for _, wish := range r.act(o) {
				r.step(wish)
			}
			continue
		}
		if err := r.order.check(o.msg); err != nil {
			r.t.Fatal(err)
		}
		r.count(o.msg)
	}
}

func (r *runner) count(msg *pb.ProcessingResponse) {
	switch m := msg.GetResponse().(type) {
	case *pb.ProcessingResponse_RequestBody:
		s := m.RequestBody.GetResponse().GetBodyMutation().GetStreamedResponse()
		r.out.Write(s.GetBody())
		if s.GetEndOfStream() {
			r.reqEnds++
		}
	case *pb.ProcessingResponse_RequestTrailers:
		r.reqEnds++
	case *pb.ProcessingResponse_ResponseBody:
		s := m.ResponseBody.GetResponse().GetBodyMutation().GetStreamedResponse()
		r.in.Write(s.GetBody())
		if s.GetEndOfStream() {
			r.ends++
		}
	case *pb.ProcessingResponse_ResponseTrailers:
		r.ends++
	case *pb.ProcessingResponse_ImmediateResponse:
		r.in.Write(m.ImmediateResponse.GetBody())
		r.ends++
	case *pb.ProcessingResponse_StreamedImmediateResponse:
		b := m.StreamedImmediateResponse.GetBodyResponse()
		r.in.Write(b.GetBody())
		if b.GetEndOfStream() {
			r.ends++
		}
	}
}

// TestAnyChunking: however Envoy cuts, orders and ends its messages, and
// wherever the stream is cut, the machine sends in order, loses and repeats
// nothing, and ends each side once.
func TestAnyChunking(t *testing.T) {
	var scripts []exchangeScript
	for _, f := range recordedFlavours {
		for _, r := range loadRecordings(t, f) {
			scripts = append(scripts, takeApart(r))
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.SampledFrom(scripts).Draw(t, "recording")
		hold := rapid.Bool().Draw(t, "hold")
		r := &runner{t: t, m: newMachine(s.bare), act: copyActor}
		if hold {
			r.act = holdActor
		}
		r.step(releaseInput{last: s.bare})
		var request, response []*pb.ProcessingRequest
		if !s.bare {
			request = rechunk(t, s.request, s.trailers, requestBody, requestTrailers("x-sum", "1"))
		}
		if s.upstream != nil {
			response = []*pb.ProcessingRequest{s.upstream}
			if !s.upstreamBare {
				response = append(response, rechunk(t, s.response, s.upstreamTrailers, responseBody, responseTrailers("x-sum", "1"))...)
			}
		}
		complete := r.play(request, response)
		if !complete || s.upstream == nil {
			return
		}
		if s.upstreamBare && !hold {
			r.step(answerInput{last: true})
		}
		r.check(s, hold)
	})
}

// play interleaves the two sides at random and may stop anywhere.
func (r *runner) play(request, response []*pb.ProcessingRequest) (complete bool) {
	total := len(request) + len(response)
	stop := total
	if rapid.Bool().Draw(r.t, "cut") {
		stop = rapid.IntRange(0, total).Draw(r.t, "after")
	}
	for range stop {
		from := &response
		if len(response) == 0 || len(request) > 0 && rapid.Bool().Draw(r.t, "request next") {
			from = &request
		}
		r.step(fromEnvoy((*from)[0]))
		*from = (*from)[1:]
	}
	return stop == total
}

func (r *runner) check(s exchangeScript, hold bool) {
	wantOut, wantIn := s.request, s.response
	if hold {
		wantOut, wantIn = []byte("own"), []byte("own")
		if s.bare {
			wantOut = nil
		}
		if s.upstreamBare {
			return // holdActor sees no end there
		}
	}
	// An answer that ends before the request does leaves its rest behind.
	if r.m.request == requestClosed && !bytes.Equal(r.out.Bytes(), wantOut) {
		r.t.Fatalf("the upstream got %d bytes, want %d", r.out.Len(), len(wantOut))
	}
	if !bytes.Equal(r.in.Bytes(), wantIn) {
		r.t.Fatalf("the client got %d bytes, want %d", r.in.Len(), len(wantIn))
	}
	if !r.m.done() || r.reqEnds > 1 {
		r.t.Fatalf("done %v, %d ends of the request, %d of the answer", r.m.done(), r.reqEnds, r.ends)
	}
	if !s.upstreamBare && r.ends != 1 {
		r.t.Fatalf("%d ends of the answer", r.ends)
	}
}

// TestAnswerAtAnyPoint: a handler that answers by itself, at any point of the
// exchange and in any pieces, is either answered whole and once, or still waits
// for something that Envoy has yet to send.
func TestAnswerAtAnyPoint(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bare := rapid.Bool().Draw(t, "bare")
		r := &runner{t: t, m: newMachine(bare), act: func(output) []input { return nil }}
		steps := []input{clientEnd}
		if bare {
			steps = nil
		}
		if rapid.Bool().Draw(t, "released") {
			r.step(releaseInput{last: bare})
			steps = append(steps, rapid.SampledFrom([]input{upstream, bareUp}).Draw(t, "upstream"))
		}
		parts := rapid.SliceOfN(rapid.StringN(0, 5, -1), 1, 5).Draw(t, "parts")
		var want string
		for i, part := range parts {
			for len(steps) > 0 && rapid.Bool().Draw(t, "Envoy first") {
				r.step(steps[0])
				steps = steps[1:]
			}
			in := answerInput{body: []byte(part), last: i == len(parts)-1}
			if i == 0 {
				in.head = &answerHead{status: 200, header: http.Header{}}
			}
			r.step(in)
			want += part
		}
		for _, in := range steps {
			r.step(in)
		}
		if !r.m.done() || r.in.String() != want {
			t.Fatalf("done %v, sent %q, want %q", r.m.done(), r.in.String(), want)
		}
	})
}
