package mcp

import (
	"context"
	"encoding/json"
)

// Asker answers what a server asks back while it works on a call: a completion
// of the model (sampling/createMessage) or something of the user
// (elicitation/create). A request goes to the Asker of the call that it belongs
// to, and to no other. What a server writes in it is data. A server may ask several
// things at once, so both methods may be called by several goroutines.
//
// params is the raw JSON of the request's params and the answer that of its
// result, as MCP (2025-11-25 and 2026-07-28, "Sampling" and "Elicitation") has
// them. ctx ends with the call. The time that an answer takes does not count
// against the tool's timeouts. An error means that there is no answer; its text
// is told to the server, or to the model, as the reason.
type Asker interface {
	Sample(ctx context.Context, server string, params json.RawMessage) (json.RawMessage, error)
	Elicit(ctx context.Context, server string, params json.RawMessage) (json.RawMessage, error)
}

type askerKey struct{}

// WithAsker gives a call, see [Binding.Call], who answers for it. It has an effect
// on servers with [Server.Sampling] or [Server.Elicitation] only: the others are
// not told that they may ask, and get a refusal at once if they do.
func WithAsker(ctx context.Context, a Asker) context.Context {
	return context.WithValue(ctx, askerKey{}, a)
}

func askerOf(ctx context.Context) Asker {
	a, _ := ctx.Value(askerKey{}).(Asker)
	return a
}

type progressKey struct{}

// WithProgress gives a call, see [Binding.Call], who is told of its progress. Server
// and tool are the configured and the server's own name; message may be empty and
// total 0 where the server does not say. All but server is data of the server. fn
// is called by one goroutine at a time and must not block.
func WithProgress(ctx context.Context, fn func(server, tool, message string, progress, total float64)) context.Context {
	return context.WithValue(ctx, progressKey{}, fn)
}

func progressOf(ctx context.Context) func(server, tool, message string, progress, total float64) {
	fn, _ := ctx.Value(progressKey{}).(func(server, tool, message string, progress, total float64))
	return fn
}
