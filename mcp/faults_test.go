package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/sys/unix"
)

// reserve gives an address that refuses connections and that nobody else can take
// until listen is called: a socket that is bound and does not listen.
func reserve(t *testing.T) (addr string, listen func() net.Listener) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	file := os.NewFile(uintptr(fd), "reserved")
	t.Cleanup(func() { file.Close() })
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	name, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("127.0.0.1:%d", name.(*unix.SockaddrInet4).Port), func() net.Listener {
		if err := unix.Listen(fd, unix.SOMAXCONN); err != nil {
			t.Fatal(err)
		}
		listener, err := net.FileListener(file) // works on a copy
		if err != nil {
			t.Fatal(err)
		}
		file.Close()
		return listener
	}
}

// A server that is away is named, delays nobody else, and comes back by itself;
// when it goes, its tools go.
func TestDownUpDown(t *testing.T) {
	for _, kind := range []string{stateful, stateless, plainSSE} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			addr, listen := reserve(t)
			cfg := Server{Name: "box", URL: "http://" + addr, Required: true}
			if kind == plainSSE {
				cfg.Transport = "sse"
			}
			h := newTestHost(t, cfg, named(t, "other", "x"))
			begin := time.Now()
			ts := toolsOf(t, h, "box", "other")
			if got := ts.Unavailable(); len(got) != 1 || got[0] != "box" || time.Since(begin) > soon/2 {
				t.Fatalf("unavailable %q after %v", got, time.Since(begin))
			}
			if h.Ready() {
				t.Error("ready without a required server")
			}
			if len(ts.Tools()) != 1 {
				t.Errorf("%+v", ts.Tools())
			}
			if st := h.Status()[0]; st.State != "unavailable" || !strings.Contains(st.Error, "refused") {
				t.Errorf("%+v", st)
			}

			listener := listen()
			box := newToolbox()
			t.Cleanup(box.endSessions)
			server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: box.handler(kind)}}
			server.Start()
			eventually(t, "connected", h.Ready)
			eventually(t, "tools back", func() bool { return len(toolsOf(t, h, "box").Unavailable()) == 0 })
			b := toolsOf(t, h, "box").Bind(nil)
			if res := b.Call(t.Context(), "box__add_numbers", `{"a":1,"b":2}`); res.Text != "3" {
				t.Errorf("%+v", res)
			}

			server.Listener.Close()
			server.CloseClientConnections()
			eventually(t, "noticed that it went", func() bool { return len(toolsOf(t, h, "box").Unavailable()) == 1 })
			if res := b.Call(t.Context(), "box__add_numbers", `{"a":1,"b":2}`); res.Outcome != OutcomeUnavailable {
				t.Errorf("%+v", res)
			}
			server.CloseClientConnections()
			server.Close()
		})
	}
}

// A server that is slow to start delays a toolset only until its time is up.
func TestSlowStart(t *testing.T) {
	t.Parallel()
	box := newToolbox()
	f := box.serve(t, stateful)
	open := make(chan struct{})
	f.on(func(_ http.ResponseWriter, r *http.Request, _ []byte) bool {
		select {
		case <-open:
		case <-r.Context().Done():
		}
		return false
	})
	h := newTestHost(t, config("box", stateful, f), named(t, "quick", "x"))
	eventually(t, "the quick one", func() bool { return len(toolsOf(t, h, "quick").Unavailable()) == 0 })
	begin := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	ts := h.Toolset(ctx, Query{Servers: []string{"box", "quick"}})
	if got := ts.Unavailable(); len(got) != 1 || got[0] != "box" || time.Since(begin) > soon/3 {
		t.Errorf("unavailable %q after %v", got, time.Since(begin))
	}
	if got := toolsOf(t, h, "quick").Unavailable(); len(got) != 0 {
		t.Errorf("a slow server keeps another away: %q", got)
	}
	if st := h.Status()[0]; st.State != "connecting" {
		t.Errorf("%+v", st)
	}
	close(open)
	if got := toolsOf(t, h, "box").Unavailable(); len(got) != 0 {
		t.Errorf("did not wait for the first attempt: %q", got)
	}
}

