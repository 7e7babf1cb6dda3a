package mcpserver_test

import (
	"bytes"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/mcp-via-llm/mcp-via-llm/e2e/mcpserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type buffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

// TestRecorder asserts that each message of a call over HTTP is recorded, both ways.
func TestRecorder(t *testing.T) {
	for name, stateless := range map[string]bool{"stateless": true, "sessions": false} {
		t.Run(name, func(t *testing.T) {
			var wire buffer
			server := httptest.NewServer(mcpserver.HTTP(mcpserver.NewAdd(), stateless, mcpserver.NewRecorder(&wire)))
			defer server.Close()
			client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
			session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: server.URL}, nil)
			if err != nil {
				t.Fatal(err)
			}
			got, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "add_numbers", Arguments: map[string]any{"a": 5, "b": 7}})
			if err != nil {
				t.Fatal(err)
			}
			if text, ok := got.Content[0].(*mcp.TextContent); !ok || text.Text != "Result: 12" {
				t.Errorf("result %+v", got.Content[0])
			}
			if err := session.Close(); err != nil {
				t.Error(err)
			}
			server.Close()
			messages, err := mcpserver.ParseMessages(wire.Bytes())
			if err != nil {
				t.Fatal(err)
			}
			called := slices.IndexFunc(messages, func(m mcpserver.Message) bool { return m.Received && m.Method() == "tools/call" })
			answered := slices.IndexFunc(messages, func(m mcpserver.Message) bool {
				return !m.Received && bytes.Contains(m.JSON, []byte(`"Result: 12"`))
			})
			if called < 0 || answered < called {
				t.Errorf("call at %d and result at %d of %s", called, answered, wire.String())
			}
		})
	}
}
