package mcp

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidwall/gjson"
)

// Connecting does not hang on a standing stream that the server does not answer,
// and goes without it.
func TestNoStandingStream(t *testing.T) {
	hang := func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	for name, test := range map[string]struct {
		kind   string
		answer func(w http.ResponseWriter, r *http.Request)
	}{
		"GET hangs":    {stateful, hang},
		"GET is reset": {stateful, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }},
		"GET is html":  {stateful, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<p>") }},
		"GET is 404":   {stateful, http.NotFound},
		"listen hangs": {stateless, hang},
		"listen is 500": {stateless, func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "no", http.StatusInternalServerError)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newToolbox().serve(t, test.kind)
			f.on(func(w http.ResponseWriter, r *http.Request, body []byte) bool {
				standing := r.Method == http.MethodGet || isMethod(body, methodListen)
				if standing {
					test.answer(w, r)
				}
				return standing
			})
			cfg := config("box", test.kind, f)
			cfg.ConnectTimeout = 3 * time.Second
			h := newTestHost(t, cfg)
			if res := toolsOf(t, h, "box").Bind(nil).Call(t.Context(), "box__add_numbers", `{"a":1,"b":2}`); res.Text != "3" {
				t.Errorf("%+v, %+v", res, h.Status())
			}
		})
	}
}

// A server that leaves server/discover without an answer is one of 2025-11-25.
func TestDiscoverHangs(t *testing.T) {
	t.Parallel()
	f := newToolbox().serve(t, stateful)
	f.on(func(_ http.ResponseWriter, r *http.Request, body []byte) bool {
		if isMethod(body, methodDiscover) {
			<-r.Context().Done()
			return true
		}
		return false
	})
	cfg := config("box", stateful, f)
	cfg.ConnectTimeout = 3 * time.Second
	h := newTestHost(t, cfg)
	toolsOf(t, h, "box")
	if st := h.Status()[0]; st.ProtocolVersion != legacyVersion {
		t.Errorf("%+v", st)
	}
}

// A server that refuses the credential is away, and is not asked again and again.
func TestRefused(t *testing.T) {
	t.Parallel()
	f := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "who are you?", http.StatusUnauthorized)
	}))
	h := newTestHost(t, config("box", stateful, f))
	if got := toolsOf(t, h, "box").Unavailable(); len(got) != 1 {
		t.Fatalf("%q", got)
	}
	if st := h.Status()[0]; st.Error != "HTTP 401 Unauthorized: who are you?" {
		t.Errorf("%+v", st)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.seen) > 2 {
		t.Errorf("%d requests", len(f.seen))
	}
}

// Credentials do not follow a redirect to another host, and a call does not
// become a GET.
func TestRedirects(t *testing.T) {
	t.Parallel()
	box := newToolbox()
	evil := box.serve(t, stateful)
	f := box.serve(t, stateful)
	var to atomic.Pointer[string]
	var status atomic.Int32
	status.Store(http.StatusTemporaryRedirect)
	f.on(func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
		if target := to.Load(); target != nil && r.URL.Path == "/" {
			http.Redirect(w, r, *target, int(status.Load()))
			return true
		}
		return false
	})
	to.Store(&evil.URL)
	cfg := config("box", stateful, f)
	cfg.Headers = map[string]string{"Authorization": "Bearer s3cret"}
	h := newTestHost(t, cfg)
	if got := toolsOf(t, h, "box").Unavailable(); len(got) != 1 {
		t.Error("followed a redirect to another host")
	}
	if evil.count("initialize")+evil.count(methodDiscover) > 0 {
		t.Error("the other host was asked")
	}
	same := "/mcp"
	to.Store(&same)
	h2 := newTestHost(t, cfg)
	if got := toolsOf(t, h2, "box").Unavailable(); len(got) != 0 {
		t.Errorf("a redirect on the same host was not followed: %+v", h2.Status())
	}
	status.Store(http.StatusFound)
	h3 := newTestHost(t, cfg)
	if got := toolsOf(t, h3, "box").Unavailable(); len(got) != 1 {
		t.Error("a POST became a GET")
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.seen {
		if r.Header.Get("Authorization") != "Bearer s3cret" {
			t.Error("a request without the configured header")
		}
	}
}

