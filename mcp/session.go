package mcp

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os/exec"
	"sync"
	"sync/atomic"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	// legacyVersion is the newest revision with the initialize handshake.
	legacyVersion   = "2025-11-25"
	methodDiscover  = "server/discover"
	methodListen    = "subscriptions/listen"
	methodCancelled = "notifications/cancelled"
	// abortTimeout bounds each step of ending a session.
	abortTimeout = 2 * time.Second
)

// errConnectTimeout ends an attempt that took longer than ConnectTimeout.
var errConnectTimeout = errors.New("no answer within the connect timeout")

// transport is an SDK transport that can be cut off.
type transport interface {
	sdk.Transport
	// abort ends all I/O at once; running and later requests fail.
	abort()
	// wait returns when nothing of the transport runs any more.
	wait()
	// failure tells why the transport does not work, if it knows.
	failure() error
}

// session is one MCP session. It serves one credential only.
type session struct {
	cs     *sdk.ClientSession
	tr     transport
	send   sdk.MethodHandler // the SDK's own sender, under its list caches
	meta   sdk.Meta          // what 2026-07-28 wants in every request, nil before
	group  *sync.WaitGroup   // the host's
	hurry  <-chan struct{}   // the host closes
	opened time.Time
	deaf   atomic.Bool     // the stream that announces changes ended, and the SDK opens no other
	calls  context.Context // ends the running calls
	cut    context.CancelFunc

	mu      sync.Mutex
	closing bool // no call may begin
	// running counts calls. One that the SDK gave up still counts while it is on
	// the wire, or while the server was not told of its cancellation.
	running sync.WaitGroup

	// pages holds the raw result of each page of tools/list by cursor, because
	// the SDK answers again from its cache while the page's ttlMs lasts.
	pages map[string]page

	dead  chan struct{}
	once  sync.Once
	cause error // set before dead is closed
}

// open connects and lists the tools, within ConnectTimeout. known is the catalog
// of the session before, which stays if nothing in it changed.
func (c *conn) open(known *catalog) (*session, *catalog, error) {
	ctx, cancel := context.WithTimeoutCause(c.ctx, c.cfg.ConnectTimeout, errConnectTimeout)
	defer cancel()
	s, err := c.dial(ctx, c.pin)
	if err != nil && c.pin == "" && ctx.Err() == nil && mayNotKnowDiscover(err) {
		// Some servers end, or break the session, when the first message is not
		// initialize. 2025-11-25, "Lifecycle": initialization MUST be first.
		var again error
		if s, again = c.dial(ctx, legacyVersion); again == nil {
			c.pin, err = legacyVersion, nil
		}
	}
	if err != nil {
		return nil, nil, err
	}
	if t, ok := s.tr.(*stdioTransport); ok && t.silent() {
		c.pin = legacyVersion // do not wait for the silence again
	}
	cat, err := s.list(ctx, c.cfg, known, false, c.log)
	if err != nil {
		err = plainError(ctx, s.tr, fmt.Errorf("listing tools: %w", err))
		s.kill(err)
		c.host.group.Go(func() { s.close(0) })
		return nil, nil, err
	}
	return s, cat, nil
}

