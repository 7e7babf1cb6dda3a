package loop

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/mcp-via-llm/mcp-via-llm/chat"
)

// turn is one client request and its response.
type turn struct {
	h       *handler
	w       http.ResponseWriter
	r       *http.Request
	client  *Client
	req     *chat.Request
	tools   Tools
	servers []string // whose tools the request could have

	start       time.Time
	span        trace.Span
	segmentSpan string        // the latest, as at gives it
	places      chan struct{} // taken by the calls that run; nil: no limit
	rec         *Ledger
	over        func()        // of OnStart
	acted       bool          // an MCP call ran that may have changed something, and no journal knows
	answered    bool          // the provider has answered the client's own request
	status      int           // of the provider's first answer, if that was not streamed
	text        string        // that the client has seen, of all segments
	sent        time.Time     // when the current segment's request went out
	lag         time.Duration // from then to the first byte of its answer
	told        bool          // the client has something of it
	failure     string        // a word for why the turn failed
	counted     string        // the usage object that was read last
	count       chat.Tokens   // what it says
	ended       SegmentEvent
	endedIn     context.Context // of the event; nil when it was told

	session *session
	conv    *conversation
	records map[int]*record    // behind the client's messages
	history []unfolded         // what stands for messages of the client
	asides  []chat.Replacement // of messages beside those
	brevity int                // how far the history was shortened, see shorten
	notices []chat.Replacement // see lapsed
	bound   []string           // what the calls of the last reply are of, as heldCall has it
	added   [][]byte           // messages put after the client's own, for the model only
	journal *journal

	// One of the two makes the client's answer out of those of the segments.
	relay  *chat.Relay
	whole  chat.Whole
	answer answer
	queued []string // chunks of a broken attempt, to be shown when the answer begins

	sampled atomic.Int64 // requests of servers to the model
	taken   atomic.Int64 // bytes of the results so far
	shown   int          // bytes of images that the model gets
	midway  bool         // the request only goes on from a pause: its first segment is none of a new turn

	ctx   context.Context         // of the turn
	limit *time.Timer             // ends it
	quiet func()                  // ends its keep-alives
	calls context.Context         // of its MCP calls; nil before the first, see callContext
	stop  context.CancelCauseFunc // ends them
	untie func() bool             // lets them go on when the turn has ended
}

func newTurn(h *handler, w http.ResponseWriter, r *http.Request, c *Client, req *chat.Request, tools Tools) *turn {
	t := &turn{h: h, w: w, r: r, client: c, req: req, tools: tools, span: noSpan, answer: answer{w: w, limit: h.MaxResponseBytes}}
	hidden, dialect := t.hidden, chat.Dialects[c.Dialect]
	t.whole = chat.Whole{Hidden: hidden, Dialect: dialect}
	if req.Stream {
		known := func(name string) bool { return tools.Has(name) || slices.Contains(req.Names, name) }
		t.relay = &chat.Relay{Known: known, Hidden: hidden, Usage: req.Usage, Dialect: dialect, Requested: req.Model}
	}
	if c.MaxParallelCalls > 0 {
		t.places = make(chan struct{}, c.MaxParallelCalls)
	}
	t.rec = &Ledger{omitted: tools.Omitted()}
	return t
}

// report begins the report with what is known at the start.
func (t *turn) report() {
	r := Report{ID: t.r.Header.Get("X-Request-Id"), Client: t.client.Name, Model: t.req.Model, Stream: t.req.Stream, Start: t.start,
		Identity: strings.TrimPrefix(t.session.scope.Client, t.client.Name+"/"), Unavailable: t.tools.Unavailable(),
		Segments: []SegmentReport{}, Calls: []CallReport{}, Omitted: len(t.rec.omitted)}
	if at := t.span.SpanContext(); at.IsValid() {
		r.TraceID = at.TraceID().String()
	}
	r.Injected, r.InjectedTokens = t.tools.Cost()
	t.rec.report = r
}

// hidden says whether a call of a function stays inside. The client's own names
// are the client's; a name that nobody knows is too, if the client has functions
// and the name is not in our namespace. Anything else is for us to answer.
func (t *turn) hidden(name string) bool {
	switch {
	case t.tools.Has(name):
		return true
	case slices.Contains(t.req.Names, name):
		return false
	}
	return len(t.req.Names) == 0 || t.tools.Owns(name)
}

func (t *turn) run() {
	t.enter()
	defer t.leave()
	t.settle(t.ctx, t.loop(t.ctx))
}

