package mcp

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os/exec"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// errConnectTimeout ends an attempt that took longer than ConnectTimeout.
var errConnectTimeout = errors.New("no answer within the connect timeout")

// open connects and lists the tools. known is the catalog of the session before,
// which stays if nothing in it changed.
func (c *conn) open(known *catalog) (*session, *catalog, error) {
	ctx, cancel := c.attempt()
	defer func() { cancel() }()
	s, err := c.dial(ctx, c.pin)
	if err != nil && c.pin == "" && ctx.Err() == nil && mayNotKnowDiscover(err) {
		// Some servers end, or break the session, when the first message is not
		// initialize. 2025-11-25, "Lifecycle": initialization MUST be first.
		cancel()
		ctx, cancel = c.attempt()
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

// attempt bounds an attempt to connect.
func (c *conn) attempt() (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(c.ctx, c.cfg.ConnectTimeout, errConnectTimeout)
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

// mayNotKnowDiscover reports whether a failed attempt is worth repeating with
// the older handshake: not if the server was not reached, or refused us.
func mayNotKnowDiscover(err error) bool {
	var dial *net.OpError
	var start *exec.Error
	var path *fs.PathError
	var status *statusError
	switch {
	case errors.As(err, &start), errors.As(err, &path), errors.As(err, &dial) && dial.Op == "dial":
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
