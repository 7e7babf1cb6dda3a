package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcp-via-llm/mcp-via-llm/e2e/mcpserver"
)

// errand is what the shop's tools are asked to do, and how many milliseconds they take.
type errand struct {
	Nonce string `json:"nonce"`
	MS    int    `json:"ms,omitempty"`
}

// shop remembers how often it did what for whom.
type shop struct {
	mu  sync.Mutex
	did map[string]int // by tool and nonce
}

// shopHandler serves the tools order (which must not run twice) and look (which changes nothing) under /mcp, and what
// was done under /did.
func shopHandler() http.Handler {
	s := &shop{did: map[string]int{}}
	server := mcp.NewServer(&mcp.Implementation{Name: "shop", Version: "1.0.0"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "order", Description: "Orders"}, s.tool("order"))
	mcp.AddTool(server, &mcp.Tool{Name: "look", Description: "Looks", Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}}, s.tool("look"))
	mux := http.NewServeMux()
	mux.Handle("/mcp", mcpserver.HTTP(server, true, nil))
	mux.HandleFunc("GET /did", func(w http.ResponseWriter, _ *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		json.NewEncoder(w).Encode(s.did) //nolint:errcheck // the reader is gone
	})
	return mux
}

func (s *shop) tool(name string) mcp.ToolHandlerFor[errand, any] {
	return func(ctx context.Context, _ *mcp.CallToolRequest, in errand) (*mcp.CallToolResult, any, error) {
		s.mu.Lock()
		s.did[name+" "+in.Nonce]++
		time := s.did[name+" "+in.Nonce]
		s.mu.Unlock()
		if err := sleep(ctx, in.MS); err != nil {
			return nil, nil, err
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprintf("did %s %s, time %d", name, in.Nonce, time)}}}, nil, nil
	}
}

func sleep(ctx context.Context, ms int) error {
	select {
	case <-time.After(time.Duration(ms) * time.Millisecond):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
