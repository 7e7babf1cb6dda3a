package mcp

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os/exec"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcp-via-llm/mcp-via-llm/mcp/credential"
)

// transportSSE is [Server.Transport] for servers of 2024-11-05.
const transportSSE = "sse"

// maxOpen bounds the sessions that one attempt to connect makes.
const maxOpen = 4

// errConnectTimeout ends an attempt that took longer than ConnectTimeout.
var errConnectTimeout = errors.New("no answer within the connect timeout")

// way is how to reach a server.
type way struct {
	sse     bool   // by the transport of 2024-11-05
	version string // the revision to begin with; "" for the newest that the server knows
}

// oldSSE is older than server/discover.
var oldSSE = way{sse: true, version: legacyVersion}

func (c *conn) firstWay() way {
	if c.cfg.Transport == transportSSE {
		return oldSSE
	}
	return way{}
}

// open connects and lists the tools. known is the catalog of the session before,
// which stays if nothing in it changed. What takes longer to list than tools, or
// fails, must not cost these: the supervisor does it. A server that then refuses the
// revision, or does not know the session for one page of the list, gets another session.
func (c *conn) open(known *catalog) (*session, *catalog, error) {
	select {
	case <-c.suspect: // the session before
	default:
	}
	var tried []string
	for {
		s, err := c.reach()
		if err != nil {
			return nil, nil, err
		}
		cat, err := c.firstTools(s, known)
		if err == nil {
			c.listed.Store(time.Now().UnixNano())
			return s, cat, nil
		}
		tried = append(tried, s.version())
		lost := (*errLostAt)(nil)
		if c.ctx.Err() != nil || len(tried) > maxOpen || !errors.As(err, &lost) && !c.learn(s, err, tried...) {
			return nil, nil, s.cause
		}
	}
}

// firstTools makes the first catalog of a session, or ends the session. If the one before
// ended because the list failed, and it fails in this one too, that is no matter of the
// session, which is too new to be forgotten: its tools stay, whatever the error says of
// sessions.
func (c *conn) firstTools(s *session, known *catalog) (*catalog, error) {
	ctx, cancel := context.WithDeadlineCause(c.ctx, s.opened.Add(c.cfg.ConnectTimeout), errConnectTimeout)
	defer cancel()
	cat, err := c.listTools(ctx, s, known, false)
	if rpc := (*jsonrpc.Error)(nil); (c.rejects || c.forgot) && known != nil && isRPC(err) && errors.As(err, &rpc) && !refusesRevision(rpc) {
		s.unlisted, s.toolsCut, s.toolsTTL = true, true, refreshInterval
		c.keepTools(plainError(ctx, s.tr, err))
		cat, err = known, nil
	}
	if err != nil {
		s.kill(plainError(ctx, s.tr, fmt.Errorf("listing tools: %w", err)))
		c.host.group.Go(func() { s.close(0) })
		return nil, err
	}
	for l := range listCount {
		if !s.offers(l) {
			cat = cat.with(l, nil)
		}
	}
	return cat, nil
}

// reach makes a session in the way that worked last, or finds one that works.
func (c *conn) reach() (*session, error) {
	s, err := c.agree(c.way)
	if err == nil {
		if t, ok := s.tr.(*stdioTransport); ok && t.silent() {
			c.way.version = legacyVersion // do not wait for the silence again
		}
		return s, nil
	}
	if c.way != c.firstWay() {
		c.way = c.firstWay() // the server may have been replaced by a newer one
		return nil, err
	}
	if refused := (*errVersion)(nil); c.way != oldSSE && !errors.As(err, &refused) && mayNotKnowDiscover(err) && c.ctx.Err() == nil {
		// Some servers end, or break the session, when the first message is not
		// initialize. 2025-11-25, "Lifecycle": initialization MUST be first.
		if s, again := c.agree(way{version: legacyVersion}); again == nil {
			return s, nil
		}
	}
	if c.mayBeOlder(err) {
		s, again := c.agree(oldSSE)
		if again == nil {
			return s, nil
		}
		var status *statusError
		if !errors.As(again, &status) || !status.refusesPost() { // else it has no such transport
			err = &fallbackError{err, again}
		}
	}
	return nil, err
}

// mayBeOlder reports whether a server that refused initialize may be one of
// 2024-11-05. 2025-11-25, "Transports: Backwards Compatibility": with 400, 404 or
// 405. Any other failure is what it is, and so is an error of a newer revision.
func (c *conn) mayBeOlder(err error) bool {
	var status *statusError
	if c.cfg.URL == "" || c.cfg.Transport != "" || c.ctx.Err() != nil || !errors.As(err, &status) {
		return false
	}
	if status.rpc != nil && status.rpc.Code == sdk.CodeUnsupportedProtocolVersion {
		return false
	}
	return status.refusesPost()
}