// dial makes a session, with version "" for the newest that the server knows.
func (c *conn) dial(ctx context.Context, version string) (*session, error) {
	s := &session{group: &c.host.group, hurry: c.host.ctx.Done(), opened: time.Now(), dead: make(chan struct{}), pages: map[string]page{}}
	s.calls, s.cut = context.WithCancel(context.Background())
	var err error
	if s.tr, err = c.newTransport(s); err != nil {
		return nil, err
	}
	impl := &sdk.Implementation{Name: "mcp-via-llm", Version: c.host.opts.Version}
	caps := &sdk.ClientCapabilities{} // no roots, sampling or elicitation
	client := sdk.NewClient(impl, &sdk.ClientOptions{
		Logger:         c.log,
		Capabilities:   caps,
		MultiRoundTrip: &sdk.MultiRoundTripOptions{Disabled: true},
		ToolListChangedHandler: func(context.Context, *sdk.ToolListChangedRequest) {
			nudge(c.changed)
		},
	})
	client.AddSendingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
		s.send = next
		return next
	})
	// Not ctx itself: a 2024-11-05 session ends with the context of its Connect,
	// and the listen stream of 2026-07-28 heeds no context at all.
	life, end := context.WithCancelCause(context.WithoutCancel(ctx))
	disarm := context.AfterFunc(ctx, func() {
		end(context.Cause(ctx))
		s.tr.abort()
	})
	cs, err := client.Connect(life, s.tr, &sdk.ClientSessionOptions{ProtocolVersion: version})
	if err == nil && !disarm() {
		err = context.Cause(ctx)
		_ = cs.Close()
	}
	if err != nil {
		err = plainError(ctx, s.tr, err)
		end(err)
		s.tr.abort()
		c.host.group.Go(s.tr.wait)
		return nil, err
	}
	s.cs = cs
	if w, ok := s.tr.(*wire); ok {
		w.opened.Store(true)
	}
	if s.version() > legacyVersion {
		s.meta = sdk.Meta{
			sdk.MetaKeyProtocolVersion:    s.version(),
			sdk.MetaKeyClientInfo:         impl,
			sdk.MetaKeyClientCapabilities: map[string]any{},
		}
	}
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

func (s *session) version() string    { return s.cs.InitializeResult().ProtocolVersion }
func (s *session) age() time.Duration { return time.Since(s.opened) }

// kill marks the session as unusable; its supervisor will replace it.
func (s *session) kill(cause error) {
	s.once.Do(func() {
		s.cause = cause
		close(s.dead)
	})
}

// enter registers a call, unless the session is closing.
func (s *session) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closing {
		s.running.Add(1)
	}
	return !s.closing
}

// leave ends what enter began. The session stays open until the server was told
// of a cancelled call, or is too slow to take it.
func (s *session) leave(ctx context.Context, cp *capture) {
	if ctx.Err() == nil {
		s.running.Done()
		return
	}
	s.group.Go(func() {
		defer s.running.Done()
		timer := time.NewTimer(abortTimeout / 2)
		defer timer.Stop()
		select {
		case <-cp.told:
		case <-timer.C:
		}
	})
}

// close ends the session. Running calls may finish for the grace, then they are
// cancelled (which tells the server), then the transport is cut.
func (s *session) close(grace time.Duration) {
	s.kill(errEnded)
	s.mu.Lock()
	s.closing = true
	s.mu.Unlock()
	closed := make(chan struct{})
	go func() {
		s.running.Wait()
		_ = s.cs.Close()
		close(closed)
	}()
	wait := func(d time.Duration, hurry <-chan struct{}) {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-closed:
		case <-hurry:
		case <-timer.C:
		}
	}
	wait(grace, s.hurry)
	s.cut()
	wait(abortTimeout, nil)
	s.tr.abort()
	<-closed
	s.tr.wait()
}

// ping asks the server for a sign of life, past the SDK's caches.
func (s *session) ping(ctx context.Context) error {
	if s.meta == nil {
		return s.cs.Ping(ctx, nil)
	}
	return s.request(ctx, methodDiscover, &sdk.DiscoverParams{})
}

// request sends a request in a 2026-07-28 session past the SDK's caches.
func (s *session) request(ctx context.Context, method string, params sdk.Params) error {
	params.SetMeta(maps.Clone(s.meta))
	_, err := s.send(ctx, method, &sdk.ClientRequest[sdk.Params]{Session: s.cs, Params: params})
	return err
}

// mayNotKnowDiscover reports whether a failed attempt is worth repeating with
// the older handshake: not if the server was not reached, or refused us.
func mayNotKnowDiscover(err error) bool {
	var dial *net.OpError
	var start *exec.Error
	var status *statusError
	switch {
	case errors.As(err, &start), errors.As(err, &dial) && dial.Op == "dial":
		return false
	case errors.As(err, &status):
		return status.code == 400 || status.code == 404 || status.code == 405
	}
	return true
}

func (c *conn) newTransport(s *session) (transport, error) {
	if len(c.cfg.Command) > 0 {
		return newStdioTransport(c.cfg, c.log)
	}
	return c.newWire(func(listen bool) {
		if listen {
			s.deaf.Store(true)
		}
		nudge(c.suspect)
	})
}