// An answer without end costs its call, not memory and not the session.
func TestOversize(t *testing.T) {
	t.Parallel()
	f := newToolbox().serve(t, stateful)
	h := newTestHost(t, config("box", stateful, f))
	b := toolsOf(t, h, "box").Bind(nil)
	f.on(func(w http.ResponseWriter, _ *http.Request, body []byte) bool {
		if !isMethod(body, "tools/call") {
			return false
		}
		w.Header().Set("Content-Type", "application/json")
		block := make([]byte, 1<<20)
		for range 100 {
			if _, err := w.Write(block); err != nil {
				break
			}
		}
		return true
	})
	if res := b.Call(t.Context(), "box__add_numbers", `{"a":1,"b":1}`); res.Outcome != OutcomeFailed || !strings.Contains(res.Text, tooLarge) {
		t.Errorf("%+v", res)
	}
	if n := f.count("initialize"); n != 1 {
		t.Errorf("%d sessions", n)
	}
}

// A 2024-11-05 server may not name a place to post to on another host.
func TestSSEOtherOrigin(t *testing.T) {
	t.Parallel()
	evil := serve(t, http.NotFoundHandler())
	f := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "event: endpoint\ndata: %s/messages\n\n", evil.URL)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	h := newTestHost(t, config("box", plainSSE, f))
	if got := toolsOf(t, h, "box").Unavailable(); len(got) != 1 {
		t.Error("connected")
	}
	if n := evil.count("initialize"); n != 0 {
		t.Error("the other host was asked")
	}
}

// A redirect stays at the origin of the server, and may only gain TLS.
func TestOriginOfRedirects(t *testing.T) {
	for _, row := range []struct {
		server, to string
		want       bool
	}{
		{"https://h/mcp", "https://h/other?x=1", true}, {"https://h/mcp", "https://H:443/mcp", true}, {"https://h/mcp", "http://h/mcp", false},
		{"https://h/mcp", "https://h:8443/mcp", false}, {"https://h/mcp", "https://h.evil.example/mcp", false}, {"https://h/mcp", "https://h@evil.example/mcp", false},
		{"http://h/mcp", "https://h/mcp", true}, {"http://h:8080/mcp", "https://h:8080/mcp", true}, {"http://h/mcp", "http://169.254.169.254/", false},
	} {
		server, err := url.Parse(row.server)
		if err != nil {
			t.Fatal(err)
		}
		to, err := url.Parse(row.to)
		if err != nil {
			t.Fatal(err)
		}
		if got := (&wire{origin: server}).sameOrigin(to); got != row.want {
			t.Errorf("from %s to %s: %v", row.server, row.to, got)
		}
	}
}

// Calls in a row share a TCP connection, in whichever form their answers come, and
// although a stream ends a while after its answer.
func TestConnectionsAreUsedAgain(t *testing.T) {
	t.Parallel()
	for _, media := range []string{mediaJSON, mediaEvents} {
		f := newToolbox().serve(t, stateful)
		ended, from := make(chan string, 1), map[string]bool{}
		f.on(func(w http.ResponseWriter, r *http.Request, body []byte) bool {
			if !isMethod(body, "tools/call") {
				return false
			}
			from[r.RemoteAddr] = true
			w.Header().Set("Content-Type", media)
			answer := `{"jsonrpc":"2.0","id":` + gjson.GetBytes(body, "id").Raw + `,` + doneText
			if media == mediaJSON {
				fmt.Fprint(w, answer)
				ended <- "well"
				return true
			}
			fmt.Fprintf(w, "data: %s\n\n", answer)
			w.(http.Flusher).Flush()
			select {
			case <-time.After(50 * time.Millisecond):
				ended <- "well"
			case <-r.Context().Done():
				ended <- "by the client"
			}
			return true
		})
		b := toolsOf(t, newTestHost(t, config("box", stateful, f)), "box").Bind(nil)
		for range 5 {
			if res := b.Call(t.Context(), "box__pure", "{}"); res.Text != "done" {
				t.Errorf("%+v", res)
			}
			if how := await(t, "end of the answer", ended); how != "well" {
				t.Errorf("%s: ended %s", media, how)
			}
			time.Sleep(10 * time.Millisecond) // the end is on its way
		}
		if len(from) > 2 { // of which the end of one came late
			t.Errorf("%s: 5 calls on %d connections", media, len(from))
		}
	}
}

// A stream that stays open after the answer is not kept for long.
func TestStreamsThatStayOpen(t *testing.T) {
	t.Parallel()
	box := newToolbox()
	f := box.serve(t, stateful)
	ended := make(chan string, 1)
	f.on(func(w http.ResponseWriter, r *http.Request, body []byte) bool {
		if !isMethod(body, "tools/call") {
			return false
		}
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,%s\n\n", gjson.GetBytes(body, "id").Raw, doneText)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		ended <- "the request"
		return true
	})
	b := toolsOf(t, newTestHost(t, config("box", stateful, f)), "box").Bind(nil)
	if res := b.Call(t.Context(), "box__pure", "{}"); res.Text != "done" {
		t.Errorf("%+v", res)
	}
	await(t, "end of the request", ended)
}