// enter makes the context of the turn; leave must follow.
func (t *turn) enter() {
	ctx, cancel := context.WithCancelCause(t.r.Context())
	t.ctx, t.journal.abort = ctx, cancel
	if t.client.LoopTimeout > 0 {
		t.limit = time.AfterFunc(t.client.LoopTimeout, func() { cancel(errLoopTimeout) })
	}
	if t.req.Stream && t.client.Keepalive > 0 {
		t.quiet = t.answer.keepAlive(t.client.Keepalive)
	}
	if count := t.r.Header.Get(retryCountHeader); count != "" {
		n, err := strconv.Atoi(count)
		t.journal.patient = err == nil && n > 0
	}
}

func (t *turn) leave() {
	if t.calls != nil && t.untie() {
		t.stop(nil) // here and now: AfterFunc would start a goroutine for it
	}
	if t.quiet != nil {
		t.quiet()
	}
	if t.limit != nil {
		t.limit.Stop()
	}
	t.journal.abort(nil)
}

// settle ends the turn by what came of it.
func (t *turn) settle(ctx context.Context, err error) {
	switch {
	case err == nil:
		t.journal.done(ctx)
	case errors.Is(err, errCopied):
		t.journal.broken(ctx)
		first := t.rec.report.Segments[len(t.rec.report.Segments)-1]
		t.failure = first.ErrorType
		t.end(StopError, first.Status, err)
		if errors.Is(err, errCut) {
			panic(http.ErrAbortHandler) // the client must see that it was cut
		}
	case errors.Is(err, errUnheard):
		t.journal.broken(ctx)
	default:
		t.journal.refused(ctx, err)
		t.journal.broken(ctx)
		t.fail(ctx, err)
	}
}

// callContext is the context of the turn's MCP calls, which may outlive it. Many turns
// make none.
func (t *turn) callContext() context.Context {
	if t.calls == nil {
		ctx := t.ctx
		calls, stop := context.WithCancelCause(context.WithoutCancel(ctx))
		t.calls, t.stop = calls, stop
		t.untie = context.AfterFunc(ctx, func() { stop(context.Cause(ctx)) })
		if ctx.Err() != nil {
			stop(context.Cause(ctx)) // here and now: no call may begin before AfterFunc's goroutine runs
		}
	}
	return t.calls
}

// loop goes from segment to segment until there is an answer for the client. Its frame
// is small, as it is held while calls run, and so are those of what it goes through to
// them.
func (t *turn) loop(ctx context.Context) error {
	if ended, err := t.unfold(ctx); ended || err != nil {
		return err
	}
	if ended, err := t.replay(ctx); ended || err != nil {
		return err
	}
	for round := len(t.rec.report.Segments) + 1; ; round++ {
		reply, err := t.reply(ctx, round)
		if err != nil {
			return err
		}
		asks, ended, err := t.heed(ctx, round, reply)
		if ended || err != nil {
			return err
		}
		ended, err = t.step(ctx, round-1, reply, asks, nil)
		if ended || err != nil {
			return err
		}
	}
}

// reply asks the model, with less hidden history if the provider wants less.
func (t *turn) reply(ctx context.Context, round int) (*chat.Reply, error) {
	reply, err := t.segment(ctx, t.req.Build(t.edit(round)))
	for t.shortenFor(err) {
		t.h.Log.WarnContext(ctx, "the provider refuses the request with hidden history in it, which is left out now", "client", t.client.Name, "model", t.req.Model, "err", err)
		reply, err = t.segment(ctx, t.req.Build(t.edit(round)))
	}
	return reply, err
}

// heed ends the turn with a reply, if there is something for the client in it. If not,
// asks are the calls about which the user is to be asked.
func (t *turn) heed(ctx context.Context, round int, reply *chat.Reply) (asks map[int]bool, ended bool, err error) {
	last := round > t.client.MaxIterations
	t.text = chat.JoinText(t.text, reply.Text)
	own := t.own(reply.Calls)
	if last && len(own) == 0 && len(reply.Calls) > 0 && strings.TrimSpace(reply.Text) == "" {
		if err := t.giveUp(reply); err != nil {
			return nil, false, err
		}
	}
	ends := len(own) == len(reply.Calls) || last || reply.CutShort()
	if !ends {
		t.tellSegment()
		asks = t.asks(reply)
		t.bound = t.targets(reply)
		t.journal.segment(ctx, round-1, reply, asks, t.bound)
		if len(own) == 0 {
			return asks, false, nil
		}
	}
	seen := chat.Visible(t.text, own)
	anchor := "" // of a turn that leaves nothing but its signature
	if !ends || len(t.added) > 0 {
		anchor = t.conv.next(seen)
	}
	defer t.sign(ctx, seen, anchor)
	switch {
	case !ends:
		t.pend(ctx, reply, asks, anchor)
	case anchor != "":
		t.keep(ctx, reply, anchor)
	}
	return nil, true, t.finish(reply, own, last)
}