// What breaks twice in a read-only tool has changed nothing, and the model is not
// told otherwise.
func TestBrokenReadOnlyCall(t *testing.T) {
	t.Parallel()
	f := newToolbox().serve(t, stateful)
	h := newTestHost(t, config("box", stateful, f))
	b := toolsOf(t, h, "box").Bind(nil)
	f.on(func(w http.ResponseWriter, _ *http.Request, body []byte) bool {
		if isMethod(body, "tools/call") {
			http.Error(w, "no", http.StatusServiceUnavailable)
			return true
		}
		return false
	})
	if res := b.Call(t.Context(), "box__pure", ""); res.Outcome != OutcomeFailed || !strings.HasSuffix(res.Text, "HTTP 503 Service Unavailable.") {
		t.Errorf("%+v", res)
	}
}

// A session that the server forgot is made anew, once for all calls: the tools are
// listed again, and the calls are sent once more.
func TestSessionLost(t *testing.T) {
	for name, test := range map[string]struct {
		status int
		answer string
	}{
		"id null":              {404, `{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}`},
		"id repeated":          {404, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32600,"message":"Session not found"}}`},
		"plain text":           {404, `session not found`},
		"nothing":              {404, ``},
		"id of its own":        {404, `{"jsonrpc":"2.0","id":"server-error","error":{"code":-32600,"message":"Session not found"}}`},
		"400":                  {400, `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Bad Request: no valid session ID"}}`},
		"400, id repeated":     {400, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32000,"message":"Bad Request: Mcp-Session-Id header is required"}}`},
		"400, plain":           {400, "unknown session"},
		"400, not initialized": {400, `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Bad Request: Server not initialized"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			box := newToolbox()
			f := box.serve(t, stateful)
			h := newTestHost(t, config("box", stateful, f))
			b := toolsOf(t, h, "box").Bind(nil)
			forget(f, test.status, test.answer)
			var group sync.WaitGroup
			for i := range 10 {
				group.Go(func() {
					if res := b.Call(t.Context(), "box__add_numbers", fmt.Sprintf(`{"a":%d,"b":1}`, i)); res.Text != fmt.Sprint(i+1) {
						t.Errorf("%+v", res)
					}
				})
			}
			group.Wait()
			if n := f.count("initialize"); n != 2 {
				t.Errorf("%d sessions were made, want 2", n)
			}
			if n := f.count("tools/list"); n < 2 {
				t.Errorf("the tools were listed %d times, want twice", n)
			}
			if n, _ := box.called("add_numbers"); n != 10 {
				t.Errorf("the tool ran %d times, want 10", n)
			}
		})
	}
}

// forget makes the server not know the session that it has now.
func forget(f *front, status int, answer string) {
	var old atomic.Pointer[string]
	f.on(func(w http.ResponseWriter, r *http.Request, body []byte) bool {
		id := r.Header.Get(headerSession)
		if id == "" || isMethod(body, "logging/setLevel") { // it is sent beside the test's requests
			return false
		}
		old.CompareAndSwap(nil, &id)
		if *old.Load() != id {
			return false
		}
		text := answer
		if strings.Contains(text, "%s") {
			text = fmt.Sprintf(text, requestIDOf(body))
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(text))
		return true
	})
}

func requestIDOf(body []byte) string {
	_, after, _ := bytes.Cut(body, []byte(`"id":`))
	id, _, _ := bytes.Cut(after, []byte(","))
	return string(id)
}

// A session that is unknown in an answer that does not say whether the call ran is
// made anew, and only what may be repeated is.
func TestSessionLostOddly(t *testing.T) {
	for name, test := range map[string]struct {
		status int
		answer string
		text   string // of the failed call
	}{
		"200":             {200, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32001,"message":"Session not found"}}`, "Session not found"},
		"200, id null":    {200, `{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session expired"}}`, "Session expired"},
		"401":             {401, `unknown session`, "HTTP 401"},
		"500":             {500, `{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"Session not found"}}`, "Session not found"},
		"500, plain text": {500, `no such session`, "HTTP 500"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			box := newToolbox()
			f := box.serve(t, stateful)
			h := newTestHost(t, config("box", stateful, f))
			b := toolsOf(t, h, "box").Bind(nil)
			forget(f, test.status, test.answer)
			if res := b.Call(t.Context(), "box__add_numbers", `{"a":1,"b":1}`); !res.IsError || !strings.Contains(res.Text, test.text) {
				t.Errorf("%+v", res)
			}
			if n := f.count("tools/call"); n != 1 {
				t.Errorf("the call was sent %d times", n)
			}
			eventually(t, "a call on a new session", func() bool {
				return b.Call(t.Context(), "box__add_numbers", `{"a":1,"b":1}`).Text == "2"
			})
			if n := f.count("initialize"); n != 2 {
				t.Errorf("%d sessions were made, want 2", n)
			}
		})
	}
}

