package loop

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/mcp-via-llm/mcp-via-llm/chat"
	"github.com/mcp-via-llm/mcp-via-llm/sse"
)

// errCoding says that a provider's answer has a content-encoding we cannot read.
var errCoding = errors.New("unsupported content-encoding")

// errCopied says that the provider's answer went to the client as it came, so
// that the turn is over.
var errCopied = errors.New("its answer was copied to the client")

// segment does one exchange with the model.
func (t *turn) segment(ctx context.Context, body []byte) (*chat.Reply, error) {
	report := SegmentReport{Offset: time.Since(t.start), Bytes: len(body), Running: true}
	t.sent, t.lag, t.told = time.Now(), 0, false
	t.rec.segment(report)
	first := !t.answered

	ctx, span := t.startSegment(ctx)
	if span.IsRecording() {
		t.segmentSpan = at(ctx)
	}
	reply, err := t.exchange(ctx, body, &report, first)
	report.Duration, report.Chunk, report.Running = time.Since(t.sent), t.lag, false
	t.answered = t.answered || err == nil
	if reply != nil {
		t.rec.usage = chat.AddUsage(t.rec.usage, reply.Usage)
	}
	t.ended, t.endedIn = t.endSegment(ctx, span, body, &report, reply, err), ctx
	if reply != nil {
		t.counted, t.count = reply.Usage, report.Tokens
	}
	if err != nil {
		t.tellSegment()
	}
	t.rec.update(report)
	return reply, err
}

// exchange sends a segment's request and reads the answer.
func (t *turn) exchange(ctx context.Context, body []byte, report *SegmentReport, first bool) (*chat.Reply, error) {
	resp, err := t.h.Transport.RoundTrip(t.request(ctx, body))
	if err != nil {
		return nil, err
	}
	defer func() {
		resp.Body.Close()
		*resp = http.Response{} // the transport may keep it, and with it the request, while the turn goes on
	}()
	report.First, report.Status = time.Since(t.sent), resp.StatusCode
	t.rec.update(*report)
	if resp.StatusCode/100 != 2 {
		return nil, t.refused(resp, first)
	}
	if err := decode(resp); err != nil {
		return nil, err
	}
	if t.req.Stream {
		return t.readStream(resp)
	}
	return t.readWhole(resp, first)
}

var uncoded = []string{"identity"}

// request is the client's request with a segment's body. Answers have to be read,
// so no coding is accepted.
func (t *turn) request(ctx context.Context, body []byte) *http.Request {
	out := t.h.outbound(ctx, t.r, newBytesBody(body), int64(len(body)))
	delete(out.Header, "Content-Encoding")
	out.Header["Accept-Encoding"] = uncoded
	t.h.inject(ctx, out.Header)
	return out
}

// refused handles a status that is no success: the client gets the first
// segment's byte for byte, if it has got nothing yet and a shorter request is of no use.
func (t *turn) refused(resp *http.Response, first bool) error {
	again := false
	if first && t.canShorten() {
		var err error
		if again, err = peekRefusal(resp); err != nil {
			return err
		}
	}
	if first && !again && !t.answer.seize() {
		cut := copyResponse(t.w, resp)
		return errors.Join(fmt.Errorf("the provider answered with status %d, and %w", resp.StatusCode, errCopied), cut)
	}
	body, err := readAll(resp.Body, t.h.MaxResponseBytes, resp.ContentLength)
	if err != nil {
		return err
	}
	return &statusError{resp.StatusCode, resp.Header, body}
}

// decode undoes gzip: some providers compress whatever was asked for.
func decode(resp *http.Response) error {
	switch coding := strings.ToLower(resp.Header.Get("Content-Encoding")); coding {
	case "", "identity":
		return nil
	case "gzip", "x-gzip":
		zr, err := gzip.NewReader(resp.Body)
		if err != nil {
			return fmt.Errorf("%w: %w", errCoding, err)
		}
		resp.Body = struct {
			io.Reader
			io.Closer
		}{zr, resp.Body}
		return nil
	default:
		return fmt.Errorf("%w %q", errCoding, coding)
	}
}

func contentType(resp *http.Response, name string) bool {
	return strings.Contains(strings.ToLower(resp.Header.Get("Content-Type")), name)
}

