package mcp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"
)

const (
	// Servers exist that always send a cursor: listing must end.
	maxPages = 100
	maxTools = 2000 // and as many resources, templates and prompts
	// maxListBytes bounds what is kept of one list: 4 KiB for each of 2,000 tools.
	maxListBytes = 8 << 20

	// refreshInterval is the longest time between two looks at the tools: some
	// servers never announce changes, and an HTTP server that went away while
	// idle is noticed in no other way. A shorter ttlMs shortens it. The other
	// lists are looked at as often, unless a ttlMs says that they stay for longer.
	refreshInterval = time.Minute
	refreshMin      = 5 * time.Second
	refreshMax      = time.Hour
)

// errParams ends a session whose tools bind arguments to HTTP headers and have
// changed: the SDK takes the bindings from its own list, which may be stale.
var errParams = errors.New("header bindings of the tools changed")

// listing is one of the requests that list what a server offers.
type listing struct {
	method string
	member string                         // of the result, with the items
	id     string                         // member of an item that no other has
	params func(cursor string) sdk.Params // nil: the SDK lists, see session.toolsPage
	build  func(gjson.Result, *slog.Logger) (*tool, error)
}

var listings = [listCount]listing{
	listTools: {"tools/list", "tools", "name", nil, newTool},
	listResources: {"resources/list", "resources", "uri",
		func(cursor string) sdk.Params { return &sdk.ListResourcesParams{Cursor: cursor} }, newResource},
	listTemplates: {"resources/templates/list", "resourceTemplates", "uriTemplate",
		func(cursor string) sdk.Params { return &sdk.ListResourceTemplatesParams{Cursor: cursor} }, newTemplate},
	listPrompts: {"prompts/list", "prompts", "name",
		func(cursor string) sdk.Params { return &sdk.ListPromptsParams{Cursor: cursor} }, newPrompt},
}

// page is one raw page of a list.
type page struct {
	result gjson.Result
	valid  map[string]bool // names that passed the SDK's checks, nil if unknown
	cached bool            // it is an answer to an earlier request
}

// walked is a list as it was read.
type walked struct {
	items []*tool
	ttl   time.Duration // how long the server says that it stays so; 0: it does not say
	asked bool          // the server was asked
	cut   error         // why a part could not be read, if so
}

// walk reads all pages of a list. If time runs out, or the server fails at a later
// page, what came counts, and what is known beside.
func (s *session) walk(ctx context.Context, l list, c *conn, known []*tool, past bool) (out walked, err error) {
	of := listings[l]
	log := c.log.With("list", of.method)
	into := collector{of: of, cfg: c.cfg, log: log, known: map[string]*tool{}, seen: map[string]bool{}}
	for _, t := range known {
		into.known[t.raw] = t
	}
	cursors := map[string]bool{}
	for cursor, pages := "", 1; ; pages++ {
		p, err := s.walkedPage(ctx, c, l, pages, cursor, past)
		if err != nil && len(into.items) > 0 && (ctx.Err() != nil || ofOnePage(err)) {
			if ctx.Err() == nil {
				out.cut = fmt.Errorf("page %d: %w", pages, err)
			} else {
				log.Warn("there is no time for the rest of the list; using what came", "pages", pages-1, "items", len(into.items))
			}
			into.keep(known)
			break
		}
		if err != nil {
			return walked{asked: out.asked}, err
		}
		out.asked = out.asked || !p.cached
		into.add(p)
		if ms := p.result.Get("ttlMs").Float(); ms > 0 {
			d := max(refreshMin, time.Duration(min(ms, float64(refreshMax/time.Millisecond)))*time.Millisecond)
			if out.ttl == 0 || d < out.ttl {
				out.ttl = d
			}
		}
		cursors[cursor] = true
		cursor = p.result.Get("nextCursor").String()
		if cursor == "" {
			if l == listTools {
				c.globs.look(c.cfg, into.names, c.log)
			}
			break
		}
		if cursors[cursor] || pages == maxPages || len(into.items) > maxTools || into.bytes > maxListBytes {
			log.Warn("the list does not end; using what came", "repeated_cursor", cursors[cursor], "pages", pages, "items", len(into.items))
			break
		}
	}
	if into.nameless > 0 {
		c.complain("names of "+of.method, "the list has entries without a name, which are left out", "list", of.method, "entries", into.nameless)
	}
	if len(into.items) > maxTools {
		log.Warn("the list is too long; using the beginning", "items", len(into.items), "limit", maxTools)
		into.items = into.items[:maxTools]
	}
	out.items = into.items
	return out, nil
}

