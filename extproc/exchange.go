package extproc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

var (
	// ErrDraining is the cause of a request context that Shutdown cancels.
	ErrDraining = errors.New("extproc: the service is shutting down")
	// ErrClientGone is the cause of a request context whose stream Envoy ended:
	// the client left, the upstream broke, or a time limit of Envoy's ran out.
	ErrClientGone = errors.New("extproc: Envoy ended the exchange")
	// ErrEnvoyAnswered is the cause when Envoy answered a held request itself.
	ErrEnvoyAnswered = errors.New("extproc: Envoy answered the request itself")

	errFinished = errors.New("extproc: the exchange is over")
	errAborted  = errors.New("extproc: the handler gave the answer up")
	errTooLarge = fmt.Errorf("extproc: over %d bytes of an answer that Envoy must get whole", wholeLimit)
)

// stream is the part of the gRPC server stream that an exchange uses.
type stream interface {
	Context() context.Context
	Send(*pb.ProcessingResponse) error
	Recv() (*pb.ProcessingRequest, error)
}

// exchange is one stream with a handler on it. Its run method owns the
// machine and is the only sender; the handler's goroutines reach it through
// the two wish channels.
type exchange struct {
	stream  stream
	server  *Server
	log     *slog.Logger
	inbound http.Header // the request's fields as Envoy knows them
	path    string      // :path and :authority choose the route of every segment
	host    string
	method  string
	bare    bool // the client's request has no body

	machine  *machine
	order    order
	received chan *pb.ProcessingRequest
	ended    chan error    // why the receiver stopped
	requests chan wish     // release and outbound request body
	answers  chan wish     // the handler's answer
	room     chan struct{} // a full pipe has room again
	handled  chan struct{} // the handler has returned
	done     chan struct{} // the owner has stopped

	requestPipe  *pipe
	responsePipe *pipe
	response     *http.Response // set before responded is closed
	responded    chan struct{}

	cancel context.CancelCauseFunc // the request's context
	why    error                   // set before done is closed

	route    sync.Mutex
	released bool // a round trip has used Envoy's route
	begun    bool // the answer has begun
}

// wish is what a goroutine of the handler asks the owner to do; the reply
// comes when everything it led to was sent.
type wish struct {
	in    input
	reply chan error
}

func newExchange(s *Server, st stream, bare bool) *exchange {
	x := &exchange{
		stream:    st,
		server:    s,
		bare:      bare,
		log:       s.opts.Log,
		machine:   newMachine(bare),
		received:  make(chan *pb.ProcessingRequest),
		ended:     make(chan error, 1),
		requests:  make(chan wish),
		answers:   make(chan wish),
		room:      make(chan struct{}, 1),
		handled:   make(chan struct{}),
		done:      make(chan struct{}),
		responded: make(chan struct{}),
	}
	x.responsePipe = newPipe(x.hasRoom, nil)
	return x
}

func (x *exchange) hasRoom() {
	select {
	case x.room <- struct{}{}:
	default:
	}
}

// receive is the receiver's goroutine. It ends when the stream does, which at
// the latest is when Process returns.
func (x *exchange) receive() {
	for {
		msg, err := x.stream.Recv()
		if err != nil {
			x.ended <- err
			return
		}
		select {
		case x.received <- msg:
		case <-x.done:
			return
		}
	}
}

// run owns the exchange until Envoy ends it. It returns the stream's gRPC
// status: an error makes Envoy answer 500, or cut an answer that has begun;
// it never lets the untouched upstream response through, whatever
// failure_mode_allow says (seen on 1.37 to 1.40). Returning nil too early is
// worse: Envoy 1.38 and later then lets a held request hang.
func (x *exchange) run() (Outcome, error) {
	outcome, cause, err := x.loop()
	x.cancel(cause)
	x.requestPipe.fail(cause)
	x.responsePipe.fail(cause)
	x.why = cause
	close(x.done)
	if !errors.Is(cause, ErrDraining) {
		<-x.handled // as net/http's server, an exchange lasts as long as its handler
	}
	return outcome, err
}

