package extproc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
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

// run owns the exchange until Envoy ends it, and says how that was. The error
// is for the handler; Aborted alone is one for Envoy, too.
func (x *exchange) run() (Outcome, error) {
	outcome, why := x.loop()
	x.cancel(why)
	x.requestPipe.fail(why)
	x.responsePipe.fail(why)
	x.why = why
	close(x.done)
	if !errors.Is(why, ErrDraining) {
		<-x.handled // as net/http's server, an exchange lasts as long as its handler
	}
	return outcome, why
}

func (x *exchange) loop() (Outcome, error) {
	handled := x.handled
	var draining <-chan struct{} // once all was sent: no shutdown waits for slow clients
	for {
		if handled == nil && x.machine.done() {
			draining = x.server.draining
		}
		var err error
		select {
		case msg := <-x.receiving():
			err = x.step(envoyInput{msg})
			if errors.Is(err, ErrClientGone) {
				err = nil // the receiver reports it, too
			}
		case <-x.ended:
			return x.end()
		case <-x.stream.Context().Done():
			return x.end()
		case w := <-x.requests:
			err = x.grant(w)
		case w := <-x.answering():
			err = x.grant(w)
		case <-x.room:
		case <-handled:
			handled = nil
		case <-draining:
			return OutcomeAnswered, errFinished
		case <-x.server.dead:
			err = ErrDraining
		}
		if err != nil {
			return OutcomeAborted, err
		}
	}
}

// end sorts out what the end of the stream means.
func (x *exchange) end() (Outcome, error) {
	switch {
	case x.machine.done():
		return OutcomeAnswered, errFinished
	case x.machine.answer == answerForeign:
		return OutcomeForeign, ErrEnvoyAnswered
	}
	return OutcomeClientGone, ErrClientGone
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

// grant carries out a wish. What only concerns who wished goes to them alone;
// the error it returns ends the stream.
func (x *exchange) grant(w wish) error {
	err := x.step(w.in)
	w.reply <- err
	if errors.Is(err, errAborted) || errors.Is(err, errTooLarge) || errors.Is(err, errOrder) {
		return err
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
