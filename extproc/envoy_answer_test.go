package extproc

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"
)

// handshake makes the sender wait until the receiver has the message: no
// message can come late, together with the next one, without a deadlock.
type handshake chan string

func (h handshake) send(ctx context.Context, w http.ResponseWriter, text string) error {
	if _, err := io.WriteString(w, text); err != nil {
		return err
	}
	w.(http.Flusher).Flush()
	select {
	case got := <-h:
		if got != text {
			return fmt.Errorf("sent %q, received %q", text, got)
		}
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(10 * time.Second):
		return fmt.Errorf("%q was not received", text)
	}
}

// receive reads lines and reports each.
func (h handshake) receive(t testing.TB, body io.Reader) int {
	t.Helper()
	lines := bufio.NewReader(body)
	for n := 0; ; n++ {
		line, err := lines.ReadString('\n')
		if err == io.EOF {
			return n
		}
		if err != nil {
			t.Error(err)
			return n
		}
		h <- line
	}
}

func (r *rig) open(t testing.TB, ctx context.Context, path string, body io.Reader) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, "POST", r.url(path), body)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := r.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

func testFlushed(t *testing.T, r *rig) {
	h := make(handshake)
	r.on(copyHandler, func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body)
		for i := range 50 {
			if err := h.send(req.Context(), w, fmt.Sprintf("data: %d\n", i)); err != nil {
				t.Error(err)
				return
			}
		}
	})
	resp := r.open(t, withTimeout(t), "/sse", strings.NewReader("{}"))
	if n := h.receive(t, resp.Body); n != 50 {
		t.Errorf("%d messages", n)
	}
}

// testLongAnswer: after the upstream's end of stream the answer goes on for
// longer than the route's timeout (1 s).
func testLongAnswer(t *testing.T, r *rig) {
	h := make(handshake)
	r.on(func(w http.ResponseWriter, req *http.Request) {
		resp, err := Transport().RoundTrip(req)
		if err != nil {
			t.Error(err)
			return
		}
		if b, err := io.ReadAll(resp.Body); err != nil || string(b) != "upstream answer" {
			t.Error(string(b), err)
		}
		pause := time.NewTicker(400 * time.Millisecond)
		defer pause.Stop()
		for range 4 {
			<-pause.C
			if err := h.send(req.Context(), w, ": keep-alive\n"); err != nil {
				t.Error(err)
				return
			}
		}
	}, upstreamOK)
	for _, path := range []string{"/short-timeout/x", "/x"} {
		resp := r.open(t, withTimeout(t), path, strings.NewReader("{}"))
		if n := h.receive(t, resp.Body); n != 4 {
			t.Errorf("%d messages", n)
		}
	}
}

func testChangedStatus(t *testing.T, r *rig) {
	for _, size := range []int{0, 12, 100_000} {
		answer := strings.Repeat("e", size)
		r.on(func(w http.ResponseWriter, req *http.Request) {
			resp, err := Transport().RoundTrip(req)
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadGateway)
			_, _ = io.WriteString(w, answer)
		}, func(w http.ResponseWriter, req *http.Request) {
			w.Header().Set("X-Upstream", "1")
			upstreamOK(w, req)
		})
		resp, b := r.do(t, "POST", "/c", strings.NewReader("{}"), nil)
		if resp.StatusCode != http.StatusBadGateway || string(b) != answer || resp.Header.Get("X-Upstream") != "" ||
			resp.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s %v %d bytes", resp.Status, resp.Header, len(b))
		}
		if r.contentLength() && size <= writerBuffer && resp.ContentLength != int64(size) {
			t.Errorf("content-length %d of %d", resp.ContentLength, size)
		}
	}
}

