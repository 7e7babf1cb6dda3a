package extproc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime"
	"sync"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
)

var (
	// ErrDraining is the cause of a request context that Shutdown cancels.
	ErrDraining = errors.New("extproc: the service is shutting down")
	// ErrClientGone is the cause of a request context whose stream Envoy ended:
	// the client left, the upstream broke, or a time limit of Envoy's ran out.
	ErrClientGone error = gone("extproc: Envoy ended the exchange")
	// ErrEnvoyAnswered is the cause when Envoy answered a held request itself.
	ErrEnvoyAnswered error = gone("extproc: Envoy answered the request itself")

	errFinished = errors.New("extproc: the exchange is over")
	errAborted  = errors.New("extproc: the handler gave the answer up")
	errTooLarge = fmt.Errorf("extproc: over %d bytes of an answer that Envoy must get whole", wholeLimit)
)

// gone is why nobody waits for the answer any more. It is context.Canceled, as a
// client's disconnect is under net/http.
type gone string

func (g gone) Error() string        { return string(g) }
func (g gone) Is(target error) bool { return target == context.Canceled }

// stream is the part of the gRPC server stream that an exchange uses.
type stream interface {
	Context() context.Context
	Send(*pb.ProcessingResponse) error
	Recv() (*pb.ProcessingRequest, error)
}

// exchange is one stream with a handler on it. Whoever has something for the
// machine, the receiver a message of Envoy's and the handler a part of its
// answer, steps it under the lock and sends what comes of it: no other
// goroutine has to wake for it.
type exchange struct {
	stream  stream
	server  *Server
	log     *slog.Logger
	inbound http.Header // the request's fields as Envoy knows them
	path    string      // :path and :authority choose the route of every segment
	host    string
	method  string
	bare    bool // the client's request has no body

	mu      sync.Mutex // of the following, and of sending on the stream
	machine *machine
	order   order
	free    sync.Cond // the machine took a step, the handler has ended, or all is over
	serving bool      // the handler has begun
	served  bool      // and ended
	over    bool
	outcome Outcome
	why     error
	done    chan struct{} // closed when all is over

	room         chan struct{} // a full pipe has room again
	requestPipe  pipe
	responsePipe pipe
	response     *http.Response // set before responded is closed
	responded    chan struct{}

	cancel context.CancelCauseFunc // the request's context

	route    sync.Mutex
	released bool // a round trip has used Envoy's route
	begun    bool // the answer has begun
}

func newExchange(s *Server, st stream, bare bool) *exchange {
	x := &exchange{
		stream:    st,
		server:    s,
		bare:      bare,
		log:       s.opts.Log,
		machine:   newMachine(bare),
		done:      make(chan struct{}),
		room:      make(chan struct{}, 1),
		responded: make(chan struct{}),
	}
	x.free.L = &x.mu
	x.requestPipe.init(x.hasRoom)
	x.responsePipe.init(x.hasRoom)
	return x
}

func (x *exchange) hasRoom() {
	select {
	case x.room <- struct{}{}:
	default:
	}
}

// run runs the handler in the stream's own goroutine, whose stack has grown
// with earlier streams, and waits until Envoy ends the exchange. The error is
// for the handler; that of OutcomeAborted alone is one for Envoy, too.
func (x *exchange) run(h http.Handler, r *http.Request) (Outcome, error) {
	stop := context.AfterFunc(x.server.cut, func() { x.drain(h, r) })
	defer stop()
	if x.takeRequest(r.ContentLength) {
		go x.receive()
	}
	x.serveOnce(h, r)
	x.mu.Lock()
	answered := x.machine.done()
	x.mu.Unlock()
	var draining <-chan struct{} // once all was sent: no shutdown waits for slow clients
	if answered {
		draining = x.server.draining
	}
	select {
	case <-x.done:
	case <-draining:
		x.finish(OutcomeAnswered, errFinished)
	case <-x.server.dead:
		x.finish(OutcomeAborted, ErrDraining)
	}
	return x.outcome, x.why
}

// drain ends the exchange for a shutdown: the handler first, and what it has not
// ended by itself a grace later. A handler that still waits for the request to be
// taken runs now, and tells the client.
func (x *exchange) drain(h http.Handler, r *http.Request) {
	x.stop(ErrDraining)
	x.mu.Lock()
	waits := !x.serving
	x.mu.Unlock()
	if waits {
		go x.serveOnce(h, r)
	}
	select {
	case <-x.server.dead:
		x.finish(OutcomeAborted, ErrDraining)
	case <-x.done:
	}
}

// serveOnce runs the handler, or waits for it if it runs.
func (x *exchange) serveOnce(h http.Handler, r *http.Request) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.serving {
		for !x.served {
			x.free.Wait()
		}
		return
	}
	x.serving = true
	x.mu.Unlock()
	defer func() { // also when Observe panics
		x.mu.Lock()
		x.served = true
		x.free.Broadcast()
	}()
	x.serve(h, r)
}