// attempt bounds an attempt to connect.
func (c *conn) attempt() (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(c.ctx, c.cfg.ConnectTimeout, errConnectTimeout)
}

func (c *conn) newSession() *session {
	s := &session{
		cfg: c.cfg, log: c.log, complain: c.complain, doubt: c.doubt, group: &c.host.group, hurry: c.host.ctx.Done(), opened: time.Now(),
		logs: newServerLog(c.log),
		runs: map[string]*running{}, givenUp: map[string]time.Time{}, questions: map[string]context.CancelFunc{},
		dead: make(chan struct{}), pages: map[string]page{},
	}
	s.calls, s.cut = context.WithCancel(context.Background())
	s.out = &sender{tracing: c.host.tracing, server: c.cfg.reach()}
	return s
}

// newClient is the SDK's side of a session.
func (c *conn) newClient(s *session, impl *sdk.Implementation) *sdk.Client {
	client := sdk.NewClient(impl, &sdk.ClientOptions{
		Logger:                     c.log,
		Capabilities:               c.cfg.capabilities(),
		MultiRoundTrip:             &sdk.MultiRoundTripOptions{Disabled: true},
		ToolListChangedHandler:     func(context.Context, *sdk.ToolListChangedRequest) { c.announce(listTools) },
		ResourceListChangedHandler: func(context.Context, *sdk.ResourceListChangedRequest) { c.announce(listResources, listTemplates) },
		PromptListChangedHandler:   func(context.Context, *sdk.PromptListChangedRequest) { c.announce(listPrompts) },
	})
	client.AddSendingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
		s.out.next = next
		return s.out.send
	})
	return client
}

// dial makes a session.
func (c *conn) dial(by way) (*session, error) {
	ctx, cancel := c.attempt()
	defer cancel()
	s := c.newSession()
	var err error
	if s.tr, err = c.newTransport(s, by.sse); err != nil {
		return nil, err
	}
	impl := &sdk.Implementation{Name: "mcp-via-llm", Version: c.host.opts.Version}
	client := c.newClient(s, impl)
	// Not ctx itself: a 2024-11-05 session ends with the context of its Connect,
	// and the listen stream of 2026-07-28 heeds no context at all.
	life, end := context.WithCancelCause(context.WithoutCancel(ctx))
	disarm := context.AfterFunc(ctx, func() {
		end(context.Cause(ctx))
		s.tr.abort()
	})
	cs, err := client.Connect(life, s.tr, &sdk.ClientSessionOptions{ProtocolVersion: by.version})
	if err == nil && !disarm() {
		err = context.Cause(ctx)
		_ = cs.Close()
	}
	if err != nil {
		err = withVersions(plainError(ctx, s.tr, err), s.refusal.Load())
		end(err)
		s.refuse()
		s.tr.abort()
		c.host.group.Go(func() { s.tr.wait(); s.logs.end() })
		return nil, err
	}
	s.cs = cs
	s.out.opened(s.version(), cs.ID())
	if w, ok := s.tr.(*wire); ok {
		w.version = s.version()
		w.opened.Store(true)
	}
	if s.version() > legacyVersion {
		s.meta = sdk.Meta{
			sdk.MetaKeyProtocolVersion:    s.version(),
			sdk.MetaKeyClientInfo:         impl,
			sdk.MetaKeyClientCapabilities: c.cfg.capabilitiesV2(),
		}
	}
	s.wantLogs()
	c.host.group.Go(func() {
		err := cs.Wait()
		if err == nil {
			err = errClosedByServer
		}
		s.kill(plainError(s.calls, s.tr, err))
		end(nil)
	})
	return s, nil
}

// mayNotKnowDiscover reports whether a failed attempt is worth repeating with
// the older handshake: not if the server was not reached, or refused us, or there
// is nothing to prove us with.
func mayNotKnowDiscover(err error) bool {
	var start *exec.Error
	var path *fs.PathError
	var unsigned *credential.Error
	var status *statusError
	switch {
	case errors.As(err, &start), errors.As(err, &path), errors.As(err, &unsigned), isDial(err):
		return false
	case errors.As(err, &status) && status.code >= 400:
		return status.refusesPost()
	}
	return true
}

// fallbackError is a server that refused the newer transport, and failed on the
// older one.
type fallbackError struct{ first, then error }

func (e *fallbackError) Error() string { return fmt.Sprintf("%v; over HTTP+SSE: %v", e.first, e.then) }
func (e *fallbackError) Unwrap() error { return e.then }

// refusesPost reports whether a server says that there is nothing of the kind where
// it was asked.
func (e *statusError) refusesPost() bool {
	return e.code == http.StatusBadRequest || e.code == http.StatusNotFound || e.code == http.StatusMethodNotAllowed
}

func (c *conn) newTransport(s *session, sse bool) (transport, error) {
	if len(c.cfg.Command) > 0 {
		return newStdioTransport(c.cfg, c.log, s)
	}
	return c.newWire(s, sse)
}
