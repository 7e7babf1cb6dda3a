package mcp

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/url"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/mcp-via-llm/mcp-via-llm/mcp/credential"
)

// Defaults of the zero values in [Server].
const (
	DefaultToolTimeout    = 60 * time.Second
	DefaultToolTimeoutMax = 10 * time.Minute
	DefaultConnectTimeout = 10 * time.Second
	DefaultMaxResultBytes = 64 << 10
)

// closeTimeout bounds [Host.Close]. A child gets two seconds to end by itself,
// an HTTP session as long to take its DELETE; the rest is slack for a busy machine.
const closeTimeout = 8 * time.Second

// Server is one configured MCP server: Command for stdio, URL for HTTP.
type Server struct {
	// Name begins with an ASCII letter and is the first part of injected names.
	Name string

	// Command, Env and Dir start a stdio server. Env is added to a small
	// allow-list of the parent's environment, nothing else is inherited.
	Command []string
	Env     map[string]string
	Dir     string

	// URL is the endpoint of an HTTP server; Transport is "streamable-http"
	// (also when empty) or "sse" for the 2024-11-05 revision. Headers go out on
	// every request. ForwardHeaders names headers of the client's request that
	// are passed on; each set of values gets a session of its own.
	URL            string
	Transport      string
	Headers        map[string]string
	ForwardHeaders []string
	// Auth is how the service proves itself to an HTTP server, TLS whom it trusts
	// and what certificate it shows. Both may be nil.
	Auth *credential.Auth
	TLS  *credential.TLS

	// Direct dials an HTTP server at its own address, whatever [Options].Egress says.
	Direct bool

	// ToolTimeout bounds the time in which a call shows no progress, ToolTimeoutMax
	// the whole call, and ConnectTimeout an attempt to connect and list.
	ToolTimeout    time.Duration
	ToolTimeoutMax time.Duration
	ConnectTimeout time.Duration
	// Roots are the file:// URIs that the server is told to work in. Sampling and
	// Elicitation let it ask back, see [Asker].
	Roots       []string
	Sampling    bool
	Elicitation bool
	// MaxResultBytes caps the text of one result.
	MaxResultBytes int
	// Allow and Deny are globs (path.Match) over the server's own tool names.
	// An empty Allow allows all; Deny wins.
	Allow, Deny []string
	// DistrustAnnotations takes no tool for read-only or repeatable on the server's
	// word. MCP 2025-11-25, "Tools": "clients MUST consider tool annotations to be
	// untrusted unless they come from trusted servers".
	DistrustAnnotations bool
	// Required makes [Host.Ready] wait for this server.
	Required bool
}

func (s Server) withDefaults() Server {
	if s.ToolTimeout <= 0 {
		s.ToolTimeout = DefaultToolTimeout
	}
	if s.ToolTimeoutMax <= 0 {
		s.ToolTimeoutMax = max(DefaultToolTimeoutMax, s.ToolTimeout)
	}
	if s.ConnectTimeout <= 0 {
		s.ConnectTimeout = DefaultConnectTimeout
	}
	if s.MaxResultBytes <= 0 {
		s.MaxResultBytes = DefaultMaxResultBytes
	}
	return s
}

// Options configures [NewHost].
type Options struct {
	Servers []Server
	// Egress, if set, is dialled in place of every HTTP server but direct ones, with the
	// server's own host in the Host header: an Envoy listener that routes by it.
	Egress *url.URL
	// Log gets connection events and the stderr of stdio servers. It never gets
	// the arguments or the result of a call. Nil discards.
	Log *slog.Logger
	// Patience is how long a turn waits for a server's first attempt to connect, counted
	// from the start of that attempt; 0 means 3 s. Servers on node and python take 0.3-3 s
	// to start; a turn that comes in these first seconds should have their tools. One
	// that is slower, or hangs, costs its tools and not the time of every turn until
	// ConnectTimeout.
	Patience time.Duration
	// Version is told to servers as the client's version.
	Version string
	// Observe, if set, is called at the end of every call, with its context; it must
	// not block.
	Observe   func(context.Context, CallEvent)
	Telemetry Telemetry
}

// CallEvent describes one finished MCP call, without its arguments and result.
type CallEvent struct {
	Server   string // "" if no tool has the name
	Tool     string // the server's own name
	Injected string // the name that the model used
	Start    time.Time
	Duration time.Duration
	Outcome  string // see [Result]
	// ResultBytes is the size of the result as the server sent it.
	ResultBytes int
}

