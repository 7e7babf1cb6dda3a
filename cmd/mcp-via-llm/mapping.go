package main

import (
	"context"
	"encoding/json"
	"maps"
	"slices"

	"github.com/mcp-via-llm/mcp-via-llm/config"
	"github.com/mcp-via-llm/mcp-via-llm/loop"
	"github.com/mcp-via-llm/mcp-via-llm/mcp"
	"github.com/mcp-via-llm/mcp-via-llm/mcp/credential"
	"github.com/mcp-via-llm/mcp-via-llm/policy"
)

// mcpServers maps the configured servers, by name.
func mcpServers(cfg *config.Config) []mcp.Server {
	var all []mcp.Server
	for _, name := range slices.Sorted(maps.Keys(cfg.Servers)) {
		s := cfg.Servers[name]
		all = append(all, mcp.Server{
			Name:           name,
			Command:        s.Command,
			Env:            s.Env,
			Dir:            s.Cwd,
			URL:            s.URL,
			Transport:      s.Transport,
			Headers:        s.Headers,
			ForwardHeaders: s.ForwardHeaders,
			Auth:           auth(s.Auth),
			TLS:            (*credential.TLS)(s.TLS),
			Direct:         !s.Egress,
			ToolTimeout:    s.ToolTimeout,
			ToolTimeoutMax: s.ToolTimeoutMax,
			ConnectTimeout: s.ConnectTimeout,
			Roots:          s.Roots,
			Sampling:       s.Sampling,
			Elicitation:    s.Elicitation,
			MaxResultBytes: s.MaxResultBytes,
			Allow:          s.Tools.Allow,
			Deny:           s.Tools.Deny,
			Required:       !s.Optional,

			DistrustAnnotations: !s.TrustAnnotations,
		})
	}
	return all
}

// loopClients maps the client profiles.
func loopClients(cfg *config.Config) map[string]*loop.Client {
	all := map[string]*loop.Client{}
	for name, client := range cfg.Clients {
		all[name] = loopClient(name, &client)
	}
	return all
}

func loopClient(name string, c *config.Client) *loop.Client {
	var sampling loop.Sampling
	if c.Sampling != nil {
		sampling = loop.Sampling(*c.Sampling)
	}
	return &loop.Client{
		Name:             name,
		Explain:          c.Explain,
		Servers:          c.Servers,
		Models:           c.Models,
		MaxIterations:    c.MaxIterations,
		MaxParallelCalls: c.MaxParallelCalls,
		MaxTools:         c.MaxTools,
		MaxToolsBytes:    c.MaxToolsBytes,
		Resources:        c.Resources,
		Prompts:          c.Prompts,
		LoopTimeout:      c.LoopTimeout,
		Keepalive:        c.Keepalive,
		KeepaliveStyle:   c.KeepaliveStyle,
		Dialect:          c.Dialect,
		SchemaDialect:    c.SchemaDialect,
		SessionTTL:       c.SessionTTL,
		TurnMaxBytes:     c.TurnMaxBytes,
		HistoryMaxBytes:  c.HistoryMaxBytes,
		Images:           c.Images,
		Sampling:         sampling,
		Elicit:           c.Elicitation == config.ElicitationClient,
		ApprovalTimeout:  min(c.ApprovalTimeout, c.SessionTTL),
	}
}

// toolset lets the loop use a toolset of the MCP host.
type toolset struct {
	*mcp.Binding
	set     *mcp.Toolset
	servers []string
	guard   policy.Guard
}

func (t *toolset) Unavailable() []string { return t.set.Unavailable() }

func (t *toolset) Owns(name string) bool { return mcp.Owns(t.servers, name) }

func (t *toolset) Injected() []loop.Injected {
	listed := t.List()
	all := make([]loop.Injected, len(listed))
	for i, tool := range listed {
		all[i] = loop.Injected{Name: tool.Name, Server: tool.Server, Kind: tool.Kind, Tokens: tool.Tokens}
	}
	return all
}

func (t *toolset) Call(ctx context.Context, name, arguments string) loop.Result {
	ctx, call := t.begin(ctx, name, arguments)
	var r mcp.Result
	var resolved json.RawMessage
	if !call.Unfit {
		resolved = call.Arguments
	}
	refused := t.guard.Call(ctx, call, func(ctx context.Context) string {
		r = t.CallResolved(ctx, name, arguments, resolved)
		return r.Outcome
	})
	if refused != nil {
		return loop.Result{Text: refused.Message, Outcome: refused.Outcome}
	}
	return resultOf(&r)
}

// begin is the call for the rules, and the context for the host.
//
//go:noinline // or it were in the frame of Call, which is held while the call runs
func (t *toolset) begin(ctx context.Context, name, arguments string) (context.Context, *policy.Call) {
	if asker := loop.AskerFrom(ctx); asker != nil {
		ctx = mcp.WithAsker(ctx, asker)
	}
	if progress := loop.ProgressFrom(ctx); progress != nil {
		ctx = mcp.WithProgress(ctx, progress)
	}
	call := t.ruledCall(name, arguments)
	call.Approved = loop.Consented(ctx)
	return ctx, &call
}

//go:noinline // as begin
func resultOf(r *mcp.Result) loop.Result {
	result := loop.Result{Text: r.Text, Outcome: r.Outcome}
	for _, image := range r.Images {
		result.Images = append(result.Images, loop.Image(image))
	}
	return result
}
