package mcp

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcp-via-llm/mcp-via-llm/excerpt"
)

// Why a call was ended; the model is told which.
var (
	errQuiet = errors.New("no sign of progress in time")
	errWhole = errors.New("still running when its time was over")
)

// running is one request of the model that a server works on: a call, or the
// reading of a resource or a prompt, with all its attempts and rounds.
type running struct {
	ctx    context.Context // ends with the request
	stop   context.CancelCauseFunc
	clock  *clock
	what   *request
	token  string // names it in the server's notifications of progress
	server string
	asker  Asker // nil: nobody answers the server's questions
	since  time.Time

	// Its one goroutine alone uses these.
	rounds, busy int      // of input_required
	given        answers  // what the next round brings
	got          answer   // to the latest round
	last         *session // on which it failed, and goes out again
	afresh       bool     // a session is made for it

	mu        sync.Mutex
	report    func(server, tool, message string, progress, total float64)
	progress  *CallProgress
	questions int
}

// CallProgress is what a server last said of a running call.
type CallProgress struct {
	Progress float64   `json:"progress"`
	Total    float64   `json:"total,omitempty"`
	At       time.Time `json:"at"`
}

var tokens atomic.Int64

// begin starts the clock of a request.
func (c *conn) begin(ctx context.Context, what *request) *running {
	run := &running{
		what: what, server: c.cfg.Name, since: time.Now(),
		token: "call-" + strconv.FormatInt(tokens.Add(1), 10),
		asker: askerOf(ctx), report: progressOf(ctx),
	}
	run.ctx, run.stop = context.WithCancelCause(ctx)
	run.clock = startClock(c.cfg.ToolTimeout, c.cfg.ToolTimeoutMax, run.stop)
	return run
}

func (run *running) end() {
	run.clock.stop()
	run.stop(context.Canceled)
}

// timedOut reports whether the request ended because its time was over.
func (run *running) timedOut() bool {
	cause := context.Cause(run.ctx)
	return errors.Is(cause, errQuiet) || errors.Is(cause, errWhole) || errors.Is(cause, context.DeadlineExceeded)
}

// moved notes a sign of progress and passes it on.
func (run *running) moved(message string, progress, total float64) {
	run.clock.restart()
	run.mu.Lock()
	defer run.mu.Unlock()
	run.progress = &CallProgress{progress, total, time.Now()}
	if run.report != nil && run.ctx.Err() == nil {
		run.report(run.server, run.what.name, excerpt.Head(message, maxErrorText), progress, total)
	}
}

// mayAsk counts the questions of a server during one request.
func (run *running) mayAsk() bool {
	run.mu.Lock()
	defer run.mu.Unlock()
	run.questions++
	return run.questions <= maxQuestions
}

// clock ends a request that shows no progress for a while, or takes too long as a
// whole. It stands still while the server waits for an answer of ours.
type clock struct {
	mu    sync.Mutex
	idle  *time.Timer
	whole *time.Timer
	quiet time.Duration // what idle runs for
	left  time.Duration // what whole ran for when it was started, at since
	since time.Time
	held  int
	over  bool
}

func startClock(quiet, whole time.Duration, end context.CancelCauseFunc) *clock {
	return &clock{
		quiet: quiet, left: whole, since: time.Now(),
		idle:  time.AfterFunc(quiet, func() { end(errQuiet) }),
		whole: time.AfterFunc(whole, func() { end(errWhole) }),
	}
}

// restart begins the time without progress anew.
func (c *clock) restart() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held == 0 && !c.over {
		c.idle.Reset(c.quiet)
	}
}

// hold stops the clock until what it returns is called.
func (c *clock) hold() (release func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held++
	if c.held == 1 && !c.over {
		c.idle.Stop()
		c.whole.Stop()
		c.left -= time.Since(c.since)
	}
	return sync.OnceFunc(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.held--
		if c.held == 0 && !c.over {
			c.since = time.Now()
			c.idle.Reset(c.quiet)
			c.whole.Reset(c.left)
		}
	})
}

func (c *clock) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	c.idle.Stop()
	c.whole.Stop()
}
