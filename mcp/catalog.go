package mcp

import (
	"cmp"
	"log/slog"
	"path"
	"slices"

	"github.com/mcp-via-llm/mcp-via-llm/excerpt"
)

// list is one of the lists that a server has.
type list int

const (
	listTools list = iota
	listResources
	listTemplates
	listPrompts
	listCount
)

func (l list) String() string {
	return [...]string{"tools", "resources", "resource templates", "prompts"}[l]
}

// catalog is what one server offers; immutable.
type catalog struct {
	lists [listCount][]*tool // in the order of the server
}

// items gives the items of a list.
func (cat *catalog) items(l list) []*tool {
	if cat == nil {
		return nil
	}
	return cat.lists[l]
}

// with is the catalog with other items in a list; the same one if nothing differs,
// so that all that was derived from it stays.
func (cat *catalog) with(l list, items []*tool) *catalog {
	if cat != nil && slices.Equal(cat.lists[l], items) {
		return cat
	}
	next := &catalog{}
	if cat != nil {
		next.lists = cat.lists
	}
	next.lists[l] = items
	return next
}

// count counts what the catalog has of a kind.
func (cat *catalog) count(kind string) (n int) {
	for _, items := range cat.lists {
		n += len(ofKind(items, kind))
	}
	return n
}

// ofKind gives the items of a kind.
func ofKind(items []*tool, kind string) (out []*tool) {
	for _, t := range items {
		if t.kind == kind {
			out = append(out, t)
		}
	}
	return out
}

// collector gathers the usable items of a list.
type collector struct {
	of    listing
	cfg   *Server
	log   *slog.Logger
	known map[string]*tool // by raw listing
	seen  map[string]bool  // ids
	items []*tool
	names []string // of all tools, also of those that are not allowed
	bytes int

	nameless int // entries
}

// add takes the usable items of a page. What did not change since it was last
// listed is taken from there, with its compiled schemas.
func (c *collector) add(p page) {
	c.bytes += len(p.result.Raw)
	for _, raw := range p.result.Get(c.of.member).Array() {
		id := raw.Get(c.of.id).String()
		if c.of.params == nil {
			c.names = append(c.names, id)
		}
		switch {
		case id == "":
			c.nameless++
			continue
		case p.valid != nil && !p.valid[id]:
			continue // the SDK has logged why
		case c.seen[id]:
			c.log.Warn("listed twice; using the first", "item", excerpt.Head(id, maxErrorText))
			continue
		case c.of.params == nil && !allowed(c.cfg, id):
			continue
		}
		t := c.known[raw.Raw]
		if t == nil {
			var err error
			if t, err = c.of.build(raw, c.log); err != nil {
				c.log.Warn("left out", "item", excerpt.Head(id, maxErrorText), "error", err)
				continue
			}
			if t.kind == KindTool && c.cfg.DistrustAnnotations {
				t.readOnly, t.repeatable = false, false
			}
		}
		c.seen[id] = true
		c.items = append(c.items, t)
	}
}

// keep adds what is known and did not come.
func (c *collector) keep(known []*tool) {
	for _, t := range known {
		if id := cmp.Or(t.uri, t.name); !c.seen[id] {
			c.seen[id] = true
			c.items = append(c.items, t)
		}
	}
}

// bindsHeaders reports whether a tool has an argument that goes out as a header too.
func bindsHeaders(tools []*tool) bool {
	return slices.ContainsFunc(tools, func(t *tool) bool { return t.headers })
}

// allowed applies the globs of the configuration. A glob that is malformed
// matches nothing.
func allowed(cfg *Server, name string) bool {
	matches := func(glob string) bool {
		ok, _ := path.Match(glob, name)
		return ok
	}
	return (len(cfg.Allow) == 0 || slices.ContainsFunc(cfg.Allow, matches)) && !slices.ContainsFunc(cfg.Deny, matches)
}
