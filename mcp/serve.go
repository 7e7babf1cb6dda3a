package mcp

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"
)

const (
	// debounce gathers the notifications of one change.
	debounce = 100 * time.Millisecond
	// quietFirst and quietLimit bound the pause after a refresh. It doubles when
	// nothing was new, and when there were more than freeChanges in a row: a server
	// that notifies at every listing would otherwise keep the two going for ever.
	quietFirst  = 250 * time.Millisecond
	quietLimit  = 30 * time.Second
	freeChanges = 8
	// recheck is the pause before a second look at a server that gave no proper
	// answer to the first.
	recheck = time.Second
)

// errDeaf ends a session of 2026-07-28 that hears of changes no more.
var errDeaf = errors.New("the stream of notifications ended")

// serve keeps the catalog of a session fresh until the session is dead or the
// connection is ended. It returns the last catalog and why it ended. It closes
// whole when everything was listed once, whether or not that succeeded.
func (c *conn) serve(s *session, cat *catalog, whole chan struct{}) (*catalog, error) {
	k := &keeper{conn: c, session: s, catalog: cat, whole: whole, results: make(chan listed, listCount)}
	var end context.CancelFunc
	k.ctx, end = context.WithCancel(c.ctx)
	defer end()
	over := sync.OnceFunc(func() {
		if !isClosed(whole) {
			close(whole)
		}
	})
	defer over()
	k.begin()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		if k.first == 0 {
			over()
		}
		timer.Reset(time.Until(k.due()))
		select {
		case <-s.dead:
			return k.catalog, s.cause
		case <-c.ctx.Done():
			return k.catalog, errEnded
		case <-c.changed:
			k.announced(c.news.Swap(0))
		case <-c.suspect:
			k.refreshTools(false)
			// And once more: the first look may have gone over a connection of a server
			// that was just ending.
			if f, soon := &k.lists[listTools], time.Now().Add(recheck); f.due.After(soon) {
				f.due = soon
			}
		case l := <-k.results:
			k.take(l)
		case <-timer.C:
			k.refreshDue()
		}
		if s.deaf.Load() && s.age() >= settled {
			s.kill(errDeaf) // not earlier: some servers end the stream at once
		}
	}
}

// keeper is what serve knows about the freshness of one session. Tools are listed
// by the supervisor itself, since that also shows whether the server is alive; the
// other lists beside it, since they must not hold it up.
type keeper struct {
	conn    *conn
	session *session
	ctx     context.Context // ends with the session
	catalog *catalog
	whole   chan struct{}
	lists   [listCount]freshness
	results chan listed // of the other lists
	first   int         // how many of them were never here
	doubts  int         // failed looks at the tools in a row
	refused int         // those in a row that the server answered with an error
	// refusedAt is when the first of these was.
	refusedAt time.Time
}

// freshness is what is known of one list. At most one refresh of it runs, and one
// waits.
type freshness struct {
	due       time.Time // when to list next; zero: never
	announced bool      // because the server says that it changed
	running   bool
	known     bool          // it was listed before
	refreshed time.Time     // end of the last refresh
	quiet     time.Duration // least pause before the next that a notification asks for
	changes   int           // that were announced since a refresh for another reason
	complaint string        // what is in the log about it
	failed    int           // refreshes in a row that brought not everything
	past      bool          // one of these was announced
	suspect   bool          // the last one failed as if the server were away
}

func (k *keeper) begin() {
	for l := range k.lists {
		k.lists[l].quiet, k.lists[l].refreshed = quietFirst, time.Now()
	}
	k.lists[listTools].next(k.session.toolsTTL, k.session.toolsCut, false)
	for l := listTools + 1; l < listCount; l++ {
		if k.session.offers(l) {
			k.first++
			k.refreshOther(l, true)
		}
	}
}

// due is when the next list is to be read.
func (k *keeper) due() time.Time {
	next := time.Now().Add(refreshMax)
	for _, f := range k.lists {
		if !f.running && !f.due.IsZero() && f.due.Before(next) {
			next = f.due
		}
	}
	return next
}

// announced takes note of lists that the server says have changed. The next refresh
// is not before the pause that counts from the end of the last.
func (k *keeper) announced(lists uint32) {
	for l := range listCount {
		f := &k.lists[l]
		if lists&(1<<l) == 0 || f.announced || !k.session.offers(l) {
			continue
		}
		f.announced = true
		f.due = time.Now().Add(max(debounce, time.Until(f.refreshed.Add(f.quiet))))
	}
}

