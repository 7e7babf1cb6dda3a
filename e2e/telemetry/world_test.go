package telemetry_test

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcp-via-llm/mcp-via-llm/e2e/llm"
	"github.com/mcp-via-llm/mcp-via-llm/e2e/mcpserver"
	"github.com/mcp-via-llm/mcp-via-llm/e2e/rig"
	"github.com/mcp-via-llm/mcp-via-llm/sessions/redisrig"
)

// world is what runs in a test.
type world struct {
	*rig.Rig
	*backend
	redis *redisrig.Server
	shop  *shop
}

type setup struct {
	envoy  string // version; "": the default
	brain  llm.Brain
	client string   // keys of the profile default
	env    []string // of the service, beside the address of the collector
	grpc   bool     // that address is the one for gRPC
	dark   bool     // Envoy traces nothing
}

// start starts everything. The service reaches the shop through Envoy, and all three tell of what they do.
func start(t *testing.T, s setup) *world {
	t.Helper()
	w := &world{backend: startBackend(t), redis: redisrig.Start(t), shop: openShop(t)}
	tracing := fmt.Sprintf(", tracing: {collector: %q}", w.grpc)
	if s.dark {
		tracing = ""
	}
	config := fmt.Sprintf(`
store: {redis: {url: %q}}
servers:
  calc: {command: [%q], optional: false}
  shop: {url: %q, optional: false}
clients: {default: {servers: [calc, shop]%s}}
envoy: {use_mcp_egress: true%s}
drain_timeout: 3s
`, w.redis.URL, addServer, w.shop.url, s.client, tracing)
	collector := w.http
	if s.grpc {
		collector = w.grpc
	}
	version := cmp.Or(s.envoy, tools.DefaultEnvoy())
	w.Rig = rig.ForTest(t, rig.Options{
		Service: service, Envoy: tools.Envoy(version), Version: version, Config: config, Brain: s.brain,
		Env: append([]string{
			"OTEL_EXPORTER_OTLP_ENDPOINT=http://" + collector, "OTEL_RESOURCE_ATTRIBUTES=deployment.environment.name=test",
			"OTEL_BSP_SCHEDULE_DELAY=100", "OTEL_BLRP_SCHEDULE_DELAY=100", "OTEL_METRIC_EXPORT_INTERVAL=500",
		}, s.env...),
	})
	return w
}

// shop is an MCP server that waits for the test in one of its tools, and remembers what its calls brought beside their
// arguments.
type shop struct {
	url  string
	gate chan struct{} // closed: order goes on

	mu      sync.Mutex
	headers map[string]string // traceparent of the HTTP request, by tool
	meta    map[string]string // that of _meta
	ordered int
}

func openShop(t *testing.T) *shop {
	s := &shop{gate: make(chan struct{}), headers: map[string]string{}, meta: map[string]string{}}
	server := mcp.NewServer(&mcp.Implementation{Name: "shop", Version: "1.0.0"}, nil)
	type item struct {
		Name string `json:"name"`
	}
	mcp.AddTool(server, &mcp.Tool{Name: "look", Description: "Looks", Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}},
		func(_ context.Context, r *mcp.CallToolRequest, in item) (*mcp.CallToolResult, any, error) {
			s.note("look", r)
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: in.Name + " is there"}}}, nil, nil
		})
	mcp.AddTool(server, &mcp.Tool{Name: "order", Description: "Orders"},
		func(ctx context.Context, r *mcp.CallToolRequest, in item) (*mcp.CallToolResult, any, error) {
			s.note("order", r)
			select {
			case <-s.gate:
			case <-ctx.Done():
				return nil, nil, ctx.Err()
			}
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: in.Name + " is ordered"}}}, nil, nil
		})
	mcp.AddTool(server, &mcp.Tool{Name: "refuse", Description: "Refuses"},
		func(context.Context, *mcp.CallToolRequest, item) (*mcp.CallToolResult, any, error) {
			return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: "no"}}}, nil, nil
		})
	listener := httptest.NewServer(mcpserver.HTTP(server, true, nil))
	t.Cleanup(listener.Close)
	t.Cleanup(listener.CloseClientConnections)
	s.url = listener.URL
	return s
}

func (s *shop) note(tool string, r *mcp.CallToolRequest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Extra != nil {
		s.headers[tool] = r.Extra.Header.Get("Traceparent")
	}
	s.meta[tool], _ = r.Params.Meta["traceparent"].(string)
	if tool == "order" {
		s.ordered++
	}
}

// post sends a chat completion request.
func (w *world) post(t *testing.T, body string, header http.Header) string {
	t.Helper()
	return sent(t, w.request(t, body, header))
}

func (w *world) request(t *testing.T, body string, header http.Header) *http.Request {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.URL+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for name, values := range header {
		request.Header[name] = values
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer test-key")
	return request
}
