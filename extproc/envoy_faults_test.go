package extproc

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// testLoop: segment 1 on Envoy's route, the rest through the loop listener,
// with what the handler sends.
func testLoop(t *testing.T, r *rig) {
	r.on(func(w http.ResponseWriter, req *http.Request) {
		for i, text := range []string{"one", "two", "three"} {
			out := req.Clone(req.Context())
			out.Body, out.ContentLength = io.NopCloser(strings.NewReader(text)), int64(len(text))
			resp, err := Transport().RoundTrip(out)
			if err != nil {
				t.Error(err)
				return
			}
			b, _ := io.ReadAll(resp.Body)
			s := decodeSeen(t, b)
			if s.Sum != sum([]byte(text)) || s.Header.Get("Authorization") != "Bearer k" || (i > 0) != (s.Header.Get(MarkerHeader) != "") {
				t.Errorf("segment %d: upstream saw %+v", i+1, s)
			}
		}
		_, _ = io.WriteString(w, "done")
	}, echoSeen)
	if _, b := r.do(t, "POST", "/l", strings.NewReader("{}"), http.Header{"Authorization": {"Bearer k"}}); string(b) != "done" {
		t.Errorf("got %q", b)
	}
}

// testLooped: a marker of ours is recognised, a forged one is dropped; neither
// reaches the handler as a header.
func testLooped(t *testing.T, r *rig) {
	r.on(func(w http.ResponseWriter, req *http.Request) {
		info, ok := InfoFrom(req.Context())
		if !ok || req.Header.Get(MarkerHeader) != "" {
			t.Error(ok, req.Header)
		}
		if info.Looped {
			_, _ = io.WriteString(w, "looped")
		}
	}, upstreamOK)
	for marker, want := range map[string]string{
		newMarker([]byte("shared")): "looped",
		newMarker([]byte("other")):  "",
		"x":                         "",
	} {
		if _, b := r.do(t, "POST", "/l", strings.NewReader("{}"), http.Header{"X-Mcp-Via-Llm-Hop": {marker}}); string(b) != want {
			t.Errorf("%s: %q", marker, b)
		}
	}
	r.on(func(w http.ResponseWriter, req *http.Request) {
		if info, _ := InfoFrom(req.Context()); info.Looped {
			http.Error(w, "a loop", http.StatusLoopDetected)
			return
		}
		for range 2 {
			resp, err := Transport().RoundTrip(req.Clone(req.Context()))
			if err != nil {
				t.Error(err)
				return
			}
			b, _ := io.ReadAll(resp.Body)
			_, _ = w.Write(b)
		}
	}, upstreamOK)
	r.loopTo("main") // a loop listener that has the filter by mistake
	if _, b := r.do(t, "POST", "/l", http.NoBody, nil); string(b) != "upstream answera loop\n" {
		t.Errorf("got %q", b)
	}
	if r.events.find(EventForgedMarker) == nil || r.events.find(EventLooped) == nil {
		t.Error("no events")
	}
}

// testInfo: a route switches the filter on and names its client; another route
// of the same listener does without the filter.
func testInfo(t *testing.T, r *rig) {
	got := make(chan *Info, 1)
	r.on(func(w http.ResponseWriter, req *http.Request) {
		info, _ := InfoFrom(req.Context())
		got <- info
		if req.RemoteAddr != info.Attributes["source.address"] {
			t.Error(req.RemoteAddr)
		}
		copyHandler(w, req)
	}, upstreamOK)
	for path, filtered := range map[string]bool{"/enabled/x": true, "/x": false} {
		resp, err := r.client.Post("http://"+r.addr("routed")+path, "text/plain", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		select {
		case info := <-got:
			if !filtered || info.Attributes["xds.route_name"] != "enabled" || info.Attributes["request.id"] == "" ||
				strings.Join(info.Metadata("x-mcp-client"), ",") != "team-a" {
				t.Errorf("%s: %+v", path, info)
			}
		default:
			if filtered {
				t.Errorf("%s: the filter was off", path)
			}
		}
	}
}

func testPanics(t *testing.T, r *rig) {
	r.on(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Lost", "1")
		_, _ = io.WriteString(w, "lost")
		panic("boom")
	}, upstreamOK)
	resp, b := r.do(t, "POST", "/p", strings.NewReader("{}"), nil)
	if resp.StatusCode != http.StatusInternalServerError || strings.Contains(string(b), "lost") || resp.Header.Get("X-Lost") != "" {
		t.Errorf("%s %v %q", resp.Status, resp.Header, b)
	}
	for name, handler := range map[string]http.HandlerFunc{
		"mutated": func(w http.ResponseWriter, req *http.Request) {
			if _, err := Transport().RoundTrip(req); err != nil {
				t.Error(err)
			}
			_, _ = io.WriteString(w, "begun")
			w.(http.Flusher).Flush()
			panic("boom")
		},
		"streamed": func(w http.ResponseWriter, req *http.Request) {
			_, _ = io.Copy(io.Discard, req.Body)
			_, _ = io.WriteString(w, "begun")
			w.(http.Flusher).Flush()
			panic("boom")
		},
	} {
		r.on(handler, upstreamOK)
		resp := r.open(t, withTimeout(t), "/p", strings.NewReader("{}"))
		b, err := io.ReadAll(resp.Body)
		// Envoy may not have begun to answer when it hears of the end: then it says so with a status of its own.
		if err == nil && resp.StatusCode < http.StatusInternalServerError || !bytes.HasPrefix([]byte("begun"), b) {
			t.Errorf("%s: the client took %q with status %d for a whole answer", name, b, resp.StatusCode)
		}
	}
	if r.events.find(EventPanic) == nil {
		t.Error("no event")
	}
}

