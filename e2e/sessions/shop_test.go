package sessions_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcp-via-llm/mcp-via-llm/e2e/mcpserver"
)

// shop is an MCP server that remembers what it did for whom:
//
//	order(nonce, ms)  takes ms milliseconds, and must not run twice
//	look(nonce, ms)   takes ms milliseconds and changes nothing
//	stamp(nonce)      is quick and idempotent
//
// A negative ms waits until the test opens the nonce.
type shop struct {
	url string

	mu        sync.Mutex
	ran       map[string]int // by tool and nonce: calls that began
	finished  map[string]int
	cancelled map[string]int
	gates     map[string]chan struct{}
}

func openShop(t *testing.T) *shop {
	s := &shop{ran: map[string]int{}, finished: map[string]int{}, cancelled: map[string]int{}, gates: map[string]chan struct{}{}}
	server := mcp.NewServer(&mcp.Implementation{Name: "shop", Version: "1.0.0"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "order", Description: "Orders"}, s.order)
	mcp.AddTool(server, &mcp.Tool{Name: "look", Description: "Looks", Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}}, s.look)
	mcp.AddTool(server, &mcp.Tool{Name: "stamp", Description: "Stamps", Annotations: &mcp.ToolAnnotations{IdempotentHint: true}}, s.stamp)
	listener := httptest.NewServer(mcpserver.HTTP(server, true, nil))
	t.Cleanup(listener.Close)
	s.url = listener.URL
	return s
}

type errand struct {
	Nonce string `json:"nonce"`
	MS    int    `json:"ms,omitempty"`
}

func (s *shop) order(ctx context.Context, _ *mcp.CallToolRequest, in errand) (*mcp.CallToolResult, any, error) {
	return s.do(ctx, "order", in)
}

func (s *shop) look(ctx context.Context, _ *mcp.CallToolRequest, in errand) (*mcp.CallToolResult, any, error) {
	return s.do(ctx, "look", in)
}

func (s *shop) stamp(ctx context.Context, _ *mcp.CallToolRequest, in errand) (*mcp.CallToolResult, any, error) {
	return s.do(ctx, "stamp", in)
}

func (s *shop) do(ctx context.Context, tool string, in errand) (*mcp.CallToolResult, any, error) {
	key := tool + " " + in.Nonce
	turn := s.add(s.ran, key)
	wait := make(<-chan time.Time)
	if in.MS >= 0 {
		wait = time.After(time.Duration(in.MS) * time.Millisecond)
	}
	select {
	case <-wait:
	case <-s.gate(in.Nonce):
	case <-ctx.Done():
		s.add(s.cancelled, key)
		return nil, nil, ctx.Err()
	}
	s.add(s.finished, key)
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprintf("did %s, time %d", key, turn)}}}, nil, nil
}

func (s *shop) add(to map[string]int, key string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	to[key]++
	return to[key]
}

// count reads one of the shop's maps.
func (s *shop) count(of map[string]int, key string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return of[key]
}

func (s *shop) gate(nonce string) chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gates[nonce] == nil {
		s.gates[nonce] = make(chan struct{})
	}
	return s.gates[nonce]
}

// open lets the waiting calls of a nonce finish.
func (s *shop) open(nonce string) { close(s.gate(nonce)) }
