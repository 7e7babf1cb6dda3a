package extproc

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"runtime/debug"
	"sync"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// drainGrace is what a handler gets, after Shutdown cancelled it, to tell its
// client in band.
const drainGrace = time.Second

// Options says what a Server runs and how. Handler and Match are required.
type Options struct {
	// Handler runs for each request that Match accepts, in its stream's goroutine.
	// Its request's context carries the exchange for Transport and InfoFrom,
	// and is cancelled when the client leaves. As in HTTP/1, what it has not
	// read of the request is gone once it has answered, or has sent a request
	// of its own on Envoy's route.
	Handler http.Handler
	// Match decides from the headers alone whether a request is ours; the
	// others pass untouched. It sees no body and must not block: Envoy's
	// message_timeout runs.
	Match func(*http.Request) bool
	// Strip names request headers that are removed from every request, ours or
	// not, and never sent on any round trip. The handler still sees them.
	Strip []string
	// Loop sends the second and later round trips of an exchange; nil means an
	// http.Transport with pools for one host.
	Loop http.RoundTripper
	// LoopURL gives the scheme and host of the loop listener, asked for each
	// such trip. The request keeps its own path and authority.
	LoopURL func() *url.URL
	// Secret is the key of the loop marker. Replicas with the same routes share
	// it; empty means a random one.
	Secret []byte
	// Log takes the handler's panics; nil means slog.Default().
	Log *slog.Logger
	// Observe is told of events, from many goroutines at once, and must not
	// block; may be nil.
	Observe func(context.Context, Event)
	// Context gives the context of a request with what its lines in Log and its events
	// are to have besides, such as its place in a trace; the handler has it, too. Nil:
	// as it is.
	Context func(*http.Request) context.Context
}

// Server is an Envoy external processor (ext_proc v3). Register it with
// extprocv3.RegisterExternalProcessorServer.
type Server struct {
	opts     Options
	stripped []string
	ownLoop  *http.Transport // nil if the caller gave one

	mu       sync.Mutex
	active   int
	refusing bool
	idle     chan struct{}   // closed when refusing and nothing is active
	draining chan struct{}   // closed by Shutdown
	cut      context.Context // ends with Shutdown's context: handlers are cancelled
	cutAll   context.CancelFunc
	dead     chan struct{} // closed a grace later: streams end
	deadOnce sync.Once
}

// New returns a server that is ready for streams.
func New(opts Options) *Server {
	if opts.Log == nil {
		opts.Log = slog.Default()
	}
	var ownLoop *http.Transport
	if opts.Loop == nil {
		ownLoop = newLoopTransport()
		opts.Loop = ownLoop
	}
	if len(opts.Secret) == 0 {
		opts.Secret = make([]byte, 32)
		_, _ = rand.Read(opts.Secret) // never fails (crypto/rand)
	}
	cut, cutAll := context.WithCancel(context.Background())
	return &Server{
		opts:     opts,
		ownLoop:  ownLoop,
		stripped: canonicalKeys(opts.Strip),
		idle:     make(chan struct{}),
		draining: make(chan struct{}),
		cut:      cut,
		cutAll:   cutAll,
		dead:     make(chan struct{}),
	}
}

func (s *Server) observe(ctx context.Context, e Event) {
	if s.opts.Observe != nil {
		s.opts.Observe(ctx, e)
	}
}

// contextOf is the context of a request, as Options.Context gives it.
func (s *Server) contextOf(r *http.Request) context.Context {
	if s.opts.Context == nil {
		return r.Context()
	}
	return s.opts.Context(r)
}

// Process implements extprocv3.ExternalProcessorServer: one stream is one HTTP
// exchange.
func (s *Server) Process(st pb.ExternalProcessor_ProcessServer) error { return s.process(st) }

func (s *Server) process(st stream) (err error) {
	if !s.enter() {
		s.observe(st.Context(), Event{Kind: EventRefused})
		return status.Error(codes.Unavailable, ErrDraining.Error())
	}
	defer s.leave()
	defer func() {
		if p := recover(); p != nil { // Match or Observe; the handler has its own
			s.opts.Log.ErrorContext(st.Context(), "stream panicked", "panic", p, "stack", string(debug.Stack()))
			s.observe(st.Context(), Event{Kind: EventPanic, Err: fmt.Errorf("panic: %v", p)})
			err = status.Error(codes.Internal, "panic")
		}
	}()
	first, err := st.Recv()
	if err != nil {
		if errors.Is(err, io.EOF) {
			return nil
		}
		return err
	}
	headers := first.GetRequestHeaders()
	if headers == nil {
		return s.abort(st.Context(), &StepError{Phase: "start", Input: messageName(first)})
	}
	mode := modeOf(first)
	request, inbound, looped := s.readRequest(headers)
	if request == nil || !s.opts.Match(request) {
		s.observe(st.Context(), Event{Kind: EventPass, Mode: mode})
		return s.pass(st, first, inbound)
	}
	if mode == ModeUnsupported {
		ctx := s.contextOf(request)
		s.opts.Log.ErrorContext(ctx, "the filter's processing mode is neither headers-only with allow_mode_override nor FULL_DUPLEX_STREAMED; the request passes")
		s.observe(ctx, Event{Kind: EventUnsupportedMode, Mode: mode})
		return s.pass(st, first, inbound)
	}
	return s.exchange(st, first, request, inbound, mode, looped)
}

