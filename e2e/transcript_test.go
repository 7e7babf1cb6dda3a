package e2e

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/sjson"

	"github.com/mcp-via-llm/mcp-via-llm/e2e/llm"
	"github.com/mcp-via-llm/mcp-via-llm/loop/transcript"
)

// TestTranscripts plays the scripted turns that the bare handler is tested with through a real Envoy and real MCP
// servers: the client must get the same bytes, and the model the same messages.
func TestTranscripts(t *testing.T) {
	scripts, err := transcript.LoadAll("../loop/testdata/turns")
	if err != nil {
		t.Fatal(err)
	}
	servers := ""
	for name, server := range toolServers(scripts) {
		handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil)
		host := httptest.NewServer(handler)
		t.Cleanup(host.Close)
		servers += fmt.Sprintf("  %s: {url: %q, optional: false}\n", name, host.URL)
	}
	t.Run("variants", func(t *testing.T) { // ends before the servers do
		on(t, current(), func(t *testing.T, v variant) {
			r := start(t, v, setup{config: "servers:\n" + servers + approvals(scripts)})
			for _, script := range scripts {
				t.Run(script.Name, func(t *testing.T) {
					r.LLM.Use(segments(script))
					got := post(t, r, string(script.Request()))
					if diff := cmp.Diff(string(bytes.TrimSuffix(script.WantResponse(), []byte("\n"))), string(bytes.TrimSuffix(transcript.Comparable([]byte(got.body)), []byte("\n")))); diff != "" {
						t.Errorf("response (-want +got):\n%s", diff)
					}
					for n, request := range r.LLM.Requests() {
						if diff := cmp.Diff(withoutTools(t, script.WantRequest(n+1)), withoutTools(t, request.Body)); diff != "" {
							t.Errorf("request %d (-want +got):\n%s", n+1, diff)
						}
					}
				})
			}
		})
	})
}

// approvals are the settings of a profile whose user must approve what the scripts say.
func approvals(scripts []*transcript.Transcript) string {
	var names []string
	for _, script := range scripts {
		names = append(names, script.Approve...)
	}
	return fmt.Sprintf("clients: {default: {approve: [%s]}}\n", strings.Join(names, ", "))
}

// toolServers makes the MCP servers with the tools of all scripts.
func toolServers(scripts []*transcript.Transcript) map[string]*mcp.Server {
	servers := map[string]*mcp.Server{}
	for _, script := range scripts {
		for _, tool := range script.Tools {
			if servers[tool.Server] == nil {
				servers[tool.Server] = mcp.NewServer(&mcp.Implementation{Name: tool.Server, Version: "1"}, nil)
			}
			servers[tool.Server].AddTool(&mcp.Tool{Name: tool.Name, InputSchema: map[string]any{"type": "object"}},
				func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
					return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: tool.Text}}}, nil
				})
		}
	}
	return servers
}

// segments has the model answer as the script says.
func segments(script *transcript.Transcript) llm.Brain {
	return func(r *llm.Request) llm.Step {
		body, contentType := script.Segment(r.Number)
		status := http.StatusOK
		if body == nil {
			status, body = http.StatusInternalServerError, []byte(`{"error":{"message":"the script has no such segment"}}`)
		}
		return llm.Raw(status, http.Header{"Content-Type": {contentType}}, string(body))
	}
}

// withoutTools leaves out the tools: all scripts have their servers in common here.
func withoutTools(t *testing.T, body []byte) string {
	t.Helper()
	out, err := sjson.DeleteBytes(body, "tools")
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}