// Host owns the connections to all configured servers. Its methods may be
// called from many goroutines at once.
type Host struct {
	opts    Options
	tracing *tracing
	ctx     context.Context
	stop    context.CancelFunc
	group   sync.WaitGroup // supervisors and what they leave running
	sets    toolsetCache
	tight   sync.Map // what Binding.tight has complained of

	mu      sync.RWMutex
	closed  bool
	servers map[string]*server
	order   []string // names in the order of the configuration
}

// server is one configured server with its connections.
type server struct {
	cfg    *Server
	source *credential.Source // nil for stdio
	plain  *conn
	byCred map[string]*conn // by caller.key
	globs  idleGlobs
}

// NewHost starts to connect to all servers in parallel and returns at once.
func NewHost(o Options) *Host {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	o.Patience = cmp.Or(o.Patience, patience)
	h := &Host{opts: o, tracing: newTracing(o.Telemetry, o.Log), servers: map[string]*server{}}
	h.ctx, h.stop = context.WithCancel(context.Background())
	h.Update(o.Servers)
	h.group.Go(h.sweepIdle)
	return h
}

// Update replaces the configured servers. A server whose settings are the same
// keeps its connections; another is started afresh. A connection that goes away
// lets its running calls finish.
func (h *Host) Update(servers []Server) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return
	}
	next := make(map[string]*server, len(servers))
	order := make([]string, 0, len(servers))
	for _, cfg := range servers {
		cfg = cfg.withDefaults()
		if _, twice := next[cfg.Name]; twice {
			continue
		}
		order = append(order, cfg.Name)
		if old, ok := h.servers[cfg.Name]; ok && reflect.DeepEqual(*old.cfg, cfg) {
			next[cfg.Name] = old
			continue
		}
		s := &server{cfg: &cfg, source: h.newSource(&cfg), byCred: map[string]*conn{}}
		s.plain = h.startConn(s, caller{})
		next[cfg.Name] = s
	}
	for name, old := range h.servers {
		if next[name] != old {
			old.end()
		}
	}
	h.servers, h.order = next, order
}

func (s *server) end() {
	s.plain.end()
	for _, c := range s.byCred {
		c.end()
	}
}

// startConn starts a supervised connection; h.mu must be held.
func (h *Host) startConn(s *server, who caller) *conn {
	c := newConn(h, s, who)
	if s.cfg.Auth.PerCaller() && who.subject == "" {
		c.idle()
		return c
	}
	h.group.Go(c.run)
	return c
}

// newSource makes what the connections to an HTTP server have in common.
func (h *Host) newSource(cfg *Server) *credential.Source {
	u, err := url.Parse(cfg.URL)
	if len(cfg.Command) > 0 || err != nil {
		return nil // newWire reports the error
	}
	egress := h.opts.Egress
	if cfg.Direct {
		egress = nil
	}
	return credential.New(credential.Options{
		Context: h.ctx, Go: h.spawn, URL: u, Egress: egress, Auth: cfg.Auth, TLS: cfg.TLS,
		Log: h.opts.Log.With("server", cfg.Name),
	})
}

// spawn runs a function that Close waits for, unless Close has begun.
func (h *Host) spawn(f func()) bool {
	h.mu.RLock()
	defer h.mu.RUnlock()
	if !h.closed {
		h.group.Go(f)
	}
	return !h.closed
}

// Close cancels running calls, ends every session and kills every child
// process with its descendants. It is bounded to a few seconds; an error means
// that something still ran then.
func (h *Host) Close() error {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	h.stop()
	done := make(chan struct{})
	go func() {
		h.group.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-time.After(closeTimeout):
		return errors.New("mcp: connections still closing")
	}
}

// Settle waits until the first attempt to connect is over for every server, each
// at most for its ConnectTimeout, or until ctx ends.
func (h *Host) Settle(ctx context.Context) {
	h.mu.RLock()
	conns := make([]*conn, 0, len(h.servers))
	for _, s := range h.servers {
		conns = append(conns, s.plain)
	}
	h.mu.RUnlock()
	for _, c := range conns {
		c.waitWhole(ctx, c.cfg.ConnectTimeout)
	}
}

// Ready reports whether every required server has connected at least once. A
// server with credentials of its callers may refuse whoever brings none, so for
// it the end of the first attempt is enough.
func (h *Host) Ready() bool {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return !slices.ContainsFunc(h.order, func(name string) bool {
		s := h.servers[name]
		if !s.cfg.Required || s.plain.everUp.Load() {
			return false
		}
		perCaller := len(s.cfg.ForwardHeaders) > 0 || s.cfg.Auth.PerCaller()
		return !perCaller || !isClosed(s.plain.first)
	})
}