// giveUp answers for a model that calls tools where it may not any more and says
// nothing: a client takes an answer without content for a fault, and so does a provider
// that gets it back.
func (t *turn) giveUp(reply *chat.Reply) error {
	text := fmt.Sprintf("The model asked for more tool calls after %d rounds of them, the most that one answer may take here, and gave no answer. Ask it to go on, or for less at a time.", t.client.MaxIterations)
	reply.Message, t.text = chat.Answer(text), chat.JoinText(t.text, text)
	return t.say(text)
}

// step goes on from a reply whose calls all stay inside: with their results, or
// with a question to the user, which ends the turn.
func (t *turn) step(ctx context.Context, place int, reply *chat.Reply, asks map[int]bool, known map[int]Result) (ended bool, err error) {
	if len(asks) > 0 {
		return t.askFirst(ctx, place, reply, asks)
	}
	return t.round(ctx, place, reply, known)
}

// own gives the calls that the client gets; the others stay inside.
func (t *turn) own(calls []chat.Call) (own []chat.Call) {
	for _, c := range calls {
		if !t.hidden(c.Name) {
			own = append(own, c)
		}
	}
	return own
}

// round runs the calls of a reply, save those whose results are known, and puts
// the reply and the results into the history. The turn ends here if a server asks
// the user something meanwhile.
func (t *turn) round(ctx context.Context, place int, reply *chat.Reply, known map[int]Result) (ended bool, err error) {
	f := t.flight(place, reply.Calls, known)
	f.fly()
	if ended, err := f.wait(ctx, reply); ended || err != nil {
		return ended, err
	}
	t.add(reply, f.results)
	return false, nil
}

// add puts a reply and the results of its calls into the history.
func (t *turn) add(reply *chat.Reply, results []Result) {
	t.added = append(t.added, []byte(reply.Message))
	block := t.newBlock()
	for i, call := range reply.Calls {
		message, _ := block.add(heldCall{id: call.ID, name: call.Name}, results[i])
		t.added = append(t.added, message)
		t.rec.usage = chat.AddUsage(t.rec.usage, results[i].usage)
	}
	if images := block.after(); images != nil {
		t.added = append(t.added, images)
	}
}

// finish gives the client the end of its answer.
func (t *turn) finish(reply *chat.Reply, own []chat.Call, capped bool) error {
	stop, reason := StopAnswer, reply.Finish
	switch {
	case len(own) > 0:
		stop = StopClientCalls
		if !reply.CutShort() {
			reason = "tool_calls"
		}
	case reason == "" || reason == "tool_calls":
		reason = "stop"
	}
	if capped && len(own) == 0 {
		stop = StopMaxIterations
	}
	t.rec.note(func(r *Report) { r.ClientCalls = len(own) })
	return t.close(stop, reason)
}

// close sends the end of the client's answer.
func (t *turn) close(stop, reason string) error {
	extensions := t.extensions(stop)
	if t.req.Stream {
		t.answer.seize()
		for _, data := range append(t.relay.Finish(reason, t.rec.usage, extensions), "[DONE]") {
			if err := t.answer.final(data); err != nil {
				return err
			}
		}
		t.end(stop, http.StatusOK, nil)
		return nil
	}
	body := t.whole.Finish(reason, t.rec.usage, extensions)
	if int64(len(body)) > t.h.MaxResponseBytes {
		return errTooLarge
	}
	header, values := t.w.Header(), []string{"application/json", strconv.Itoa(len(body))}
	for _, name := range chat.BodyHeaders {
		delete(header, name)
	}
	header["Content-Type"], header["Content-Length"] = values[:1:1], values[1:]
	t.ends(stop, t.status, nil) // before the answer goes out: who has it may look for its turn
	defer t.tell()
	t.w.WriteHeader(t.status)
	if _, err := t.w.Write(body); err != nil {
		return fmt.Errorf("%w: %w", errUnheard, err)
	}
	return nil
}

// errUnheard says that the client left before it had the answer. It may ask again.
var errUnheard = errors.New("the answer did not reach the client")