// A second 404 is an error of the call.
func TestSessionLostTwice(t *testing.T) {
	t.Parallel()
	box := newToolbox()
	f := box.serve(t, stateful)
	h := newTestHost(t, config("box", stateful, f))
	b := toolsOf(t, h, "box").Bind(nil)
	f.on(func(w http.ResponseWriter, _ *http.Request, body []byte) bool {
		if isMethod(body, "tools/call") {
			http.Error(w, "no such session", http.StatusNotFound)
			return true
		}
		return false
	})
	if res := b.Call(t.Context(), "box__pure", ""); res.Outcome != OutcomeFailed {
		t.Errorf("%+v", res)
	}
	if n := f.count("tools/call"); n != 2 {
		t.Errorf("the call was sent %d times, want 2", n)
	}
}

// When the connection breaks during a call, the call is sent again only if the
// server says that this does no harm.
func TestBrokenCall(t *testing.T) {
	const mayHave = "It may or may not have taken effect."
	refused := map[string]bool{"429": true, "413": true} // of which the server says that it did nothing
	for name, broken := range map[string]func(w http.ResponseWriter){
		"500":   func(w http.ResponseWriter) { http.Error(w, "no", http.StatusInternalServerError) },
		"503":   func(w http.ResponseWriter) { http.Error(w, "no", http.StatusServiceUnavailable) },
		"429":   func(w http.ResponseWriter) { http.Error(w, "no", http.StatusTooManyRequests) },
		"html":  func(w http.ResponseWriter) { w.Header().Set("Content-Type", "text/html"); fmt.Fprint(w, "<p>") },
		"json":  func(w http.ResponseWriter) { w.Header().Set("Content-Type", "application/json"); fmt.Fprint(w, "{{") },
		"413":   func(w http.ResponseWriter) { http.Error(w, "no", http.StatusRequestEntityTooLarge) },
		"reset": func(http.ResponseWriter) { panic(http.ErrAbortHandler) },
		"stream without an answer": func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, ": hi\n\n")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			box := newToolbox()
			f := box.serve(t, stateful)
			h := newTestHost(t, config("box", stateful, f))
			b := toolsOf(t, h, "box").Bind(nil)
			var left atomic.Int32
			f.on(func(w http.ResponseWriter, _ *http.Request, body []byte) bool {
				if !isMethod(body, "tools/call") || left.Add(-1) < 0 {
					return false
				}
				broken(w)
				return true
			})
			left.Store(1)
			begin := time.Now()
			if res := b.Call(t.Context(), "box__add_numbers", `{"a":1,"b":1}`); !res.IsError || time.Since(begin) > soon/2 || strings.HasSuffix(res.Text, mayHave) == refused[name] {
				t.Errorf("%+v after %v", res, time.Since(begin))
			}
			if n := f.count("tools/call"); n != 1 {
				t.Errorf("sent %d times, want once", n)
			}
			left.Store(1)
			res := b.Call(t.Context(), "box__pure", "")
			if res.Text != "pure" {
				t.Errorf("a read-only call was not repeated: %+v", res)
			}
			if res := b.Call(t.Context(), "box__add_numbers", `{"a":1,"b":1}`); res.Text != "2" {
				t.Errorf("does not go on: %+v", res)
			}
			if n := f.count("initialize"); n != 1 {
				t.Errorf("%d sessions; one bad answer must not end it", n)
			}
		})
	}
}

// A stream that breaks off is resumed, and its answer is as exact as any.
func TestStreamResumed(t *testing.T) {
	t.Parallel()
	box := newToolbox()
	box.server.AddTool(&sdk.Tool{Name: "resumed", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(_ context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			req.Extra.CloseSSEStream(sdk.CloseSSEStreamArgs{RetryAfter: 10 * time.Millisecond})
			return &sdk.CallToolResult{StructuredContent: json.RawMessage(`{"id":` + bigInt + `}`)}, nil
		})
	t.Cleanup(box.endSessions)
	f := serve(t, sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return box.server },
		&sdk.StreamableHTTPOptions{EventStore: sdk.NewMemoryEventStore(nil)}))
	h := newTestHost(t, config("box", stateful, f))
	if res := toolsOf(t, h, "box").Bind(nil).Call(t.Context(), "box__resumed", ""); res.Text != `{"id":`+bigInt+`}` {
		t.Errorf("%+v", res)
	}
}