func (x *exchange) loop() (Outcome, error, error) {
	handled := x.handled
	var draining <-chan struct{} // once all was sent: no shutdown waits for slow clients
	for {
		if handled == nil && x.machine.done() {
			draining = x.server.draining
		}
		select {
		case msg := <-x.receiving():
			if err := x.take(msg); err != nil {
				return OutcomeAborted, err, err
			}
		case <-x.ended:
			return x.end()
		case <-x.stream.Context().Done():
			return x.end()
		case w := <-x.requests:
			if err := x.grant(w); err != nil {
				return OutcomeAborted, err, err
			}
		case w := <-x.answering():
			if err := x.grant(w); err != nil {
				return OutcomeAborted, err, err
			}
		case <-x.room:
		case <-handled:
			handled = nil
		case <-draining:
			return OutcomeAnswered, errFinished, nil
		case <-x.server.dead:
			return OutcomeAborted, ErrDraining, status.Error(codes.Unavailable, ErrDraining.Error())
		}
	}
}

// end sorts out what the end of the stream means.
func (x *exchange) end() (Outcome, error, error) {
	switch {
	case x.machine.done():
		return OutcomeAnswered, errFinished, nil
	case x.machine.answer == answerForeign:
		return OutcomeForeign, ErrEnvoyAnswered, nil
	}
	return OutcomeClientGone, ErrClientGone, nil
}

// receiving takes nothing from Envoy while a body waits for its reader; gRPC's
// flow control then slows Envoy down.
func (x *exchange) receiving() <-chan *pb.ProcessingRequest {
	if x.requestPipe.full() || x.responsePipe.full() {
		return nil
	}
	return x.received
}

func (x *exchange) answering() <-chan wish {
	if x.machine.full() {
		return nil
	}
	return x.answers
}

// take carries out what a message from Envoy leads to.
func (x *exchange) take(msg *pb.ProcessingRequest) error {
	err := x.step(envoyInput{msg})
	var illegal *StepError
	if errors.As(err, &illegal) || errors.Is(err, errOrder) {
		x.server.observe(Event{Kind: EventProtocol, Err: err})
		return status.Error(codes.InvalidArgument, err.Error())
	}
	// A failed Send is the end of the stream, which the receiver reports too.
	return nil
}

// grant carries out a wish; an error ends the stream.
func (x *exchange) grant(w wish) error {
	err := x.step(w.in)
	w.reply <- err
	if errors.Is(err, errAborted) || errors.Is(err, errTooLarge) || errors.Is(err, errOrder) {
		return status.Error(codes.Aborted, err.Error())
	}
	return nil
}

func (x *exchange) step(in input) error {
	if _, ok := in.(abortInput); ok {
		return errAborted
	}
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
		x.response = newResponse(o, x.responsePipe)
		close(x.responded)
	case doResponseBody:
		x.responsePipe.push(o.data)
	case doResponseEnd:
		x.responsePipe.finish(o.header)
	case doCountLate:
		x.server.observe(Event{Kind: EventLateBody, Bytes: len(o.data)})
	case doCancelHandler:
		x.cancel(ErrEnvoyAnswered)
		x.requestPipe.fail(ErrEnvoyAnswered)
	}
	return nil
}

// ask hands a wish to the owner and waits until it was carried out.
func (x *exchange) ask(ch chan<- wish, in input) error {
	w := wish{in: in, reply: make(chan error, 1)}
	select {
	case ch <- w:
		return <-w.reply // the owner always replies to what it took
	case <-x.done:
		return x.why
	}
}

// begin is ask for the first part of the answer.
func (x *exchange) begin(in answerInput) error {
	x.route.Lock()
	defer x.route.Unlock()
	x.begun = true
	return x.ask(x.answers, in)
}
