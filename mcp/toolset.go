package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/mcp-via-llm/mcp-via-llm/schema"
)

// Query says whose tools are wanted.
type Query struct {
	Servers []string
	// Header is the client's request, for servers with ForwardHeaders.
	Header http.Header
	// MaxTools bounds the functions of a request, the client's own included;
	// 0 means no limit.
	MaxTools int
	// Resources and Prompts offer these too, not only tools.
	Resources, Prompts bool
	// Filter leaves out what it does not keep, before MaxTools and MaxBytes count; nil keeps
	// everything.
	Filter Filter
	// Schema is the dialect of JSON Schema that the provider takes; "" is
	// [schema.OpenAI].
	Schema schema.Dialect
	// MaxBytes bounds the JSON of the functions together, those of the client not
	// counted; 0 means no limit.
	MaxBytes int
}

// Tool is one function as it is offered to the model, or one prompt whose text is
// in the leading system message.
type Tool struct {
	Name        string `json:"name"` // injected
	Server      string `json:"server"`
	Kind        string `json:"kind"`     // one of the Kind constants
	Original    string `json:"original"` // the server's own name
	Description string `json:"description"`
	Tokens      int    `json:"tokens"`    // estimate of what JSON costs: four bytes a token
	ReadOnly    bool   `json:"read_only"` // the server says that it changes nothing
	// RuleNames are what rules know it by, whatever functions a client has of its
	// own: its injected name, and that as it would be uncut and without others that
	// want the same.
	RuleNames []string `json:"-"`
	// URI is of what a call reads, see [Binding.Resolve], and LiteralURI the same for a
	// server that does not take what is encoded, or a query, for a part of the path.
	URI, LiteralURI string `json:"-"`

	JSON json.RawMessage `json:"-"` // the element of the request's tools
}

// entry is a function of a toolset with what runs it.
type entry struct {
	Tool
	tool   *tool
	as     *schema.Function // the tool as the provider takes it
	origin origin
	conn   *conn               // nil for the two of budget.go
	place  int                 // of its server in the query
	listed map[string][]string // of a template: the names for rules of its server's resources, by [sameURI]
}

// Toolset is what some servers offer now, under injected names. It is immutable,
// and the same as long as nothing that went into it changes.
type Toolset struct {
	host        *Host
	entries     []entry // by server, then by name
	unavailable []string
	maxTools    int
	maxBytes    int
	dialect     schema.Dialect
	prompts     []Tool // whose texts are in system
	system      string
	plain       *Binding // for a request without functions of its own
	from        []*catalog

	mu    sync.Mutex
	bound map[string]*Binding // by the names that are taken
	index func() *searchIndex // of all entries, made when it is first needed
}

// Toolset returns the tools of the servers in the query that are connected. It
// waits for those still in their first attempt to connect, until ctx ends or
// that attempt has taken 3 s or its ConnectTimeout; for nothing else.
func (h *Host) Toolset(ctx context.Context, q Query) *Toolset {
	// Of a toolset that is there already only the key is made, without allocation.
	var forKey [512]byte
	var forConns [8]*conn
	var forCatalogs [8]*catalog
	key, conns, from := forKey[:0], forConns[:0], forCatalogs[:0]
	for i, name := range q.Servers {
		if slices.Contains(q.Servers[:i], name) {
			continue
		}
		c := h.connFor(name, q.Header)
		conns = append(conns, c)
		key = strconv.AppendQuote(key, name)
		if c != nil {
			key = append(key, c.id...)
		}
	}
	q.Schema = cmp.Or(q.Schema, schema.OpenAI)
	key = q.appendKey(key)
	for _, c := range conns { // all are connecting by now, so this waits for the slowest, not for each
		var now *catalog
		if c != nil {
			c.waitWhole(ctx, h.opts.Patience)
			now = c.current.Load().catalog
		}
		from = append(from, now)
	}
	if ts := h.sets.get(key, from); ts != nil {
		return ts
	}
	ts := h.newToolset(q, slices.Clone(conns), slices.Clone(from))
	h.sets.put(string(key), ts)
	return ts
}

// appendKey appends what tells toolsets of the same servers apart.
func (q *Query) appendKey(key []byte) []byte {
	for _, n := range []int{q.MaxTools, q.MaxBytes} {
		key = append(strconv.AppendInt(key, int64(n), 10), ' ')
	}
	for _, b := range []bool{q.Resources, q.Prompts} {
		key = append(strconv.AppendBool(key, b), ' ')
	}
	key = append(key, q.Schema...)
	if q.Filter != nil {
		key = strconv.AppendQuote(key, q.Filter.Key())
	}
	return key
}

// maxWork bounds what a server's schemas may cost, in values that are handled: a
// second or less of a core, for which the first turn that asks for them waits, and on a
// busy machine several times as long. 2,000 tools with 100 values each cost two fifths of it.
const maxWork = 500_000

