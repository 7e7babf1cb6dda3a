package mcpserver

import (
	"context"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Numbers are the arguments of add_numbers.
type Numbers struct {
	A float64 `json:"a"`
	B float64 `json:"b"`
}

// NewAdd makes a server with one tool, add_numbers(a, b), whose result is the text "Result: " and the sum.
func NewAdd() *mcp.Server {
	server := mcp.NewServer(&mcp.Implementation{Name: "add-server", Version: "1.0.0"}, nil)
	mcp.AddTool(server, &mcp.Tool{
		Name: "add_numbers", Description: "Adds two numbers",
		Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true},
	}, func(_ context.Context, _ *mcp.CallToolRequest, n Numbers) (*mcp.CallToolResult, any, error) {
		return text(fmt.Sprintf("Result: %v", n.A+n.B)), nil, nil
	})
	return server
}

func text(s string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: s}}}
}
