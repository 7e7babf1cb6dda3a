// Package monitoring_test tries what is for people: the admin page in a real browser, and the dashboard and the alerts in a
// real Prometheus, each while real turns run.
package monitoring_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcp-via-llm/mcp-via-llm/e2e/llm"
	"github.com/mcp-via-llm/mcp-via-llm/e2e/mcpserver"
	"github.com/mcp-via-llm/mcp-via-llm/e2e/rig"
)

var (
	tools   *rig.Tools
	service string // the built mcp-via-llm
)

func TestMain(m *testing.M) {
	os.Exit(rig.Main(m, &tools, rig.Program{Into: &service, Package: "./cmd/mcp-via-llm"}))
}

const (
	startLimit = time.Minute // generous, for busy cores
	limit      = time.Minute // of whatever else is waited for
)

// world is the whole: the service behind Envoy, a scripted LLM and the server "docs".
type world struct {
	*rig.Rig
	docs  string       // URL of the MCP server
	gates sync.Map     // name: chan struct{}, closed when what waits for it may go on
	http  *http.Client // of the application
}

// gate gives the gate of a name, the same each time.
func (w *world) gate(name string) chan struct{} {
	g, _ := w.gates.LoadOrStore(name, make(chan struct{}))
	return g.(chan struct{}) //nolint:errcheck // nothing else is in there
}

// behind lets a step of the model begin when a gate has been opened.
func (w *world) behind(t *testing.T, gate string, then llm.Step) llm.Step {
	return func(out http.ResponseWriter, r *llm.Request) {
		select {
		case <-w.gate(gate):
		case <-t.Context().Done():
		}
		then(out, r)
	}
}

// start starts the world with more lines of configuration.
func start(t *testing.T, config string) *world {
	t.Helper()
	w := &world{http: &http.Client{Timeout: limit}}
	server := httptest.NewServer(mcpserver.HTTP(w.library(), false, nil))
	t.Cleanup(server.Close)
	w.docs = server.URL
	w.Rig = rig.ForTest(t, rig.Options{
		Service: service, Envoy: tools.Envoy(tools.DefaultEnvoy()), Version: tools.DefaultEnvoy(),
		Config: strings.ReplaceAll(config, "DOCS", w.docs), Brain: llm.Always(llm.Text("Hello.")),
	})
	return w
}

// library is an MCP server with tools that find, fail, and wait at a gate.
func (w *world) library() *mcp.Server {
	type query struct {
		Query string `json:"query" jsonschema:"what to look for"`
	}
	type gated struct {
		Gate string `json:"gate"`
	}
	say := func(text string) *mcp.CallToolResult {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}
	}
	s := mcp.NewServer(&mcp.Implementation{Name: "library", Version: "1"}, &mcp.ServerOptions{Instructions: "Look before you write."})
	mcp.AddTool(s, &mcp.Tool{Name: "find", Description: "Finds documents by what is in them", Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}},
		func(context.Context, *mcp.CallToolRequest, query) (*mcp.CallToolResult, any, error) {
			return say("found"), nil, nil
		})
	mcp.AddTool(s, &mcp.Tool{Name: "write", Description: "Writes a document, and cannot"},
		func(context.Context, *mcp.CallToolRequest, query) (*mcp.CallToolResult, any, error) {
			r := say("the disk is full")
			r.IsError = true
			return r, nil, nil
		})
	mcp.AddTool(s, &mcp.Tool{Name: "index", Description: "Indexes all documents, which takes its time"},
		func(ctx context.Context, _ *mcp.CallToolRequest, in gated) (*mcp.CallToolResult, any, error) {
			select {
			case <-w.gate(in.Gate):
			case <-ctx.Done():
			}
			return say("indexed"), nil, ctx.Err()
		})
	return s
}

// A mixed turn's request and what its resume has besides, each without its end.
const (
	mixed  = `{"model":"gpt-x","tools":[{"type":"function","function":{"name":"book_table"}}],"messages":[{"role":"user","content":"book"}`
	resume = `,{"role":"assistant","content":null,"tool_calls":[{"id":"c2","type":"function","function":{"name":"book_table","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c2","content":"booked"}`
)

// ask sends a chat request and gives its answer's status.
func (w *world) ask(t *testing.T, body string) int {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.URL+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		t.Error(err)
		return 0
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := w.http.Do(request)
	if err != nil {
		t.Error(err)
		return 0
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		t.Error(err)
	}
	return response.StatusCode
}

// page gives what the admin listener answers.
func (w *world) page(t *testing.T, path string) string {
	t.Helper()
	return rig.Get(t, w.Admin+path)
}
