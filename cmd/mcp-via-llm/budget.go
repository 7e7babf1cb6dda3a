package main

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mcp-via-llm/mcp-via-llm/loop"
	"github.com/mcp-via-llm/mcp-via-llm/mcp"
)

// shortage says once which tools have no room, for as long as they are the same.
type shortage struct {
	mu   sync.Mutex
	said map[string]time.Time // when, by client and what was left out
}

const (
	saidFor  = time.Hour // then it is said again
	saidMax  = 1000
	saidList = 20 // names in one line of the log
)

// isNews reports whether it is time to say that a client's tools have no room.
func (s *shortage) isNews(client string, omitted []string) bool {
	if len(omitted) == 0 {
		return false
	}
	key := client + "\x00" + strings.Join(omitted, "\x00")
	s.mu.Lock()
	defer s.mu.Unlock()
	if at, ok := s.said[key]; ok && time.Since(at) < saidFor {
		return false
	}
	if s.said == nil || len(s.said) >= saidMax {
		s.said = map[string]time.Time{}
	}
	s.said[key] = time.Now()
	return true
}

// omitted tells the operator what there was no room for in a request that has
// functions of the client's own.
func (a *app) omitted(c *loop.Client, b *mcp.Binding, own int) {
	names := b.Omitted()
	a.telemetry.Omitted(c.Name, len(names))
	if a.short.isNews(c.Name, names) {
		a.log.Warn("tools are left out, because max_tools or max_tools_bytes has no room for all; the model finds and calls them through mcp_search_tools and mcp_call_tool",
			"client", c.Name, "max_tools", c.MaxTools, "max_tools_bytes", c.MaxToolsBytes, "client_functions", own, "left_out", len(names), "first", names[:min(len(names), saidList)])
	}
}

// checkBudgets says which profiles get more tools than there is room for.
func (a *app) checkBudgets(ctx context.Context) {
	a.host.Settle(ctx)
	now := a.current.Load()
	for _, name := range slices.Sorted(maps.Keys(now.config.Clients)) {
		if ctx.Err() != nil {
			return
		}
		profile := now.config.Clients[name]
		client := loopClient(name, &profile)
		a.omitted(client, a.host.Toolset(ctx, query(client, client.Servers, nil, now.profiles[name])).Bind(nil), 0)
	}
}
