package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime/pprof"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	// soon bounds what must happen without delay, with room for a busy machine.
	soon      = 15 * time.Second
	bigInt    = "9007199254740993"
	anySchema = `{"type":"object","required":["z"],"properties":{"z":{"type":"integer"},"a":{"type":"string"},"k":{"const":9007199254740993}}}`
)

// toolbox is the server that the tests talk to, over any transport. It notes
// what it sees.
type toolbox struct {
	server *sdk.Server

	mu        sync.Mutex
	arguments map[string]string // of the last call by tool
	calls     map[string]int
	started   chan string // tools that block, when they begin
	cancelled chan string // and when their context ends
	release   chan struct{}
	quit      chan struct{} // the test is over
}

func newToolbox() *toolbox { return newToolboxWith(nil) }

func newToolboxWith(o *sdk.ServerOptions) *toolbox {
	b := &toolbox{
		server:    sdk.NewServer(&sdk.Implementation{Name: "toolbox", Version: "1"}, o),
		arguments: map[string]string{}, calls: map[string]int{},
		started: make(chan string, 64), cancelled: make(chan string, 64), release: make(chan struct{}), quit: make(chan struct{}),
	}
	b.add("echo", anySchema, `{"content":[],"structuredContent":{"id":`+bigInt+`,"a":1}}`)
	b.add("add_numbers", `{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer"}},"required":["a","b"]}`, "")
	b.add("fails", "", `{"content":[{"type":"text","text":"disk full"}],"isError":true}`)
	b.add("pure", "", `{"content":[{"type":"text","text":"pure"}]}`, func(t *sdk.Tool) { t.Annotations = &sdk.ToolAnnotations{ReadOnlyHint: true} })
	b.add("large", "", `{"content":[{"type":"text","text":"`+strings.Repeat("é", 3<<19)+`"}]}`)
	b.block("hang")
	return b
}

// add gives the toolbox a tool that answers with a raw result; add_numbers adds.
func (b *toolbox) add(name, input, result string, with ...func(*sdk.Tool)) {
	t := &sdk.Tool{Name: name, Description: "about " + name, InputSchema: json.RawMessage(`{"type":"object"}`)}
	if input != "" {
		t.InputSchema = json.RawMessage(input)
	}
	for _, f := range with {
		f(t)
	}
	b.server.AddTool(t, func(_ context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		b.note(name, req.Params.Arguments)
		if result == "" {
			var in struct{ A, B int }
			if err := json.Unmarshal(req.Params.Arguments, &in); err != nil {
				return nil, err
			}
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: fmt.Sprint(in.A + in.B)}}}, nil
		}
		var raw struct {
			StructuredContent json.RawMessage `json:"structuredContent"`
		}
		res := &sdk.CallToolResult{}
		if err := json.Unmarshal([]byte(result), res); err != nil {
			return nil, err
		}
		if err := json.Unmarshal([]byte(result), &raw); err != nil {
			return nil, err
		}
		if raw.StructuredContent != nil {
			res.StructuredContent = raw.StructuredContent
		}
		return res, nil
	})
}

// block adds a tool that waits for release or cancellation.
func (b *toolbox) block(name string) {
	b.server.AddTool(&sdk.Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			b.note(name, req.Params.Arguments)
			b.started <- name
			select {
			case <-ctx.Done():
				b.cancelled <- name
				return nil, ctx.Err()
			case <-b.quit:
				return nil, context.Canceled
			case <-b.release:
				return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "released"}}}, nil
			}
		})
}

func (b *toolbox) note(name string, args []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.arguments[name], b.calls[name] = string(args), b.calls[name]+1
}

func (b *toolbox) called(name string) (times int, last string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.calls[name], b.arguments[name]
}

// Transports of the toolbox, by the name that the tests give them.
const (
	stateful  = "streamable 2025-11-25"
	stateless = "streamable 2026-07-28"
	plainSSE  = "sse 2024-11-05"
	stdio     = "stdio"
)