// readStream relays a streamed answer to the client as it comes. The client's
// answer begins with the first byte of the provider's, not with its headers:
// until then the silence is the provider's.
func (t *turn) readStream(resp *http.Response) (*chat.Reply, error) {
	t.relay.Begin()
	read := t.events
	if contentType(resp, "json") {
		read = t.oneChunk
	}
	if err := read(resp); err != nil {
		return nil, err
	}
	reply, last, err := t.relay.End()
	if err != nil {
		return nil, err
	}
	return reply, t.answer.event(last)
}

// begin opens the client's answer, and shows what a broken attempt had of it.
func (t *turn) begin(resp *http.Response) error {
	if t.lag == 0 {
		t.lag = time.Since(t.sent)
		t.rec.note(func(r *Report) { r.Segments[len(r.Segments)-1].Chunk = t.lag })
	}
	t.answer.open(resp.Header)
	return t.showQueued()
}

// events feeds a provider's server-sent events to the relay.
func (t *turn) events(resp *http.Response) error {
	decoder := sse.Decoder{MaxEvent: maxEventBytes}
	take := func(ev sse.Event) error {
		if len(ev.Data) == 0 {
			return nil // a comment or an empty event: somebody's keep-alive
		}
		return t.chunk(string(ev.Data))
	}
	buf := make([]byte, 16<<10)
	for {
		n, err := resp.Body.Read(buf)
		if n > 0 {
			if err := t.begin(resp); err != nil {
				return err
			}
		}
		if err := decoder.Push(buf[:n], take); err != nil {
			return tooLarge(err)
		}
		if err == io.EOF {
			return tooLarge(decoder.End(take))
		}
		if err != nil {
			return fmt.Errorf("%w: %w", chat.ErrTruncated, err)
		}
		if t.relay.Done() {
			return nil
		}
	}
}

// oneChunk takes a whole completion where a stream was asked for.
func (t *turn) oneChunk(resp *http.Response) error {
	whole, err := readAll(resp.Body, t.h.MaxResponseBytes, 0)
	if err != nil {
		return err
	}
	if err := t.begin(resp); err != nil {
		return err
	}
	data := chat.AsChunk(string(whole))
	if data == "" {
		data = string(whole) // an error object, or nothing we know
	}
	if err := t.chunk(data); err != nil {
		return err
	}
	return t.chunk("[DONE]")
}

func (t *turn) chunk(data string) error {
	out, err := t.relay.Chunk(data)
	if err != nil {
		return err
	}
	t.told = t.told || out != ""
	if t.client.KeepaliveStyle == "chunk" {
		t.answer.setIdle(t.relay.Idle())
	}
	return t.answer.event(out)
}

func tooLarge(err error) error {
	var large *sse.TooLargeError
	if errors.As(err, &large) {
		return fmt.Errorf("%w: %w", errTooLarge, err)
	}
	return err
}

// readWhole reads an answer that is not streamed. What is no completion goes to
// the client as it came, if it is the answer to the client's own request.
func (t *turn) readWhole(resp *http.Response, first bool) (*chat.Reply, error) {
	body, err := readAll(resp.Body, t.h.MaxResponseBytes, resp.ContentLength)
	if err != nil {
		if !errors.Is(err, errTooLarge) {
			err = fmt.Errorf("%w: %w", chat.ErrTruncated, err)
		}
		return nil, err
	}
	completion := chat.View(body)
	if contentType(resp, "event-stream") {
		if completion, err = assemble(body, t.req.Model, fmt.Sprintf("%s/%d", t.conv.whole(), len(t.rec.report.Segments))); err != nil {
			return nil, err
		}
	}
	reply, err := t.whole.Add(completion)
	if first && overflowed(err) && t.canShorten() {
		return nil, err
	}
	if first {
		copyHeader(t.w.Header(), resp.Header)
		t.status = resp.StatusCode
		if err != nil {
			t.w.Header().Del("Content-Encoding")
			t.w.Header().Del("Content-Length")
			t.w.WriteHeader(resp.StatusCode)
			t.w.Write(body) //nolint:errcheck // the client is gone, nobody is left to tell
			return nil, fmt.Errorf("%w, and %w", err, errCopied)
		}
	}
	return reply, err
}

// assemble makes a completion of a stream that nobody asked for.
func assemble(body []byte, model, seed string) (string, error) {
	var events []string
	decoder := sse.Decoder{}
	take := func(ev sse.Event) error { events = append(events, string(ev.Data)); return nil }
	if err := decoder.Push(body, take); err != nil {
		return "", err
	}
	if err := decoder.End(take); err != nil {
		return "", err
	}
	return chat.AsCompletion(events, model, seed)
}
