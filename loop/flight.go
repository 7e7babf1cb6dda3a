package loop

import (
	"cmp"
	"context"
	"encoding/json"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/mcp-via-llm/mcp-via-llm/chat"
)

// flight is the MCP calls of a segment, in parallel, and the turn that waits for
// them. If a server asks the user something meanwhile, the turn ends and the calls
// go on beside it: what comes of them goes into a record.
type flight struct {
	t       *turn
	place   int // of the segment
	calls   []chat.Call
	targets []string // of the calls
	results []Result
	missing []int           // places of the calls that are to run
	done    []chan struct{} // closed when the result is there
	ctx     context.Context // of the calls
	cancel  context.CancelFunc

	notes sync.RWMutex // read while a result is noted in the turn's journal and report
	left  bool         // the turn has ended

	mu     sync.Mutex
	asked  []elicitation // in time to go into the record as it is made
	landed bool          // for the others it is too late
	wanted chan struct{} // has a token when there is a question
	stands chan struct{} // closed when the turn has ended, or cannot
	record *held         // nil if it cannot
}

// flight prepares the MCP calls of a segment, save those whose results are known. Every
// call will have a result: one that says what went wrong, if need be.
func (t *turn) flight(place int, calls []chat.Call, known map[int]Result) *flight {
	f := &flight{t: t, place: place, calls: calls, targets: t.bound, results: make([]Result, len(calls)), wanted: make(chan struct{}, 1), stands: make(chan struct{})}
	f.ctx, f.cancel = context.WithCancel(t.callContext())
	for i, call := range calls {
		f.done = append(f.done, make(chan struct{}))
		if known[i].Outcome != DeclinedUnaskable {
			t.called(call.Name, call.Arguments)
		}
		if result, ok := known[i]; ok {
			f.results[i] = result
			close(f.done[i])
			continue
		}
		f.missing = append(f.missing, i)
	}
	return f
}

// fly starts the calls. Where no server can have the user asked, the turn has nothing
// to do but wait: it runs the last call itself, so that a single one costs no goroutine.
func (f *flight) fly() {
	for n, i := range f.missing {
		if n == len(f.missing)-1 && !f.t.client.Elicit {
			f.run(i)
		} else {
			go f.run(i)
		}
	}
}

func (f *flight) run(i int) {
	defer close(f.done[i])
	entry := f.want(i)
	defer f.t.take()()
	f.t.rec.began(entry)
	ctx, span := f.t.startCall(f.ctx, f.calls[i])
	result := f.t.runCall(f.askable(ctx, i), &f.calls[i], f.targets[i])
	f.ended(ctx, i, entry, span, &result)
}

// want notes that a call is to run.
func (f *flight) want(i int) *ledgerCall {
	call := &f.calls[i]
	return f.t.rec.call(CallReport{Name: cmp.Or(f.t.tools.Runs(call.Name, call.Arguments), call.Name), Segment: f.place + 1})
}

func (f *flight) askable(ctx context.Context, i int) context.Context {
	return f.t.askable(ctx, f.calls[i].Name, func(ctx context.Context, server string, params json.RawMessage) (json.RawMessage, error) {
		return f.put(ctx, newElicitation(i, server, params))
	})
}

// ended takes the result of a call.
func (f *flight) ended(ctx context.Context, i int, entry *ledgerCall, span trace.Span, result *Result) {
	f.t.endCall(span, *result)
	f.notes.RLock()
	defer f.notes.RUnlock()
	f.t.rec.ended(entry, *result, f.left)
	if f.left { // whoever settles it ends the span
		result.open = &openSpan{span, time.Now()}
		f.results[i] = *result
		return
	}
	f.results[i] = *result
	span.End()
	if ctx.Err() == nil || result.Outcome != "cancelled" {
		f.t.journal.call(ctx, f.place, i, *result)
	}
}

// wait waits for all results. It ends the turn instead if a server asks something
// and the user can be asked.
func (f *flight) wait(ctx context.Context, reply *chat.Reply) (ended bool, err error) {
	defer f.end()
	defer f.t.answer.setNote("")
	for i := 0; i < len(f.calls); {
		select {
		case <-f.done[i]:
			i++
		case <-f.wanted:
			if ended, err := f.land(ctx, reply); ended || err != nil {
				return ended, err
			}
		}
	}
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	return false, nil
}

// end says that it is too late to ask, unless the calls go on.
func (f *flight) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.landed {
		f.landed = true
		close(f.stands)
	}
	if f.record == nil {
		f.cancel()
	}
	if f.t.journal.isLost() {
		for _, call := range f.calls {
			readOnly, _ := f.t.tools.Hints(call.Name, call.Arguments)
			f.t.acted = f.t.acted || f.t.tools.Has(call.Name) && !readOnly
		}
	}
}

// land ends the turn with the questions that there are. If that cannot be kept, no
// server gets an answer, and the turn waits on.
func (f *flight) land(ctx context.Context, reply *chat.Reply) (ended bool, err error) {
	f.mu.Lock()
	f.landed = true
	p := &pause{questions: f.asked}
	f.mu.Unlock()
	defer close(f.stands)

	h := f.t.hold(reply, nil)
	h.run = f.rest
	h.questions = p.questions
	p.anchor = f.t.conv.next(f.t.seen(p))
	h.anchor, h.visible = p.anchor, hashText(f.t.text)
	f.notes.Lock()
	defer f.notes.Unlock()
	for i := range f.calls {
		select {
		case <-f.done[i]:
			h.results[i] = f.results[i]
		default:
		}
	}
	if f.t.journal.pause(ctx, f.place, p); !f.t.journal.isLost() {
		err = h.pend(ctx)
	}
	if err != nil || f.t.journal.isLost() {
		f.t.forgot(ctx, err)
		return false, nil
	}
	f.left, f.record = true, h
	f.t.rec.note(func(r *Report) { r.Background = len(h.missing()) })
	return true, f.t.show(ctx, p)
}

// rest waits for a call that goes on beside its turn.
func (f *flight) rest(ctx context.Context, _ *held, i int) Result {
	select {
	case <-f.done[i]:
	case <-ctx.Done():
		f.cancel()
		<-f.done[i]
	}
	return f.results[i]
}

// put has the client asked, and waits for the answer.
func (f *flight) put(ctx context.Context, q elicitation) (json.RawMessage, error) {
	open := f.t.client.ApprovalTimeout
	f.mu.Lock()
	intime := !f.landed
	if intime {
		f.asked = append(f.asked, q)
	}
	f.mu.Unlock()
	if intime {
		select {
		case f.wanted <- struct{}{}:
		default:
		}
	}
	select {
	case <-f.stands:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	switch {
	case f.record == nil:
		return nil, errNobodyToAsk
	case intime:
		return f.record.awaitReply(ctx, q.id, open)
	}
	return f.record.put(ctx, q, open)
}
