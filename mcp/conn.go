package mcp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcp-via-llm/mcp-via-llm/mcp/credential"
)

const (
	// patience is the default of [Options.Patience].
	patience = 3 * time.Second

	// tokenInterval is how often a file with a token is looked at meanwhile.
	tokenInterval = time.Second
)

var errEnded = errors.New("the server was removed from the configuration")

// phase is what a connection does now; the words are those of [ServerStatus].
type phase string

const (
	phaseConnecting   phase = "connecting"
	phaseConnected    phase = "connected"
	phaseReconnecting phase = "reconnecting" // the session is lost, a new one is tried at once or almost
	phaseUnavailable  phase = "unavailable"
)

// state is everything that others may know about a connection. It is immutable
// and replaced as a whole.
type state struct {
	phase   phase
	session *session // while connected
	// catalog is what the server offers. It stays while reconnecting, so that a
	// lost session does not make tools come and go in the clients' requests; it
	// is nil while the server is away.
	catalog *catalog
	whole   chan struct{} // while connected: closed when everything was listed once, and not the tools alone
	err     error
	since   time.Time
	next    chan struct{} // closed when another state takes over
}

// conn keeps one server connected for one credential.
type conn struct {
	host   *Host
	id     string // unique in the process
	cfg    *Server
	caller caller // zero for the plain connection
	source *credential.Source
	signer *credential.Signer
	log    *slog.Logger
	globs  *idleGlobs // of the server

	ctx context.Context // ends with the connection
	end context.CancelFunc

	born    time.Time
	first   chan struct{} // closed after the first attempt
	changed chan struct{} // there is something in news
	news    atomic.Uint32 // the lists that the server says have changed, a bit each
	suspect chan struct{} // something failed: check now
	wanted  chan struct{} // a call waits for a session
	current atomic.Pointer[state]
	everUp  atomic.Bool
	listed  atomic.Int64               // when its tools were last listed, in Unix nanoseconds; 0: never
	failed  atomic.Pointer[failedOnce] // the last time that it was lost or not reached
	used    atomic.Int64               // when somebody last wanted it, in Unix nanoseconds
	running atomic.Int32               // calls
	said    sync.Map                   // the last complaint about anything
	way     way                        // how the server was reached last; used by run alone
	own     ownErrors                  // of its tools
	missing sync.Map                   // by listedPage or promptText: what was asked for when a session was lost
	rejects bool                       // the last session ended with errDisowned; used by run alone
	forgot  bool                       // it ended with errSessionLost; used by run alone
}

var connCount atomic.Int64

func newConn(h *Host, s *server, who caller) *conn {
	cfg := s.cfg
	c := &conn{
		host: h, id: strconv.FormatInt(connCount.Add(1), 36), cfg: cfg, caller: who, source: s.source, globs: &s.globs,
		log:     h.opts.Log.With("server", cfg.Name),
		born:    time.Now(),
		first:   make(chan struct{}),
		changed: make(chan struct{}, 1),
		suspect: make(chan struct{}, 1),
		wanted:  make(chan struct{}, 1),
	}
	c.way = c.firstWay()
	if s.source != nil {
		c.signer = s.source.For(who.subject)
	}
	c.ctx, c.end = context.WithCancel(h.ctx)
	c.current.Store(&state{phase: phaseConnecting, since: c.born, next: make(chan struct{})})
	c.touch()
	return c
}

func (c *conn) touch() { c.used.Store(time.Now().UnixNano()) }

// announce notes that the server says that lists have changed.
func (c *conn) announce(lists ...list) {
	for _, l := range lists {
		c.news.Or(1 << l)
	}
	nudge(c.changed)
}

// doubt has the server looked at, unless that session is known to be dead.
func (c *conn) doubt(s *session) {
	if !isClosed(s.dead) {
		nudge(c.suspect)
	}
}

// complain logs a warning, unless that was the last about the same.
func (c *conn) complain(about, text string, args ...any) {
	all := fmt.Sprint(append([]any{text}, args...)...)
	if before, _ := c.said.Swap(about, all); before != all {
		c.log.Warn(text, args...)
	}
}

// keepTools notes that the tools cannot be listed, which stay as they were.
func (c *conn) keepTools(err error) {
	c.note(fmt.Errorf("listing tools: %w", err))
	c.complain(complaintTools, "tools/list failed; keeping the tools known before", "error", err)
}

