package extproc

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// earlyHead answers with its headers alone and waits for body to be closed, or
// for the caller to leave.
func earlyHead(body <-chan struct{}) http.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		w.(http.Flusher).Flush()
		select {
		case <-body:
			_, _ = io.WriteString(w, "data: late\n")
		case <-req.Context().Done():
		}
	}
}

// testEarlyHead: the upstream's headers come long before its body, and the
// handler has something to say meanwhile. Envoy takes it only once a body came.
func testEarlyHead(t *testing.T, r *rig) {
	body := make(chan struct{})
	r.on(func(w http.ResponseWriter, req *http.Request) {
		resp, err := Transport().RoundTrip(req)
		if err != nil {
			t.Error(err)
			return
		}
		for range 3 {
			_, _ = io.WriteString(w, ": early\n")
			w.(http.Flusher).Flush()
		}
		close(body)
		_, _ = io.Copy(w, resp.Body)
		_, _ = io.WriteString(w, "data: own\n")
	}, earlyHead(body))
	resp, b := r.do(t, "POST", "/early", strings.NewReader("{}"), nil)
	if want := strings.Repeat(": early\n", 3) + "data: late\ndata: own\n"; resp.StatusCode != http.StatusOK || string(b) != want {
		t.Errorf("%s %q, want %q", resp.Status, b, want)
	}
}

// testEarlyHeadOnly: the headers came, the body never does, and the handler
// gives up. Nothing has gone out, so the answer has a status of its own.
func testEarlyHeadOnly(t *testing.T, r *rig) {
	const want = `{"error":{"code":"loop_timeout"}}`
	for _, flush := range []bool{false, true} {
		r.on(func(w http.ResponseWriter, req *http.Request) {
			ctx, cancel := context.WithTimeoutCause(req.Context(), 100*time.Millisecond, errors.New("loop timeout"))
			defer cancel()
			resp, err := Transport().RoundTrip(req.Clone(ctx))
			if err != nil {
				t.Error(err)
				return
			}
			if _, err := io.ReadAll(resp.Body); err == nil || err.Error() != "loop timeout" {
				t.Error(err)
			}
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusGatewayTimeout)
			_, _ = io.WriteString(w, want)
			if flush {
				w.(http.Flusher).Flush()
			}
		}, earlyHead(nil))
		resp, b := r.do(t, "POST", "/early", strings.NewReader("{}"), nil)
		if resp.StatusCode != http.StatusGatewayTimeout || string(b) != want || resp.Header.Get("Content-Type") != "application/json" {
			t.Errorf("flush %v: %s %v %q", flush, resp.Status, resp.Header, b)
		}
	}
}
