package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcp-via-llm/mcp-via-llm/config"
	"github.com/mcp-via-llm/mcp-via-llm/loop"
	"github.com/mcp-via-llm/mcp-via-llm/telemetry"
)

// BenchmarkTurn is what a turn without tool calls costs in the handler: five MCP tools,
// the embedded store, metrics and the log as serve has them, and a provider that
// answers at once.
func BenchmarkTurn(b *testing.B) {
	handler := benchHandler(b, benchServer(), true, benchAnswer)
	keepRoom(nil)
	defer debug.SetGCPercent(100)
	header := http.Header{
		"Authorization": {"Bearer sk-0123456789abcdef"}, "Content-Type": {"application/json"}, "User-Agent": {"OpenAI/Python 1.99.0"},
		"X-Request-Id": {"0b6f4a52-6a4c-4f0c-8f0e-0e5a9a0c2b11"}, "Accept": {"application/json"}, "Accept-Encoding": {"gzip, deflate"},
		"X-Forwarded-Proto": {"http"},
	}
	at := &url.URL{Path: "/v1/chat/completions"}
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		n++
		body := []byte(benchRequest + strconv.Itoa(n) + `"}]}`)
		r := &http.Request{Method: http.MethodPost, URL: at, Host: "llm", Header: header, Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body))}
		w := discard{http.Header{}}
		handler.ServeHTTP(w, r)
		if w.header.Get("Content-Length") == "" {
			b.Fatal("no answer came whole")
		}
	}
}

var (
	benchWords   = strings.Repeat("word and ", 100)
	benchRequest = `{"model":"gpt-5","stream":false,"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"` + benchWords
	benchReply   = `{"id":"chatcmpl-1","object":"chat.completion","created":1700000000,"model":"gpt-5-2026-01-01","choices":[{"index":0,"message":{"role":"assistant","content":"` +
		benchWords + `","refusal":null},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":100,"completion_tokens":20,"total_tokens":120,` +
		`"prompt_tokens_details":{"cached_tokens":0,"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":0}},"service_tier":"default"}`
	benchHeader = http.Header{
		"Content-Type": {"application/json"}, "Date": {"Mon, 01 Jan 2026 00:00:00 GMT"}, "X-Request-Id": {"req_1"}, "Server": {"llm"},
	}
)

// discard is a response that nobody reads.
type discard struct{ header http.Header }

func (d discard) Header() http.Header         { return d.header }
func (d discard) Write(p []byte) (int, error) { return len(p), nil }
func (d discard) WriteHeader(int)             {}

func benchServer() *mcp.Server {
	server := mcp.NewServer(&mcp.Implementation{Name: "bench", Version: "1"}, nil)
	for i := range 5 {
		mcp.AddTool(server, &mcp.Tool{Name: fmt.Sprintf("tool_%d", i), Description: "Does something with what it is given"},
			func(context.Context, *mcp.CallToolRequest, struct {
				Path string `json:"path"`
			}) (*mcp.CallToolResult, any, error) {
				return nil, nil, nil
			})
	}
	return server
}

// benchHandler is the loop with the tools of that server, which answers in JSON or in
// events, and that provider.
func benchHandler(b *testing.B, server *mcp.Server, json bool, answer roundTripper) http.Handler {
	b.Helper()
	ctx, stop := context.WithCancel(context.Background())
	tools := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server },
		&mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: json}))
	cfg, err := config.Load(writeConfig(b, `
llm: {loop_url: "http://127.0.0.1:1"}
servers: {bench: {url: "`+tools.URL+`"}}
clients: {default: {servers: [bench]}}
`))
	if err != nil {
		b.Fatal(err)
	}
	log := telemetry.NewLog(io.Discard, cfg.Log.Level, cfg.Log.Format)
	signals, err := telemetry.Start(ctx, "1", log)
	if err != nil {
		b.Fatal(err)
	}
	a, err := newApp(cfg, log, signals)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		stop()
		a.memory.Close(ctx)
		a.host.Close()  //nolint:errcheck // the benchmark is over
		a.store.Close() //nolint:errcheck // in memory
		a.closeAudit()
		signals.Shutdown(context.Background()) //nolint:errcheck // nothing is sent
		tools.Close()
	})
	a.host.Settle(ctx)
	options := a.current.Load().options()
	options.Transport = answer
	return loop.New(options)
}

// benchAnswer is a provider's completion of about 1 KB.
func benchAnswer(r *http.Request) (*http.Response, error) {
	r.Body.Close() //nolint:errcheck // in memory
	return &http.Response{StatusCode: http.StatusOK, ContentLength: int64(len(benchReply)), Body: io.NopCloser(strings.NewReader(benchReply)), Header: benchHeader}, nil
}