// nudge leaves a token that the supervisor will find; one waiting token is enough.
func nudge(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// publish replaces the state. Only run calls it.
func (c *conn) publish(next state) {
	old := c.current.Load()
	next.since, next.next = time.Now(), make(chan struct{})
	if next.phase == old.phase {
		next.since = old.since
	}
	c.current.Store(&next)
	close(old.next)
}

// idle leaves a connection for nobody in particular alone, where every caller
// needs a credential of its own.
func (c *conn) idle() {
	c.publish(state{phase: phaseUnavailable, err: credential.ErrNoSubject})
	close(c.first)
}

// run supervises the connection until it is ended.
func (c *conn) run() {
	var wait backoff
	var last *catalog
	firstOver := sync.OnceFunc(func() { close(c.first) })
	for c.ctx.Err() == nil {
		token := c.cfg.Auth.Stored()
		s, cat, err := c.open(last)
		if err != nil {
			pause := wait.next(isRefused(err))
			wanted := c.down(err, pause, last)
			firstOver()
			c.sleep(pause, token, wanted)
			continue
		}
		whole := make(chan struct{})
		if cat != last {
			c.own.forget()
		}
		if last != nil {
			close(whole) // what it offered last is in the catalog
		}
		last = cat
		c.everUp.Store(true)
		c.publish(state{phase: phaseConnected, session: s, catalog: cat, whole: whole})
		firstOver()
		c.log.Info("mcp server connected", "protocol", s.version(), "tools", len(cat.lists[listTools]))
		last, err = c.serve(s, cat, whole)
		c.learn(s, err)
		rejected := (*errDisowned)(nil)
		c.rejects = errors.As(err, &rejected)
		c.forgot = errors.Is(err, errSessionLost)
		s.out.ended(s.age(), err)
		c.host.group.Go(func() { s.close(c.cfg.ToolTimeoutMax) })
		wait.lived(s.age())
		var pause time.Duration
		if errors.Is(err, errSessionLost) && s.used.Load() {
			wait.failures = 0 // it ended as sessions do
		} else {
			pause = wait.next(false)
		}
		c.sleep(pause, token, c.down(err, pause, last))
	}
	c.publish(state{phase: phaseUnavailable, err: errEnded})
}

// down publishes that there is no session, and for how long. The tools stay offered if
// the pause is short. They do too if the server is there and has only forgotten the
// session (2025-11-25, "Session Management"); then a call that comes, of which down
// gives the sign, ends the pause.
func (c *conn) down(err error, pause time.Duration, last *catalog) (wanted <-chan struct{}) {
	forgotten := errors.Is(err, errSessionLost) || c.rejects
	lived := c.current.Load().session != nil
	if last == nil || c.ctx.Err() != nil || pause > 0 && !(lived && (forgotten || pause <= backoffFirst)) {
		c.lost(err)
		return nil
	}
	c.note(err)
	c.log.Info("mcp session lost, reconnecting", "error", err)
	c.publish(state{phase: phaseReconnecting, catalog: last, err: err})
	if !forgotten {
		return nil
	}
	return c.wanted
}

// lost publishes that the server is away, and logs it when that is news.
func (c *conn) lost(err error) {
	if c.ctx.Err() != nil {
		return
	}
	c.note(err)
	level := slog.LevelWarn
	if c.current.Load().phase == phaseUnavailable {
		level = slog.LevelDebug
	}
	c.log.Log(c.ctx, level, "mcp server unavailable", "error", err)
	c.publish(state{phase: phaseUnavailable, err: err})
}

// sleep waits for d, or until the file of the token holds another one than that, or
// something is wanted.
func (c *conn) sleep(d time.Duration, token string, wanted <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	var look <-chan time.Time
	if c.cfg.Auth != nil && c.cfg.Auth.TokenFile != "" {
		ticker := time.NewTicker(tokenInterval)
		defer ticker.Stop()
		look = ticker.C
	}
	for {
		select {
		case <-c.ctx.Done():
			return
		case <-timer.C:
			return
		case <-wanted:
			return
		case <-look:
			if now := c.cfg.Auth.Stored(); now != "" && now != token {
				return
			}
		}
	}
}

// waitFirst waits until the first attempt to connect is over, at most until it
// has taken limit or its ConnectTimeout.
func (c *conn) waitFirst(ctx context.Context, limit time.Duration) {
	c.waitFor(ctx, c.first, c.born.Add(min(limit, c.cfg.ConnectTimeout)))
}

// waitWhole is waitFirst, and waits as long for the rest of what the server offers
// if it has just connected for the first time.
func (c *conn) waitWhole(ctx context.Context, limit time.Duration) {
	c.waitFirst(ctx, limit)
	if st := c.current.Load(); st.session != nil {
		c.waitFor(ctx, st.whole, st.session.opened.Add(min(limit, c.cfg.ConnectTimeout)))
	}
}

func (c *conn) waitFor(ctx context.Context, over <-chan struct{}, end time.Time) {
	if isClosed(over) {
		return
	}
	timer := time.NewTimer(time.Until(end))
	defer timer.Stop()
	select {
	case <-over:
	case <-c.ctx.Done():
	case <-ctx.Done():
	case <-timer.C:
	}
}