func (k *keeper) refreshDue() {
	for l := range listCount {
		f := &k.lists[l]
		if f.running || f.due.IsZero() || time.Now().Before(f.due) {
			continue
		}
		announced := f.announced || f.past
		f.announced = false
		if l == listTools {
			k.refreshTools(announced)
		} else {
			k.refreshOther(l, announced)
		}
	}
}

// refreshTools lists the tools again, which also shows whether the server is alive.
func (k *keeper) refreshTools(announced bool) {
	c, s, f := k.conn, k.session, &k.lists[listTools]
	ctx, cancel := c.attempt()
	defer cancel()
	cat, err := c.listTools(ctx, s, k.catalog, announced)
	f.refreshed = time.Now()
	if errors.Is(err, errSessionLost) {
		c.own.forget()
	}
	switch {
	case err == nil && announced && s.meta != nil && cat != k.catalog && bindsHeaders(cat.lists[listTools]):
		s.kill(errParams)
	case err == nil:
		c.listed.Store(f.refreshed.UnixNano())
		k.doubts, k.refused, s.unlisted = 0, 0, false
		k.replace(listTools, cat, announced)
	case isRPC(err) && namesSession(err.Error()) && !s.unlisted: // else it said so from the beginning
		s.forgotten()
	case isRPC(err):
		k.doubts = 0
		if why := k.disowned(err); why != nil {
			s.kill(why)
		} else {
			c.keepTools(plainError(ctx, s.tr, err))
		}
	case errors.Is(context.Cause(ctx), errConnectTimeout) && c.running.Load() > 0:
		// A server that does one thing at a time is busy with a call.
	default:
		k.doubts++
		if k.doubts > 1 || !maybeAlive(err) {
			s.kill(plainError(ctx, s.tr, err))
		}
	}
	if k.doubts > 0 || k.refused == 1 {
		f.due = f.refreshed.Add(recheck)
	} else if !f.announced { // else this was for another reason
		f.next(s.toolsTTL, isRPC(err) || err != nil && announced || err == nil && s.toolsCut, announced)
	}
}

// refreshOther begins to list anything but tools; take gets what comes of it.
func (k *keeper) refreshOther(l list, announced bool) {
	k.lists[l].running = true
	known := k.catalog.items(l)
	k.conn.host.group.Go(func() { k.results <- k.conn.listOther(k.ctx, k.session, l, known, announced) })
}

func (k *keeper) take(l listed) {
	f := &k.lists[l.list]
	if !f.known {
		k.first--
	}
	f.running, f.known, f.refreshed = false, true, time.Now()
	k.replace(l.list, k.catalog.with(l.list, l.items), l.announced)
	if l.suspect && !f.suspect { // not for each of a row: the list alone may be broken
		k.conn.doubt(k.session)
	}
	f.suspect = l.suspect
	complaint := ""
	if l.err != nil {
		complaint = l.err.Error()
	}
	if complaint != "" && complaint != f.complaint {
		k.conn.log.Warn("mcp "+l.list.String()+" could not all be listed or fetched; the rest is in use", "error", complaint)
	}
	f.complaint = complaint
	if f.announced { // meanwhile
		f.due = f.refreshed.Add(max(debounce, f.quiet))
		return
	}
	f.next(cmp.Or(l.ttl, refreshInterval), l.err != nil, l.announced)
}

// next decides when to list again: when the list may be old, and after a failure soon,
// then ever later.
func (f *freshness) next(ttl time.Duration, failed, announced bool) {
	if !failed {
		f.failed, f.past = 0, false
		f.due = f.refreshed.Add(ttl)
		return
	}
	f.past = (f.past || announced) && f.failed < 5 // it may never succeed
	f.due = f.refreshed.Add(min(recheck<<min(f.failed, 10), refreshInterval))
	f.failed++
}

// replace publishes a catalog with another list, if it differs.
func (k *keeper) replace(l list, cat *catalog, announced bool) {
	k.lists[l].rest(announced, cat != k.catalog)
	if cat == k.catalog {
		return
	}
	k.conn.log.Info("mcp "+l.String()+" changed", l.String(), len(cat.lists[l]))
	k.catalog = cat
	k.conn.own.forget()
	k.conn.publish(state{phase: phaseConnected, session: k.session, catalog: cat, whole: k.whole})
}

// rest decides how long to pause after a refresh.
func (f *freshness) rest(announced, changed bool) {
	switch {
	case !announced:
		f.changes, f.quiet = 0, quietFirst
	case changed && f.changes < freeChanges:
		f.changes++
		f.quiet = quietFirst
	default:
		f.quiet = min(2*f.quiet, quietLimit)
	}
}

// maybeAlive reports whether a failed look leaves hope for the session: the
// server may only have been slow or overloaded.
func maybeAlive(err error) bool {
	var status *statusError
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &status) && status.code >= 429
}