func testSeveralValues(t *testing.T, r *rig) {
	want := []string{"a=1", "b=2", "c=3"}
	for name, handler := range map[string]http.HandlerFunc{
		"mutated": func(w http.ResponseWriter, req *http.Request) {
			out := req.Clone(req.Context())
			out.Header["X-Many"] = want
			resp, err := Transport().RoundTrip(out)
			if err != nil {
				t.Error(err)
				return
			}
			b, _ := io.ReadAll(resp.Body)
			if s := decodeSeen(t, b); !reflect.DeepEqual(s.Header["X-Many"], want) {
				t.Errorf("upstream saw %v", s.Header["X-Many"])
			}
			w.Header()["Set-Cookie"] = want
		},
		"immediate": func(w http.ResponseWriter, req *http.Request) { w.Header()["Set-Cookie"] = want },
	} {
		r.on(handler, echoSeen)
		resp, _ := r.do(t, "POST", "/h", strings.NewReader("{}"), nil)
		if got := resp.Header["Set-Cookie"]; !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// testBareResponse: Envoy lets no body follow response headers that were all
// of the upstream's response, yet the handler may answer with one.
func testBareResponse(t *testing.T, r *rig) {
	for _, flush := range []bool{false, true} {
		r.on(func(w http.ResponseWriter, req *http.Request) {
			resp, err := Transport().RoundTrip(req)
			if err != nil {
				t.Error(err)
				return
			}
			if b, err := io.ReadAll(resp.Body); len(b) > 0 || err != nil {
				t.Error(b, err)
			}
			w.WriteHeader(http.StatusBadGateway)
			if flush {
				w.(http.Flusher).Flush()
			}
			_, _ = io.WriteString(w, "added")
		}, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
		resp, b := r.do(t, "POST", "/empty", strings.NewReader("{}"), nil)
		if resp.StatusCode != http.StatusBadGateway || string(b) != "added" {
			t.Errorf("%s %q", resp.Status, b)
		}
	}
	r.on(copyHandler, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	if resp, _ := r.do(t, "POST", "/empty", strings.NewReader("{}"), nil); resp.StatusCode != http.StatusNoContent {
		t.Error(resp.Status)
	}
}

// testImmediateStreamed: the answer begins first; the round trip that follows
// cannot use Envoy's route any more.
func testImmediateStreamed(t *testing.T, r *rig) {
	h := make(handshake)
	r.on(func(w http.ResponseWriter, req *http.Request) {
		if _, err := io.ReadAll(req.Body); err != nil {
			t.Error(err)
		}
		w.Header().Set("Content-Type", "text/event-stream")
		if err := h.send(req.Context(), w, ": keep-alive\n"); err != nil {
			t.Error(err)
		}
		out := req.Clone(req.Context())
		out.Body, out.ContentLength = io.NopCloser(strings.NewReader("late")), 4
		resp, err := Transport().RoundTrip(out)
		if err != nil {
			t.Error(err)
			return
		}
		b, _ := io.ReadAll(resp.Body)
		if s := decodeSeen(t, b); s.Sum != sum([]byte("late")) || s.Header.Get(MarkerHeader) == "" {
			t.Errorf("upstream saw %+v", s)
		}
		if err := h.send(req.Context(), w, "data: done\n"); err != nil {
			t.Error(err)
		}
	}, echoSeen)
	resp := r.open(t, withTimeout(t), "/resume", strings.NewReader("{}"))
	if n := h.receive(t, resp.Body); n != 2 || resp.Header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("%d messages, %v", n, resp.Header)
	}
}

// testImmediateEarly answers while the client still sends: at once if the
// answer is whole, after the request's end if it streams. No upstream sees
// anything.
func testImmediateEarly(t *testing.T, r *rig) {
	for _, flush := range []bool{false, true} {
		r.on(func(w http.ResponseWriter, req *http.Request) {
			w.WriteHeader(http.StatusRequestEntityTooLarge)
			if flush {
				w.(http.Flusher).Flush()
			}
			_, _ = io.WriteString(w, "too large")
		}, func(http.ResponseWriter, *http.Request) { t.Error("the upstream was called") })
		body := io.MultiReader(bytes.NewReader(make([]byte, 3<<20)), strings.NewReader("end"))
		resp, b := r.do(t, "POST", "/early", body, nil)
		if resp.StatusCode != http.StatusRequestEntityTooLarge || string(b) != "too large" {
			t.Errorf("%s %q", resp.Status, b)
		}
	}
}

// testAnswerWhilePending is what a loop timeout needs: the upstream hangs, the
// handler gives up and answers.
func testAnswerWhilePending(t *testing.T, r *rig) {
	for _, flush := range []bool{false, true} {
		aborted := make(chan struct{})
		r.on(func(w http.ResponseWriter, req *http.Request) {
			ctx, cancel := context.WithTimeoutCause(req.Context(), 100*time.Millisecond, errors.New("loop timeout"))
			defer cancel()
			if _, err := Transport().RoundTrip(req.Clone(ctx)); err == nil || err.Error() != "loop timeout" {
				t.Error(err)
			}
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusGatewayTimeout)
			if flush {
				w.(http.Flusher).Flush()
			}
			_, _ = io.WriteString(w, `{"error":{"code":"loop_timeout"}}`)
		}, func(_ http.ResponseWriter, req *http.Request) {
			_, _ = io.Copy(io.Discard, req.Body)
			<-req.Context().Done()
			close(aborted)
		})
		resp, b := r.do(t, "POST", "/hang", strings.NewReader("{}"), nil)
		if resp.StatusCode != http.StatusGatewayTimeout || string(b) != `{"error":{"code":"loop_timeout"}}` ||
			resp.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s %v %q", resp.Status, resp.Header, b)
		}
		<-aborted
	}
}

func testDeadUpstream(t *testing.T, r *rig) {
	resp, b := r.do(t, "POST", "/dead/x", strings.NewReader("{}"), nil)
	if resp.StatusCode != http.StatusServiceUnavailable || len(b) == 0 {
		t.Errorf("%s %q", resp.Status, b)
	}
}

// testIdleTimeout: Envoy cuts an exchange in which nothing moves, and the
// handler hears of it. Only while the request is held does Envoy's own answer
// pass through the filter.
func testIdleTimeout(t *testing.T, r *rig) {
	for name, test := range map[string]struct {
		reach    func(*http.Request)
		upstream http.HandlerFunc
		want     error
	}{
		"held": {func(*http.Request) {}, upstreamOK, ErrEnvoyAnswered},
		"pending": {func(req *http.Request) {
			go func() { _, _ = Transport().RoundTrip(req) }()
		}, hangUpstream, ErrClientGone},
		"response held": {func(req *http.Request) {
			if resp, err := Transport().RoundTrip(req); err == nil {
				_, _ = io.Copy(io.Discard, resp.Body)
			}
		}, upstreamOK, ErrClientGone},
	} {
		ended := make(chan error, 1)
		r.on(func(_ http.ResponseWriter, req *http.Request) {
			test.reach(req)
			select {
			case <-req.Context().Done():
				ended <- context.Cause(req.Context())
			case <-time.After(5 * time.Second):
				ended <- errors.New("never")
			}
		}, test.upstream)
		resp, b := r.do(t, "POST", "/idle/x", strings.NewReader("{}"), nil)
		if err := <-ended; resp.StatusCode != http.StatusGatewayTimeout || !errors.Is(err, test.want) {
			t.Errorf("%s: %s %q: %v", name, resp.Status, b, err)
		}
	}
}