// phases are how far an exchange can be when its client leaves.
var phases = map[string]struct {
	reach    func(w http.ResponseWriter, req *http.Request)
	upstream http.HandlerFunc
}{
	"held": {func(http.ResponseWriter, *http.Request) {}, upstreamOK},
	"waiting for the upstream": {func(_ http.ResponseWriter, req *http.Request) {
		go func() { _, _ = Transport().RoundTrip(req) }()
	}, hangUpstream},
	"reading the upstream": {func(_ http.ResponseWriter, req *http.Request) {
		if resp, err := Transport().RoundTrip(req); err == nil {
			go func() { _, _ = io.ReadAll(resp.Body) }()
		}
	}, func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body)
		begin(w)
		<-req.Context().Done()
	}},
	"after the upstream's end, held": {func(_ http.ResponseWriter, req *http.Request) {
		if resp, err := Transport().RoundTrip(req); err == nil {
			_, _ = io.ReadAll(resp.Body)
		}
	}, upstreamOK},
	"after the upstream's end, streaming": {func(w http.ResponseWriter, req *http.Request) {
		if resp, err := Transport().RoundTrip(req); err == nil {
			_, _ = io.ReadAll(resp.Body)
		}
		begin(w)
	}, upstreamOK},
	"streamed immediate response": {func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.ReadAll(req.Body)
		begin(w)
	}, upstreamOK},
}

func begin(w http.ResponseWriter) {
	_, _ = io.WriteString(w, "begun")
	w.(http.Flusher).Flush()
}

// testDisconnect: in whatever phase the client leaves, the handler's context
// ends within a second.
func testDisconnect(t *testing.T, r *rig) {
	for name, phase := range phases {
		t.Run(name, func(t *testing.T) {
			ctx, leave := context.WithCancel(withTimeout(t))
			defer leave()
			reached, ended := make(chan struct{}), make(chan error, 1)
			r.on(func(w http.ResponseWriter, req *http.Request) {
				phase.reach(w, req)
				close(reached)
				select {
				case <-req.Context().Done():
					ended <- context.Cause(req.Context())
				case <-time.After(5 * time.Second):
					ended <- errors.New("never")
				}
			}, phase.upstream)
			go func() {
				<-reached
				leave()
			}()
			req, err := http.NewRequestWithContext(ctx, "POST", r.url("/d"), strings.NewReader("{}"))
			if err != nil {
				t.Fatal(err)
			}
			if resp, err := r.client.Do(req); err == nil {
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
			}
			<-reached
			start := time.Now()
			if err := <-ended; !errors.Is(err, ErrClientGone) || time.Since(start) > time.Second {
				t.Errorf("%v after %v", err, time.Since(start))
			}
		})
	}
}

// testServiceDown: headers-only with failure_mode_allow fails open; a filter
// that is full duplex by itself cannot.
func testServiceDown(t *testing.T, r *rig) {
	r.on(copyHandler, echoSeen)
	resp, err := r.client.Post("http://"+r.addr("open")+"/x", "text/plain", strings.NewReader("hello"))
	if err != nil {
		t.Fatal(err)
	}
	b, _ := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if r.filter() == "override" {
		if resp.StatusCode != http.StatusOK || decodeSeen(t, b).Sum != sum([]byte("hello")) {
			t.Errorf("%s %q", resp.Status, b)
		}
	} else if resp.StatusCode != http.StatusInternalServerError {
		t.Errorf("%s %q", resp.Status, b)
	}
}

// testShutdown runs on a second Server that takes the rig's traffic over, so
// that the rig stays in service.
func testShutdown(t *testing.T, r *rig) {
	old := r.server.opts
	server := New(old)
	r.swap(server)
	defer r.swap(r.server)
	started := make(chan struct{})
	r.on(func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.ReadAll(req.Body)
		_, _ = io.WriteString(w, "begun,")
		w.(http.Flusher).Flush()
		close(started)
		<-req.Context().Done()
		if errors.Is(context.Cause(req.Context()), ErrDraining) {
			_, _ = io.WriteString(w, "draining")
		}
	}, upstreamOK)
	resp := r.open(t, withTimeout(t), "/s", strings.NewReader("{}"))
	<-started
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if err := server.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	if b, err := io.ReadAll(resp.Body); string(b) != "begun,draining" || err != nil {
		t.Errorf("%q %v", b, err)
	}
	if resp := r.open(t, withTimeout(t), "/s", strings.NewReader("{}")); resp.StatusCode != http.StatusInternalServerError {
		t.Error("a new stream was not refused:", resp.Status)
	}
}

// testServiceDies: the client of a turn gets an error, never an answer that
// looks whole.
func testServiceDies(t *testing.T, r *rig) {
	begun := make(chan struct{})
	r.on(func(w http.ResponseWriter, req *http.Request) {
		if resp, err := Transport().RoundTrip(req); err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
		}
		_, _ = io.WriteString(w, "begun")
		w.(http.Flusher).Flush()
		close(begun)
		<-req.Context().Done()
	}, upstreamOK)
	resp := r.open(t, withTimeout(t), "/k", strings.NewReader("{}"))
	<-begun
	r.grpc.Stop()
	if b, err := io.ReadAll(resp.Body); err == nil {
		t.Errorf("the client took %q for a whole answer", b)
	}
}
