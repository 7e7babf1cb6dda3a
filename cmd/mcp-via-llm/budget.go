package main

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mcp-via-llm/mcp-via-llm/config"
	"github.com/mcp-via-llm/mcp-via-llm/loop"
	"github.com/mcp-via-llm/mcp-via-llm/mcp"
)

// shortage says once which tools have no room, for as long as they are the same.
type shortage struct {
	mu   sync.Mutex
	said map[string]time.Time // when, by client and what was left out
	last map[string]int       // tools left out of the last request, by client
}

const (
	saidFor  = time.Hour // then it is said again
	saidMax  = 1000
	saidList = 20 // names in one line of the log
)

// isNews notes what a request of a client has no room for, and reports whether it
// is time to say so.
func (s *shortage) isNews(client string, omitted []string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last == nil {
		s.last = map[string]int{}
	}
	if n, known := s.last[client]; !known || n != len(omitted) {
		s.last[client] = len(omitted)
	}
	if len(omitted) == 0 {
		return false
	}
	key := client + "\x00" + strings.Join(omitted, "\x00")
	if at, ok := s.said[key]; ok && time.Since(at) < saidFor {
		return false
	}
	if s.said == nil || len(s.said) >= saidMax {
		s.said = map[string]time.Time{}
	}
	s.said[key] = time.Now()
	return true
}

// counts gives how many tools were left out of the last request of each of the
// clients.
func (s *shortage) counts(clients map[string]config.Client) map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := map[string]int{}
	for name, n := range s.last {
		if _, there := clients[name]; there {
			all[name] = n
		}
	}
	return all
}

// omitted tells the operator what there was no room for in a request that has
// functions of the client's own.
func (a *app) omitted(ctx context.Context, c *loop.Client, b *mcp.Binding, own int) {
	names := b.Omitted()
	if a.short.isNews(c.Name, names) {
		a.log.WarnContext(ctx, "tools are left out, because max_tools or max_tools_bytes has no room for all; the model finds and calls them through mcp_search_tools and mcp_call_tool",
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
		a.omitted(ctx, client, a.host.Toolset(ctx, query(client, client.Servers, nil, now.profiles[name])).Bind(nil), 0)
	}
}