// readRequest makes the request that Match and the handler see, nil if there
// is none to be made, and the fields that Envoy knows, as far as they can be changed.
func (s *Server) readRequest(headers *pb.HttpHeaders) (r *http.Request, inbound http.Header, looped bool) {
	r, err := newRequest(headers)
	if err != nil {
		return nil, toHeader(headers.GetHeaders()), false
	}
	inbound = r.Header.Clone()
	present, looped := takeMarker(r.Header, s.opts.Secret)
	switch {
	case looped:
		s.observe(s.contextOf(r), Event{Kind: EventLooped})
	case present:
		s.observe(s.contextOf(r), Event{Kind: EventForgedMarker})
	}
	return r, inbound, looped
}

func (s *Server) exchange(st stream, first *pb.ProcessingRequest, r *http.Request, inbound http.Header, mode Mode, looped bool) error {
	start := time.Now()
	headers := first.GetRequestHeaders()
	if mode == ModeOverride {
		// At once: message_timeout bounds the time to the first answer.
		if err := st.Send(standaloneOverride()); err != nil {
			return nil
		}
	}
	x := newExchange(s, st, headers.GetEndOfStream())
	x.inbound = inbound
	r = x.attach(r, headers, newInfo(st.Context(), first, looped))
	r = r.WithContext(s.contextOf(r))
	outcome, why := x.run(s.opts.Handler, r)
	if outcome == OutcomeAnswered {
		why = nil
	}
	s.observe(r.Context(), Event{Kind: EventExchange, Mode: mode, Outcome: outcome, Duration: time.Since(start), Err: why})
	if outcome == OutcomeAborted {
		return s.abort(r.Context(), why)
	}
	return nil
}

// abort is the gRPC status of a stream that cannot go on. For an error Envoy
// answers 500, or cuts an answer that has begun; it never lets the upstream's
// own response through then, whatever failure_mode_allow says (seen on 1.37 to
// 1.40). To return nil would be worse: Envoy 1.38 and later let a held request
// hang then.
func (s *Server) abort(ctx context.Context, why error) error {
	code := codes.Aborted
	var illegal *StepError
	switch {
	case errors.As(why, &illegal):
		code = codes.InvalidArgument
		s.observe(ctx, Event{Kind: EventProtocol, Err: why})
	case errors.Is(why, errOrder):
		code = codes.Internal
		s.observe(ctx, Event{Kind: EventProtocol, Err: why})
	case errors.Is(why, ErrDraining):
		code = codes.Unavailable
	}
	return status.Error(code, why.Error())
}

func (s *Server) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refusing {
		return false
	}
	s.active++
	return true
}

func (s *Server) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.active--
	s.settleIdle()
}

func (s *Server) settleIdle() {
	if s.refusing && s.active == 0 {
		select {
		case <-s.idle:
		default:
			close(s.idle)
		}
	}
}

// Shutdown refuses new streams (codes.Unavailable) and waits for the running
// ones. When ctx ends it cancels their requests' contexts with the cause
// ErrDraining, gives the handlers one second to tell their clients in band,
// ends what is left of them, and returns ctx's error. Streams of requests that
// are only passed end with the gRPC server.
func (s *Server) Shutdown(ctx context.Context) error {
	if s.ownLoop != nil {
		defer s.ownLoop.CloseIdleConnections()
	}
	s.mu.Lock()
	if !s.refusing {
		s.refusing = true
		close(s.draining)
	}
	s.settleIdle()
	s.mu.Unlock()
	select {
	case <-s.idle:
		return nil
	case <-ctx.Done():
	}
	s.cutAll()
	grace := time.NewTimer(drainGrace)
	defer grace.Stop()
	select {
	case <-s.idle:
	case <-grace.C:
		s.deadOnce.Do(func() { close(s.dead) })
	}
	return ctx.Err()
}