// ofOnePage reports whether an error concerns no more than the page that was asked for.
func ofOnePage(err error) bool {
	var status *statusError
	return isRPC(err) && !namesSession(err.Error()) || maybeAlive(err) || errors.Is(err, errNotMCP) ||
		errors.As(err, &status) && !isRefused(err) // see walkedPage
}

// listedPage is a place in a list.
type listedPage struct {
	list list
	page int
}

// errLostAt is a session that was lost at a page that is not the first request in it.
type errLostAt struct{ error }

func (e *errLostAt) Unwrap() error { return e.error }

// walkedPage reads one page. There is always a session at the first page of the tools:
// nothing else would show that one is lost.
func (s *session) walkedPage(ctx context.Context, c *conn, l list, n int, cursor string, past bool) (p page, err error) {
	if l == listTools && n == 1 {
		return s.page(ctx, listings[l], cursor, past)
	}
	err = c.mayMiss(ctx, s, listedPage{l, n}, func(ctx context.Context) error {
		p, err = s.page(ctx, listings[l], cursor, past)
		return err
	})
	switch {
	case err == nil && l != listTools:
		s.proof.Store(int32(l))
	case errors.Is(err, errSessionLost):
		err = &errLostAt{err}
	}
	return p, err
}

// mayMiss asks for something that a server offers. If the server knows no session there,
// for the second time in a row, it is that which it does not know.
func (c *conn) mayMiss(ctx context.Context, s *session, what any, ask func(context.Context) error) error {
	if _, lost := c.missing.Load(what); lost || s.cs.ID() == "" {
		ctx = missing(ctx)
	}
	err := ask(ctx)
	switch {
	case err == nil:
		c.missing.Delete(what)
	case errors.Is(err, errSessionLost):
		c.missing.Store(what, true)
	}
	return err
}

// page reads one page.
func (s *session) page(ctx context.Context, of listing, cursor string, past bool) (page, error) {
	if of.params == nil {
		return s.toolsPage(ctx, of, cursor, past)
	}
	got, err := s.ask(ctx, of.method, of.params(cursor))
	if err := got.failure(err); err != nil {
		return page{}, err
	}
	return page{result: gjson.ParseBytes(got.result)}, nil
}

// toolsPage reads one page of tools/list, through the SDK: a call takes from its
// list which arguments go out as headers too. past says to go past the SDK's cache,
// which may hold a list that was on its way when a change was announced.
func (s *session) toolsPage(ctx context.Context, of listing, cursor string, past bool) (p page, err error) {
	ctx, cp := withCapture(ctx)
	var listed *sdk.ListToolsResult
	if past && s.meta != nil {
		_, err = s.request(ctx, of.method, &sdk.ListToolsParams{Cursor: cursor})
	} else {
		listed, err = s.cs.ListTools(ctx, &sdk.ListToolsParams{Cursor: cursor})
	}
	got := cp.answer()
	if got.rpc != nil && cursor == "" {
		_, worked := s.pages[cursor]
		caps := s.cs.InitializeResult().Capabilities
		if caps != nil && caps.Tools == nil && !worked && !namesSession(got.rpc.Message) && !refusesRevision(got.rpc) {
			return page{}, s.prove(ctx) // it has none, as it said
		}
	}
	if err := got.failure(err); err != nil {
		return page{}, err
	}
	if got.result == nil {
		p, known := s.pages[cursor]
		if !known {
			return page{}, errNotMCP
		}
		p.cached = true
		return p, nil
	}
	p.result = gjson.ParseBytes(got.result)
	if listed != nil { // else the SDK could not decode something in it; we may
		p.valid = map[string]bool{}
		for _, t := range listed.Tools {
			p.valid[t.Name] = true
		}
	}
	s.pages[cursor] = p
	return p, nil
}

// failure is why a request has no result, if it has none.
func (a answer) failure(err error) error {
	switch {
	case a.rpc != nil:
		return a.rpc
	case a.lost:
		return errSessionLost
	case a.status != 0:
		return &statusError{code: a.status, said: a.said}
	case a.odd != "":
		return errNotMCP
	case a.result == nil:
		return err
	}
	return nil
}

// isRPC reports whether the server itself answered with an error: it is alive.
func isRPC(err error) bool {
	var rpc *jsonrpc.Error
	return errors.As(err, &rpc) && !sdkCode(rpc.Code)
}
