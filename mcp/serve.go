package mcp

import (
	"context"
	"errors"
	"time"
)

const (
	// debounce gathers the notifications of one change.
	debounce = 100 * time.Millisecond
	// quietFirst and quietLimit bound the pause after a refresh that found
	// nothing new: a server that notifies at every listing would otherwise keep
	// the two going for ever.
	quietFirst = 250 * time.Millisecond
	quietLimit = 30 * time.Second
	// recheck is the pause before a second look at a server that gave no proper
	// answer to the first.
	recheck = time.Second
)

// errDeaf ends a session of 2026-07-28 that hears of changes no more.
var errDeaf = errors.New("the stream of notifications ended")

// serve keeps the catalog of a session fresh until the session is dead or the
// connection is ended. It returns the last catalog and why it ended.
func (c *conn) serve(s *session, cat *catalog) (*catalog, error) {
	k := keeper{conn: c, session: s, catalog: cat, quiet: quietFirst, refreshed: time.Now()}
	next := time.NewTimer(cat.ttl)
	defer next.Stop()
	for {
		select {
		case <-s.dead:
			return k.catalog, s.cause
		case <-c.ctx.Done():
			return k.catalog, errEnded
		case <-c.changed:
			// One refresh at a time, the next not before the pause that counts
			// from the end of the last; a token left meanwhile is not lost.
			k.pause(max(debounce, time.Until(k.refreshed.Add(k.quiet))))
			k.refresh(true)
		case <-c.suspect:
			k.refresh(false)
		case <-next.C:
			k.refresh(false)
		}
		if s.deaf.Load() && s.age() >= settled {
			s.kill(errDeaf) // not earlier: some servers end the stream at once
		}
		if k.doubts > 0 {
			next.Reset(recheck)
		} else {
			next.Reset(k.catalog.ttl)
		}
	}
}

// keeper is what serve knows about the freshness of one session.
type keeper struct {
	conn      *conn
	session   *session
	catalog   *catalog
	refreshed time.Time     // end of the last refresh
	quiet     time.Duration // least pause before the next that a notification asks for
	doubts    int           // failed looks in a row
}

func (k *keeper) pause(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-k.session.dead:
	case <-k.conn.ctx.Done():
	}
}

// refresh lists the tools again, which also shows whether the server is alive.
func (k *keeper) refresh(announced bool) {
	c, s := k.conn, k.session
	ctx, cancel := c.attempt()
	defer cancel()
	cat, err := s.list(ctx, c.cfg, k.catalog, announced, c.log)
	k.refreshed = time.Now()
	switch {
	case err == nil && announced && s.meta != nil && cat != k.catalog && cat.bindsHeaders():
		s.kill(errParams)
	case err == nil:
		k.doubts = 0
		k.replace(cat, announced)
	case isRPC(err) && namesSession(err.Error()):
		s.kill(errSessionLost)
	case isRPC(err):
		k.doubts = 0
		c.log.Warn("tools/list failed; keeping the tools known before", "error", plainError(ctx, s.tr, err))
	case errors.Is(context.Cause(ctx), errConnectTimeout) && c.running.Load() > 0:
		// A server that does one thing at a time is busy with a call.
	default:
		k.doubts++
		if k.doubts > 1 || !maybeAlive(err) {
			s.kill(plainError(ctx, s.tr, err))
		}
	}
}

func (k *keeper) replace(cat *catalog, announced bool) {
	same := cat == k.catalog
	switch {
	case !same:
		k.quiet = quietFirst
		k.conn.log.Info("mcp tools changed", "tools", len(cat.tools))
		k.catalog = cat
		k.conn.publish(state{phase: phaseConnected, session: k.session, catalog: cat})
	case announced:
		k.quiet = min(2*k.quiet, quietLimit)
	default:
		k.quiet = quietFirst
	}
}

// maybeAlive reports whether a failed look leaves hope for the session: the
// server may only have been slow or overloaded.
func maybeAlive(err error) bool {
	var status *statusError
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &status) && status.code >= 429
}
