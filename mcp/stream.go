package mcp

import (
	"bytes"
	"errors"
	"io"

	"github.com/tidwall/gjson"

	"github.com/mcp-via-llm/mcp-via-llm/sse"
)

// eventStream is an event stream from a server on its way to the SDK. Each event
// is looked at first: what the server asks or tells is heard, answers are
// captured, and what is no message is left out, since the SDK would end the session
// at it. It holds one event at a time, of a bounded size.
type eventStream struct {
	body   io.ReadCloser
	decode sse.Decoder
	// pass gives what the SDK may see of a message, and fail what it is told of an
	// event that is unusable; nil for nothing.
	pass func(msg gjson.Result) []byte
	fail func(why string) []byte

	in  [16 << 10]byte
	out []byte // what the SDK has not read yet
	err error  // after out
}

func (w *wire) newStream(body io.ReadCloser, ex *exchange) *eventStream {
	s := &eventStream{body: body, decode: sse.Decoder{MaxEvent: maxMessage}}
	s.pass = func(msg gjson.Result) []byte { return w.pass(msg, ex) }
	s.fail = func(why string) []byte {
		if ex.cp == nil {
			return nil
		}
		ex.cp.isOdd(why)
		return rpcError(ex.cp.id, why)
	}
	return s
}

func (s *eventStream) Close() error { return s.body.Close() }

func (s *eventStream) Read(p []byte) (int, error) {
	for len(s.out) == 0 {
		if s.err != nil {
			return 0, s.err
		}
		n, err := s.body.Read(s.in[:])
		s.out = s.out[:0]
		if pushed := s.decode.Push(s.in[:n], s.event); pushed != nil {
			s.tooLarge(pushed)
			continue
		}
		if s.err = err; errors.Is(err, io.EOF) {
			_ = s.decode.End(s.event)
		}
	}
	n := copy(p, s.out)
	s.out = s.out[n:]
	return n, nil
}

// tooLarge ends the stream: nothing more is read of it.
func (s *eventStream) tooLarge(err error) {
	s.err = err
	if msg := s.fail(tooLarge); msg != nil {
		s.send(msg)
	}
	s.body.Close()
}

func (s *eventStream) event(ev sse.Event) error {
	if len(ev.Data) == 0 || ev.Type != "" && ev.Type != "message" {
		s.out = append(s.out, ev.Raw...)
		return nil
	}
	s.out = append(s.out, fields(ev.Raw)...)
	if ev.Data = flat(ev.Data); validJSON(ev.Data) {
		for _, msg := range messages(bytes.Clone(ev.Data)) { // the decoder takes its own back
			if passed := s.pass(msg); passed != nil {
				s.send(passed)
			}
		}
	} else if ev.Data[0] == '{' || ev.Data[0] == '[' {
		if msg := s.fail(brokenJSON); msg != nil {
			s.send(msg)
		}
	}
	s.out = append(s.out, '\n') // ends an event that has only fields
	return nil
}

// send gives the SDK a message. JSON may span lines, and each is a line of data.
func (s *eventStream) send(msg []byte) {
	for line := range bytes.Lines(msg) {
		s.out = append(append(s.out, "data: "...), line...)
	}
	s.out = append(s.out, "\n\n"...)
}

// fields are the lines of an event that matter for resuming the stream.
func fields(raw []byte) []byte {
	var kept []byte
	for line := range bytes.FieldsFuncSeq(raw, func(r rune) bool { return r == '\r' || r == '\n' }) {
		if bytes.HasPrefix(line, []byte("id:")) || bytes.HasPrefix(line, []byte("retry:")) {
			kept = append(append(kept, line...), '\n')
		}
	}
	return kept
}

// messages are those of a batch, which 2025-03-26 allows, or the one there is; data
// must not change any more.
func messages(data []byte) []gjson.Result {
	parsed := parse(data)
	if parsed.IsArray() {
		return parsed.Array()
	}
	return []gjson.Result{parsed}
}