func (b *toolbox) handler(kind string) http.Handler {
	get := func(*http.Request) *sdk.Server { return b.server }
	switch kind {
	case plainSSE:
		return sdk.NewSSEHandler(get, nil)
	case stateless:
		return sdk.NewStreamableHTTPHandler(get, &sdk.StreamableHTTPOptions{Stateless: true, PropagateRequestCancellation: true})
	}
	return sdk.NewStreamableHTTPHandler(get, nil)
}

// serve puts the toolbox behind a transport.
func (b *toolbox) serve(t *testing.T, kind string) *front {
	t.Helper()
	t.Cleanup(b.endSessions)
	f := serve(t, b.handler(kind))
	t.Cleanup(func() {
		if !isClosed(b.quit) { // a toolbox may be served twice
			close(b.quit)
		}
	})
	return f
}

// endSessions ends what the host could not, because the server was away.
func (b *toolbox) endSessions() {
	for session := range b.server.Sessions() {
		session.Close()
	}
}

// front is an HTTP server whose behaviour a test can change while it runs.
type front struct {
	*httptest.Server
	inner     http.Handler
	intercept atomic.Pointer[func(w http.ResponseWriter, r *http.Request, body []byte) bool]
	mu        sync.Mutex
	seen      []*http.Request
	methods   map[string]int // JSON-RPC methods
}

func serve(t *testing.T, h http.Handler) *front {
	t.Helper()
	f := &front{inner: h, methods: map[string]int{}}
	f.Server = httptest.NewUnstartedServer(f)
	f.Start()
	t.Cleanup(func() {
		f.CloseClientConnections()
		f.Close()
	})
	return f
}

func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body bytes.Buffer
	_, _ = body.ReadFrom(r.Body)
	var msg struct{ Method string }
	_ = json.Unmarshal(body.Bytes(), &msg)
	f.mu.Lock()
	f.seen = append(f.seen, r)
	f.methods[msg.Method]++
	f.mu.Unlock()
	if hook := f.intercept.Load(); hook != nil && (*hook)(w, r, body.Bytes()) {
		return
	}
	r.Body = http.NoBody
	r2 := r.Clone(r.Context())
	r2.Body = readCloser{bytes.NewReader(body.Bytes())}
	f.inner.ServeHTTP(w, r2)
}

type readCloser struct{ *bytes.Reader }

func (readCloser) Close() error { return nil }

// on sets what to do with a request first; true means that it was answered.
func (f *front) on(hook func(w http.ResponseWriter, r *http.Request, body []byte) bool) {
	f.intercept.Store(&hook)
}

func (f *front) count(method string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.methods[method]
}

func isMethod(body []byte, method string) bool {
	return bytes.Contains(body, []byte(`"method":"`+method+`"`))
}

// config is the configuration of a server for a transport.
func config(name, kind string, f *front) Server {
	s := Server{Name: name, ConnectTimeout: soon}
	switch kind {
	case stdio:
		return stdioConfig(name, "toolbox")
	case plainSSE:
		s.Transport = "sse"
	}
	s.URL = f.URL
	return s
}

// newTestHost starts a host that is closed at the end of the test.
func newTestHost(t *testing.T, servers ...Server) *Host {
	t.Helper()
	return startHost(t, Options{Servers: servers})
}

func startHost(t *testing.T, o Options) *Host {
	t.Helper()
	if o.Log == nil {
		o.Log = slog.New(slog.NewTextHandler(testWriter{t}, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	if o.Patience == 0 {
		o.Patience = soon // on a busy machine nothing takes 3 s at most
	}
	h := NewHost(o)
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
			var stacks bytes.Buffer
			_ = pprof.Lookup("goroutine").WriteTo(&stacks, 2)
			t.Logf("%s", &stacks)
		}
	})
	return h
}

// testWriter shows the log only when the test fails.
type testWriter struct{ t *testing.T }

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Logf("%s", bytes.TrimSpace(p))
	return len(p), nil
}

func toolsOf(t *testing.T, h *Host, servers ...string) *Toolset {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	return h.Toolset(ctx, Query{Servers: servers})
}

// eventually polls a condition that another goroutine or process brings about.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(2 * soon); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

// await receives from a channel within soon.
func await[T any](t *testing.T, what string, ch <-chan T) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(soon):
		t.Fatalf("no %s", what)
		panic("unreachable")
	}
}
