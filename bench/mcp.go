package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// mcpCommand serves an MCP server with one useful tool among many.
type mcpCommand struct {
	Listen string `default:"127.0.0.1:9101" help:"address"`
	Tools  int    `default:"5" help:"how many tools it lists"`
}

func (c *mcpCommand) Run() error {
	server := mcp.NewServer(&mcp.Implementation{Name: "bench", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "echo", Description: "Gives its text back after some milliseconds",
		Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}}, echo)
	for n := 1; n < c.Tools; n++ {
		mcp.AddTool(server, &mcp.Tool{Name: fmt.Sprintf("tool_%04d", n), Description: otherDescription}, other)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /ready", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	mux.Handle("/mcp", mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{JSONResponse: true, Stateless: true}))
	listener := http.Server{Addr: c.Listen, Handler: mux, ReadHeaderTimeout: time.Minute}
	return listener.ListenAndServe()
}

type echoArguments struct {
	Text string `json:"text"`
	MS   int    `json:"ms,omitempty"`
}

func echo(ctx context.Context, _ *mcp.CallToolRequest, in echoArguments) (*mcp.CallToolResult, any, error) {
	if in.MS > 0 {
		timer := time.NewTimer(time.Duration(in.MS) * time.Millisecond)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
	}
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: in.Text}}}, nil, nil
}

const otherDescription = "A tool that nobody calls, with a description as long as those of usual tools are"

type otherArguments struct {
	Path  string   `json:"path" jsonschema:"the path of the file to look at"`
	Limit int      `json:"limit,omitempty" jsonschema:"how many lines at most"`
	Tags  []string `json:"tags,omitempty"`
}

func other(context.Context, *mcp.CallToolRequest, otherArguments) (*mcp.CallToolResult, any, error) {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "nothing"}}}, nil, nil
}
