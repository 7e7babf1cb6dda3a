package mcp

import (
	"fmt"
	"log/slog"
	"path"
	"slices"
	"sync"

	"github.com/mcp-via-llm/mcp-via-llm/excerpt"
	"github.com/mcp-via-llm/mcp-via-llm/spelling"
)

// idleGlobs remembers which globs of a server were said to match no tool.
type idleGlobs struct {
	mu   sync.Mutex
	said map[string]bool
}

// look warns of the globs that match none of the tools that the server lists: a
// tool that was to be left out may be offered. Each is said once, and again when it
// has matched meanwhile.
func (g *idleGlobs) look(cfg *Server, listed []string, log *slog.Logger) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for kind, globs := range map[string][]string{"allow": cfg.Allow, "deny": cfg.Deny} {
		for i, glob := range globs {
			key := fmt.Sprintf("servers.%s.tools.%s[%d]", cfg.Name, kind, i)
			idle := !slices.ContainsFunc(listed, func(name string) bool {
				ok, _ := path.Match(glob, name)
				return ok
			})
			if idle && !g.said[key] {
				log.Warn("a rule over tools does nothing: it matches none that the server lists",
					"key", key, "glob", glob, "nearest", excerpt.Head(spelling.Nearest(glob, listed), maxErrorText))
			}
			if g.said == nil {
				g.said = map[string]bool{}
			}
			g.said[key] = idle
		}
	}
}