func (h *Host) newToolset(q Query, conns []*conn, from []*catalog) *Toolset {
	var names []string
	for _, name := range q.Servers {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	ts := &Toolset{host: h, from: from, maxTools: q.MaxTools, maxBytes: q.MaxBytes, dialect: q.Schema}
	var origins []origin
	for i, cat := range from {
		if cat == nil {
			ts.unavailable = append(ts.unavailable, names[i])
			continue
		}
		work, left := 0, 0
		for _, t := range q.wanted(cat) {
			if work > maxWork && !t.cheap() {
				left++
				continue
			}
			as := t.in(q.Schema, conns[i].log)
			if work += as.work; as.function != nil {
				origins = append(origins, t.origin(names[i]))
				ts.entries = append(ts.entries, entry{tool: t, as: as.function, origin: t.origin(names[i]), conn: conns[i], place: i})
			}
		}
		if left > 0 {
			conns[i].log.Warn("the schemas of this server are too much work; the rest of the large ones is left out", "schema_dialect", q.Schema, "left_out", left)
		}
	}
	slices.Sort(ts.unavailable)
	for i, name := range injectedNames(origins) {
		e := &ts.entries[i]
		e.Tool = e.tool.offer(name, origins[i])
		e.Description = e.as.Description
		e.name(name)
	}
	ts.showListed()
	if q.Filter != nil { // after the names, so that those do not depend on it
		ts.entries = slices.DeleteFunc(ts.entries, func(e entry) bool { return !q.Filter.Keep(e.Tool) })
	}
	slices.SortFunc(ts.entries, func(a, b entry) int {
		return cmp.Or(strings.Compare(a.Server, b.Server), strings.Compare(a.Name, b.Name))
	})
	if q.Prompts {
		ts.prompts, ts.system = h.instructions(q.Filter, names, from)
	}
	ts.index = sync.OnceValue(func() *searchIndex { return newSearchIndex(ts.entries) })
	ts.plain = ts.bind(nil)
	return ts
}

// showListed lets templates know the resources that they can read as well as the
// functions that are there for those.
func (ts *Toolset) showListed() {
	listed := map[string]map[string][]string{} // by server
	for _, e := range ts.entries {
		if e.tool.kind != KindResource {
			continue
		}
		if listed[e.Server] == nil {
			listed[e.Server] = map[string][]string{}
		}
		uri := sameURI(e.tool.uri)
		listed[e.Server][uri] = append(listed[e.Server][uri], e.RuleNames...)
	}
	for i := range ts.entries {
		if e := &ts.entries[i]; e.tool.kind == KindTemplate {
			e.listed = listed[e.Server]
		}
	}
}

// wanted gives what of a catalog is to be offered as functions.
func (q Query) wanted(cat *catalog) []*tool {
	all := slices.Clone(cat.lists[listTools])
	if q.Resources {
		all = slices.Concat(all, cat.lists[listResources], cat.lists[listTemplates])
	}
	if q.Prompts {
		all = append(all, ofKind(cat.lists[listPrompts], KindPrompt)...)
	}
	return all
}

func (t *tool) origin(server string) origin {
	switch t.kind {
	case KindResource, KindTemplate:
		return origin{server: server, tool: t.name, prefix: resourcePrefix, key: t.uri}
	case KindPrompt, KindSystemPrompt:
		return origin{server: server, tool: t.name, prefix: promptPrefix}
	}
	return origin{server: server, tool: t.name}
}

func (t *tool) offer(name string, from origin) Tool {
	return Tool{Name: name, Server: from.server, Kind: t.kind, Original: from.tool, Description: t.description,
		ReadOnly: t.readOnly, RuleNames: ruleNames(name, from)}
}

func (e *entry) name(name string) {
	e.Name = name
	e.JSON = element(name, e.as)
	e.Tokens = estimate(len(e.JSON))
}

// estimate is about what a text costs the model.
func estimate(bytes int) int { return (bytes + 3) / 4 }

// Unavailable names the servers of the query that are not connected, sorted.
func (ts *Toolset) Unavailable() []string { return ts.unavailable }

// Tools lists the functions under the names that they have in a request without
// functions of its own, sorted by server and name.
func (ts *Toolset) Tools() []Tool { return ts.plain.List() }

// Omitted lists the functions for which there is no room in such a request,
// in the order in which they would get it.
func (ts *Toolset) Omitted() []Tool { return offers(ts.plain.omitted) }

// Instructions lists the prompts whose texts are in the leading system message, in
// their order there.
func (ts *Toolset) Instructions() []Tool { return ts.prompts }

func offers(entries []entry) []Tool {
	tools := make([]Tool, len(entries))
	for i, e := range entries {
		tools[i] = e.Tool
	}
	return tools
}

// toolsetCache keeps the last toolset for each set of connections and limits.
type toolsetCache struct {
	mu   sync.Mutex
	sets map[string]*Toolset
}

// maxToolsets bounds the cache; it is emptied when full.
const maxToolsets = 256

// get gives the toolset of a key, if it was made of these catalogs.
func (tc *toolsetCache) get(key []byte, from []*catalog) *Toolset {
	tc.mu.Lock()
	ts := tc.sets[string(key)]
	tc.mu.Unlock()
	if ts == nil || !slices.Equal(ts.from, from) {
		return nil
	}
	return ts
}

func (tc *toolsetCache) put(key string, ts *Toolset) {
	tc.mu.Lock()
	defer tc.mu.Unlock()
	if tc.sets == nil || len(tc.sets) >= maxToolsets {
		tc.sets = map[string]*Toolset{}
	}
	tc.sets[key] = ts
}
