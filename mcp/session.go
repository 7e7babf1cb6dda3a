package mcp

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcp-via-llm/mcp-via-llm/excerpt"
)

const (
	// legacyVersion is the newest revision with the initialize handshake.
	legacyVersion    = "2025-11-25"
	methodInitialize = "initialize"
	methodDiscover   = "server/discover"
	methodListen     = "subscriptions/listen"
	methodCancelled  = "notifications/cancelled"
	// abortTimeout bounds each step of ending a session.
	abortTimeout = 2 * time.Second
)

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
	cfg    *Server
	log    *slog.Logger
	cs     *sdk.ClientSession
	tr     transport
	out    *sender         // the SDK's own, under its list caches, with telemetry
	meta   sdk.Meta        // what 2026-07-28 wants in every request, nil before
	group  *sync.WaitGroup // the host's
	hurry  <-chan struct{} // the host closes
	opened time.Time
	used   atomic.Bool // a call went out on it
	// resulted is when a call last had a result, and accused when one last had an error
	// that made the server suspect, in Unix nanoseconds; 0: never.
	resulted, accused atomic.Int64
	binds             atomic.Bool     // a tool has an argument that goes out as a header too
	deaf              atomic.Bool     // the stream that announces changes ended, and the SDK opens no other
	calls             context.Context // ends the running calls
	cut               context.CancelFunc

	refusal  atomic.Pointer[jsonrpc.Error]         // of initialize, if it was refused
	logLevel sdk.LoggingLevel                      // least level of log messages wanted, "" if the server has none
	logs     *throttle                             // of what the server has to say
	complain func(about, text string, args ...any) // see conn.complain
	doubt    func(*session)                        // see conn.doubt

	mu        sync.Mutex
	closing   bool                          // no call may begin
	runs      map[string]*running           // by progress token
	givenUp   map[string]time.Time          // when requests without an answer that may still run at the server were given up, by raw id
	questions map[string]context.CancelFunc // the server's open requests, by raw id
	replies   int                           // answers to these that are made or on their way
	// running counts calls. One that the SDK gave up still counts while it is on
	// the wire, or while the server was not told of its cancellation.
	running sync.WaitGroup

	// pages holds the raw result of each page of tools/list by cursor, because
	// the SDK answers again from its cache while the page's ttlMs lasts.
	pages map[string]page
	// toolsTTL is how long the tools may count as fresh.
	toolsTTL time.Duration
	toolsCut bool         // a part of them could not be listed
	proof    atomic.Int32 // a list beside the tools that could be read, 0: none yet
	unlisted bool         // none of them could yet; those of the session before are in use

	dead  chan struct{}
	once  sync.Once
	cause error // set before dead is closed
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

// forgotten ends a session that the server does not know any more.
func (s *session) forgotten() { s.kill(errSessionLost) }

// doubted has the server looked at.
func (s *session) doubted() {
	if s.accuse() {
		s.doubt(s)
	}
}

// introduced notes how a server answered to initialize or server/discover.
func (s *session) introduced(method string, odd []string, refusal *jsonrpc.Error) {
	if method == methodInitialize && refusal != nil {
		s.refusal.Store(refusal)
	}
	if len(odd) > 0 {
		s.complain("introduction", "the server introduces itself with values of wrong types; going on without them", "members", excerpt.Head(strings.Join(odd, ", "), maxErrorText))
	}
}

// enter registers a call, unless the session is closing.
func (s *session) enter(run *running) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closing {
		s.used.Store(true)
		s.running.Add(1)
		s.runs[run.token] = run
	}
	return !s.closing
}

// leave ends what enter began. The session stays open until the server was told
// of a cancelled call, or is too slow to take it.
func (s *session) leave(ctx context.Context, run *running, cp *capture) {
	s.mu.Lock()
	delete(s.runs, run.token)
	if id := cp.unanswered(); id != "" {
		s.givenUp[id] = time.Now()
	}
	cp.answer() // from here on, a late answer concerns givenUp alone
	s.mu.Unlock()
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

// mayRunLocked reports whether a request that was given up may still run at the server.
// One that was told of it never answers (2025-11-25, "Cancellation"), so after the time
// that a request has without a sign of progress it counts as over. s.mu must be held.
func (s *session) mayRunLocked() bool {
	for id, since := range s.givenUp {
		if time.Since(since) >= s.cfg.ToolTimeout {
			delete(s.givenUp, id)
		}
	}
	return len(s.givenUp) > 0
}

// refuse lets no further call, and no question of the server, begin.
func (s *session) refuse() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closing = true
}

// close ends the session. Running calls may finish for the grace, then they are
// cancelled (which tells the server), then the transport is cut.
func (s *session) close(grace time.Duration) {
	s.kill(errEnded)
	s.refuse()
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
	s.logs.end()
}

// ping asks the server for a sign of life, past the SDK's caches.
func (s *session) ping(ctx context.Context) error {
	if s.meta == nil {
		return s.cs.Ping(ctx, nil)
	}
	_, err := s.request(ctx, methodDiscover, &sdk.DiscoverParams{})
	return err
}

// request sends a request past the SDK's caches.
func (s *session) request(ctx context.Context, method string, params sdk.Params) (sdk.Result, error) {
	if params.GetMeta() == nil {
		params.SetMeta(maps.Clone(s.meta))
	}
	return s.out.send(ctx, method, &sdk.ClientRequest[sdk.Params]{Session: s.cs, Params: params})
}

// ask sends a request past the SDK's caches. Without a result, the answer tells
// what came instead, and err what the SDK made of it.
func (s *session) ask(ctx context.Context, method string, params sdk.Params) (answer, error) {
	ctx, cp := withCapture(ctx)
	res, err := s.request(ctx, method, params)
	got := cp.answer()
	if got.result == nil && err == nil {
		// The answer came on another stream than that of its request.
		got.result, err = json.Marshal(res)
	}
	return got, err
}

// offers reports whether the server says that it has such a list. Tools are asked
// for in any case, since servers exist that do not say that they have some.
func (s *session) offers(l list) bool {
	caps := s.cs.InitializeResult().Capabilities
	switch {
	case l == listTools:
		return true
	case caps == nil:
		return false
	case l == listPrompts:
		return caps.Prompts != nil
	}
	return caps.Resources != nil
}