// takeRequest takes a small request of known length whole, before the handler runs:
// the handler would wait for it, and wake for each of its messages. It says whether
// the stream goes on.
func (x *exchange) takeRequest(length int64) bool {
	if length < 0 || length >= pipeLimit {
		return true
	}
	for x.wantsRequest() && !x.requestPipe.full() {
		if !x.take() {
			return false
		}
	}
	return true
}

func (x *exchange) wantsRequest() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return !x.machine.requestEnd && x.machine.upstreamStatus == 0
}

// receive is the receiver's goroutine. It ends when the stream does, which at
// the latest is when Process returns.
func (x *exchange) receive() {
	for x.awaitRoom() && x.take() {
	}
}

// take takes the next message from Envoy, and says whether the stream goes on.
func (x *exchange) take() bool {
	msg, err := x.stream.Recv()
	if err != nil {
		x.finish(x.ended())
		return false
	}
	x.mu.Lock()
	err = x.step(envoyInput{msg})
	x.mu.Unlock()
	if err != nil && !errors.Is(err, ErrClientGone) { // that one Recv reports, too
		x.finish(OutcomeAborted, err)
		return false
	}
	return true
}

// awaitRoom takes nothing from Envoy while a body waits for its reader; gRPC's
// flow control then slows Envoy down.
func (x *exchange) awaitRoom() bool {
	for x.requestPipe.full() || x.responsePipe.full() {
		select {
		case <-x.room:
		case <-x.stream.Context().Done():
			return true
		case <-x.done:
			return false
		}
	}
	return true
}

// ended sorts out what the end of the stream means.
func (x *exchange) ended() (Outcome, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case x.machine.done():
		return OutcomeAnswered, errFinished
	case x.machine.answer == answerForeign:
		return OutcomeForeign, ErrEnvoyAnswered
	}
	return OutcomeClientGone, ErrClientGone
}

// finish ends the exchange; only the first end counts.
func (x *exchange) finish(outcome Outcome, why error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.finishLocked(outcome, why)
}

func (x *exchange) finishLocked(outcome Outcome, why error) {
	if x.over {
		return
	}
	x.over, x.outcome, x.why = true, outcome, why
	x.stop(why)
	close(x.done)
	x.free.Broadcast()
}

// stop ends what the handler is at.
func (x *exchange) stop(why error) {
	x.cancel(why)
	x.requestPipe.fail(why)
	x.responsePipe.fail(why)
}

// step advances the machine and carries out what comes of it. The caller has
// the lock.
func (x *exchange) step(in input) error {
	if x.over {
		return x.why
	}
	defer x.free.Broadcast()
	out, err := x.machine.step(in)
	if err != nil {
		return err
	}
	for _, o := range out {
		if err := x.carryOut(o); err != nil {
			return err
		}
	}
	return nil
}

func (x *exchange) carryOut(o output) error {
	switch o.do {
	case doSend:
		if err := x.order.check(o.msg); err != nil {
			return err
		}
		if x.stream.Send(o.msg) != nil {
			return ErrClientGone // the only reason gRPC has; the receiver sees it too
		}
	case doRequestBody:
		x.requestPipe.push(o.data)
	case doRequestEnd:
		x.requestPipe.finish(o.header)
	case doRequestDrop:
		x.requestPipe.fail(http.ErrBodyReadAfterClose)
	case doResponseHead:
		x.response = newResponse(o, &x.responsePipe)
		close(x.responded)
	case doResponseBody:
		x.responsePipe.push(o.data)
	case doResponseEnd:
		x.responsePipe.finish(o.header)
	case doCountLate:
		x.server.observe(x.stream.Context(), Event{Kind: EventLateBody, Bytes: len(o.data)})
	case doCancelHandler:
		x.stop(ErrEnvoyAnswered)
	}
	return nil
}

// ask carries out a wish of the handler's. What only concerns who wished goes
// to them alone; other errors end the stream.
func (x *exchange) ask(in input) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	err := x.step(in)
	if errors.Is(err, errTooLarge) || errors.Is(err, errOrder) {
		x.finishLocked(OutcomeAborted, err)
	}
	return err
}

// answer is ask for a part of the answer; it waits while the machine must keep
// what it has.
func (x *exchange) answer(in answerInput) error {
	x.mu.Lock()
	for x.machine.full() && !x.over {
		x.free.Wait()
	}
	x.mu.Unlock()
	err := x.ask(in)
	if in.last {
		// gRPC's writer sends when it gets to run, and itself lets others run once before
		// it does. Nobody shall wait for what the handler does after its answer.
		runtime.Gosched()
		runtime.Gosched()
	}
	return err
}

// begin is answer for the first part.
func (x *exchange) begin(in answerInput) error {
	x.route.Lock()
	defer x.route.Unlock()
	x.begun = true
	return x.answer(in)
}
