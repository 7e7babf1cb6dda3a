package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/mcp-via-llm/mcp-via-llm/config"
	"github.com/mcp-via-llm/mcp-via-llm/mcp"
	"github.com/mcp-via-llm/mcp-via-llm/policy"
	"github.com/mcp-via-llm/mcp-via-llm/schema"
	"github.com/mcp-via-llm/mcp-via-llm/spelling"
)

// everything is what servers offer, before the rules of a profile.
func everything(servers []string) mcp.Query {
	return mcp.Query{Servers: servers, Resources: true, Prompts: true, Schema: schema.Permissive}
}

// idle gives the globs of the profiles, and of the limits of the servers in the
// set, that match nothing the servers offer. Such a rule restricts nothing, and
// most likely has a slip of the pen. What a server that is away offers is not known.
func idle(cfg *config.Config, clients, servers []string, set *mcp.Toolset) (all []*config.Problem) {
	away := set.Unavailable()
	offers := slices.Concat(set.Tools(), set.Omitted(), set.Instructions())
	judge := func(g config.Glob, from []string, names func(mcp.Tool) []string) {
		if g.Server != "" {
			if !slices.Contains(from, g.Server) {
				return
			}
			from = []string{g.Server}
		}
		if slices.ContainsFunc(from, func(name string) bool { return slices.Contains(away, name) }) {
			return
		}
		var known []string
		for _, t := range offers {
			if !slices.Contains(from, t.Server) {
				continue
			}
			if policy.Match(g.Text, names(t)...) {
				return
			}
			known = append(known, names(t)[0])
		}
		text := "matches nothing that the MCP servers offer, so it does nothing"
		if near := spelling.Nearest(g.Text, known); near != "" {
			text += fmt.Sprintf("; did you mean %q?", near)
		}
		all = append(all, cfg.At(g.Key, text))
	}
	for _, name := range clients {
		for _, g := range cfg.ToolGlobs(name) {
			judge(g, cfg.Clients[name].Servers, func(t mcp.Tool) []string {
				if g.Shown {
					return []string{t.Name}
				}
				return append([]string{t.Name}, t.RuleNames...)
			})
		}
	}
	for _, name := range servers {
		for _, g := range cfg.LimitGlobs(name) {
			judge(g, []string{name}, func(t mcp.Tool) []string { return []string{t.Original} })
		}
	}
	slices.SortStableFunc(all, func(a, b *config.Problem) int { return cmp.Compare(a.Line, b.Line) })
	return all
}

// idleLook is the time between two looks at what the servers offer.
const idleLook = 5 * time.Second

// watchIdle says which rules do nothing, once in a configuration.
func (a *app) watchIdle(ctx context.Context) {
	ticker := time.NewTicker(idleLook)
	defer ticker.Stop()
	var in *snapshot
	var of *mcp.Toolset
	said := map[string]bool{}
	for a.host.Settle(ctx); ctx.Err() == nil; {
		now := a.current.Load()
		servers := slices.Sorted(maps.Keys(now.config.Servers))
		set := a.host.Toolset(ctx, everything(servers))
		if now != in {
			clear(said)
		}
		if now != in || set != of {
			in, of = now, set
			for _, p := range idle(now.config, slices.Sorted(maps.Keys(now.config.Clients)), servers, set) {
				if !said[p.Key] {
					said[p.Key] = true
					a.log.Warn("a rule over tools does nothing", "file", p.File, "line", p.Line, "key", p.Key, "problem", p.Text)
				}
			}
		}
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
}
