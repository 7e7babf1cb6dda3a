package main

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/mcp-via-llm/mcp-via-llm/config"
	"github.com/mcp-via-llm/mcp-via-llm/loop"
	"github.com/mcp-via-llm/mcp-via-llm/mcp"
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
			ToolTimeout:    s.ToolTimeout,
			ConnectTimeout: s.ConnectTimeout,
			MaxResultBytes: s.MaxResultBytes,
			Allow:          s.Tools.Allow,
			Deny:           s.Tools.Deny,
			Required:       !s.Optional,
		})
	}
	return all
}

func loopClient(name string, c *config.Client) *loop.Client {
	return &loop.Client{
		Name:             name,
		Servers:          c.Servers,
		Models:           c.Models,
		MaxIterations:    c.MaxIterations,
		MaxParallelCalls: c.MaxParallelCalls,
		MaxTools:         c.MaxTools,
		LoopTimeout:      c.LoopTimeout,
		Keepalive:        c.Keepalive,
		KeepaliveStyle:   c.KeepaliveStyle,
		Dialect:          c.Dialect,
	}
}

// toolset lets the loop use a toolset of the MCP host.
type toolset struct {
	*mcp.Binding
	set     *mcp.Toolset
	servers []string
}

func (t *toolset) Unavailable() []string { return t.set.Unavailable() }

// Owns recognises the names that servers' tools have: SERVER__tool, and those
// made of resources and prompts.
func (t *toolset) Owns(name string) bool {
	prefix, _, found := strings.Cut(name, "__")
	return found && (prefix == "mcp_resource" || prefix == "mcp_prompt" ||
		slices.ContainsFunc(t.servers, func(server string) bool { return strings.HasPrefix(name, functionName(server)+"__") }))
}

// functionName is a server's name as it stands in injected names.
func functionName(server string) string {
	return strings.Map(func(r rune) rune {
		if r == '-' || r == '_' || '0' <= r && r <= '9' || 'a' <= r|0x20 && r|0x20 <= 'z' && r < 0x80 {
			return r
		}
		return '_'
	}, server)
}

// nothingRan are the outcomes of calls that no server has seen.
var nothingRan = []string{mcp.OutcomeInvalidArguments, mcp.OutcomeUnknownTool, mcp.OutcomeUnavailable}

func (t *toolset) Call(ctx context.Context, name, arguments string) loop.Result {
	r := t.Binding.Call(ctx, name, arguments)
	return loop.Result{Text: r.Text, Outcome: r.Outcome, ReadOnly: slices.Contains(nothingRan, r.Outcome)}
}
