package mcp

import (
	"context"
	"errors"
	"log/slog"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"
)

const (
	// Servers exist that always send a cursor: listing must end.
	maxPages = 100
	maxTools = 2000

	// refreshInterval is the longest time between two looks at the list: some
	// servers never announce changes, and an HTTP server that went away while
	// idle is noticed in no other way. A shorter ttlMs shortens it.
	refreshInterval = time.Minute
	refreshMin      = 5 * time.Second
)

// errParams ends a session whose tools bind arguments to HTTP headers and have
// changed: the SDK takes the bindings from its own list, which may be stale.
var errParams = errors.New("header bindings of the tools changed")

// catalog is what one server offers; immutable.
type catalog struct {
	tools []*tool // in the order of the server
	ttl   time.Duration
}

// page is one raw page of tools/list.
type page struct {
	result gjson.Result
	valid  map[string]bool // names that passed the SDK's checks, nil if unknown
}

// list reads all pages of tools/list. If nothing differs from the known catalog,
// that one is returned, so that all that was derived from it stays. past says to
// go past the SDK's cache, which may hold a list that was on its way when a
// change was announced. If every page came from that cache, the server is asked
// for a sign of life.
func (s *session) list(ctx context.Context, cfg *Server, known *catalog, past bool, log *slog.Logger) (*catalog, error) {
	cat := &catalog{ttl: refreshInterval}
	seen := map[string]bool{}
	names := map[string]bool{}
	asked := false
	for cursor, pages := "", 1; ; pages++ {
		p, fresh, err := s.page(ctx, cursor, past)
		if err != nil {
			return nil, err
		}
		asked = asked || fresh
		cat.add(p, cfg, known, names, log)
		if ms := p.result.Get("ttlMs").Float(); ms > 0 && ms < refreshInterval.Seconds()*1000 {
			cat.ttl = min(cat.ttl, max(refreshMin, time.Duration(ms)*time.Millisecond))
		}
		seen[cursor] = true
		cursor = p.result.Get("nextCursor").String()
		if cursor == "" {
			break
		}
		if seen[cursor] || pages == maxPages || len(cat.tools) > maxTools {
			log.Warn("tools/list does not end; using what came", "repeated_cursor", seen[cursor], "pages", pages, "tools", len(cat.tools))
			break
		}
	}
	cat.tools = cat.tools[:min(len(cat.tools), maxTools)]
	if !asked {
		if err := s.ping(ctx); err != nil {
			return nil, err
		}
	}
	if known != nil && known.ttl == cat.ttl && slices.Equal(known.tools, cat.tools) {
		return known, nil
	}
	return cat, nil
}

// page reads one page, and reports whether it came from the server.
func (s *session) page(ctx context.Context, cursor string, past bool) (p page, fresh bool, err error) {
	ctx, cp := withCapture(ctx)
	past = past && s.meta != nil
	var listed *sdk.ListToolsResult
	if past {
		err = s.request(ctx, "tools/list", &sdk.ListToolsParams{Cursor: cursor})
	} else {
		listed, err = s.cs.ListTools(ctx, &sdk.ListToolsParams{Cursor: cursor})
	}
	got := cp.answer()
	switch {
	case got.rpc != nil:
		if caps := s.cs.InitializeResult().Capabilities; caps != nil && caps.Tools == nil && cursor == "" {
			return page{}, true, nil // it has none, as it said
		}
		return page{}, true, got.rpc
	case got.lost:
		return page{}, true, errSessionLost
	case got.status != 0:
		return page{}, true, &statusError{code: got.status}
	case got.odd != "":
		return page{}, true, errNotMCP
	case got.result == nil && err != nil:
		return page{}, true, err
	case got.result == nil:
		if p, ok := s.pages[cursor]; ok {
			return p, false, nil
		}
		return page{}, true, errNotMCP
	}
	p.result = gjson.ParseBytes(got.result)
	if listed != nil { // else the SDK could not decode something in it; we may
		p.valid = map[string]bool{}
		for _, t := range listed.Tools {
			p.valid[t.Name] = true
		}
	}
	s.pages[cursor] = p
	return p, true, nil
}

// add takes the usable tools of a page. A tool that did not change since the
// known catalog is taken from there, with its compiled schemas.
func (cat *catalog) add(p page, cfg *Server, known *catalog, names map[string]bool, log *slog.Logger) {
	for _, raw := range p.result.Get("tools").Array() {
		name := raw.Get("name").String()
		switch {
		case name == "" || p.valid != nil && !p.valid[name]:
			continue // the SDK has logged why
		case names[name]:
			log.Warn("tool listed twice; using the first", "tool", name)
			continue
		case !allowed(cfg, name):
			continue
		}
		t := known.unchanged(name, raw.Raw)
		if t == nil {
			var err error
			if t, err = newTool(raw, log); err != nil {
				log.Warn("tool left out", "tool", name, "error", err)
				continue
			}
			if cfg.DistrustAnnotations {
				t.readOnly, t.repeatable = false, false
			}
		}
		names[name] = true
		cat.tools = append(cat.tools, t)
	}
}

// bindsHeaders reports whether a tool has an argument that goes out as a header
// too (2026-07-28, "Mcp-Param-{Name}").
func (cat *catalog) bindsHeaders() bool {
	return slices.ContainsFunc(cat.tools, func(t *tool) bool { return strings.Contains(t.raw, "x-mcp-header") })
}

func (cat *catalog) unchanged(name, raw string) *tool {
	if cat == nil {
		return nil
	}
	for _, t := range cat.tools {
		if t.name == name && t.raw == raw {
			return t
		}
	}
	return nil
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

// isRPC reports whether the server itself answered with an error: it is alive.
func isRPC(err error) bool {
	var rpc *jsonrpc.Error
	return errors.As(err, &rpc) && !sdkCode(rpc.Code)
}
