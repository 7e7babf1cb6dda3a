package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Bench is a server whose tools behave in the ways a host must live with, and which remembers its calls.
type Bench struct {
	Server *mcp.Server

	mu        sync.Mutex
	calls     map[string]int
	started   chan string
	cancelled chan string
}

// NewBench makes the server with its tools:
//
//	echo(text)      the text
//	fail(text)      a tool error with the text
//	slow(seconds)   waits, with a progress notification each 100 ms, then says how long
//	big(bytes)      that many bytes of text
//	count()         how often it has been called
func NewBench() *Bench {
	b := &Bench{
		Server: mcp.NewServer(&mcp.Implementation{Name: "bench-server", Version: "1.0.0"}, nil),
		calls:  map[string]int{}, started: make(chan string, 1000), cancelled: make(chan string, 1000),
	}
	mcp.AddTool(b.Server, &mcp.Tool{Name: "echo", Description: "Returns its text"}, echo)
	mcp.AddTool(b.Server, &mcp.Tool{Name: "fail", Description: "Fails with its text"}, fail)
	mcp.AddTool(b.Server, &mcp.Tool{Name: "slow", Description: "Takes its time"}, b.slow)
	mcp.AddTool(b.Server, &mcp.Tool{Name: "big", Description: "Returns a lot of text"}, big)
	mcp.AddTool(b.Server, &mcp.Tool{Name: "count", Description: "Counts its calls"}, b.count)
	b.Server.AddReceivingMiddleware(b.remember)
	return b
}

// Calls tells how often a tool was called.
func (b *Bench) Calls(tool string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.calls[tool]
}

// Started gives the name of each tool as its call begins.
func (b *Bench) Started() <-chan string { return b.started }

// Cancelled gives the name of each tool whose call the client cancelled, as it notices.
func (b *Bench) Cancelled() <-chan string { return b.cancelled }

func (b *Bench) remember(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
		if call, ok := r.(*mcp.CallToolRequest); ok {
			b.mu.Lock()
			b.calls[call.Params.Name]++
			b.mu.Unlock()
			select {
			case b.started <- call.Params.Name:
			default: // nobody listens, and the buffer is full
			}
		}
		return next(ctx, method, r)
	}
}

type textArguments struct {
	Text string `json:"text"`
}

func echo(_ context.Context, _ *mcp.CallToolRequest, in textArguments) (*mcp.CallToolResult, any, error) {
	return text(in.Text), nil, nil
}

func fail(_ context.Context, _ *mcp.CallToolRequest, in textArguments) (*mcp.CallToolResult, any, error) {
	return nil, nil, errors.New(in.Text)
}

type sizeArguments struct {
	Bytes int `json:"bytes"`
}

func big(_ context.Context, _ *mcp.CallToolRequest, in sizeArguments) (*mcp.CallToolResult, any, error) {
	return text(strings.Repeat("x", in.Bytes)), nil, nil
}

func (b *Bench) count(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
	return text(fmt.Sprint(b.Calls("count"))), nil, nil
}

type slowArguments struct {
	Seconds float64 `json:"seconds"`
}

func (b *Bench) slow(ctx context.Context, r *mcp.CallToolRequest, in slowArguments) (*mcp.CallToolResult, any, error) {
	end := time.After(time.Duration(in.Seconds * float64(time.Second)))
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for done := 0.0; ; done++ {
		select {
		case <-end:
			return text(fmt.Sprintf("waited %v s", in.Seconds)), nil, nil
		case <-ctx.Done():
			b.cancelled <- r.Params.Name
			return nil, nil, ctx.Err()
		case <-tick.C:
			if token := r.Params.GetProgressToken(); token != nil {
				// Progress is advice: a client that does not read it must not end the call.
				_ = r.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: token, Progress: done})
			}
		}
	}
}
