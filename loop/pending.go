package loop

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/mcp-via-llm/mcp-via-llm/sessions"
)

// held is a record whose calls run, or ran, beside its turn.
type held struct {
	*record
	s      *session
	anchor string
	run    func(ctx context.Context, h *held, place int) Result
}

// pend stores the record of a turn that goes on with another request of the client,
// and starts those of its calls that may run. They go on when the turn has ended,
// for as long as the record may live.
func (h *held) pend(ctx context.Context) error {
	h.attempt = rand.Text()
	owner := rand.Text()
	lease, cancel := h.s.inTime(ctx)
	defer cancel()
	if _, err := h.s.store.Acquire(lease, h.s.scope, leaseName(h.attempt, false), owner, leaseTTL); err != nil {
		return err
	}
	if err := h.s.keep(ctx, h.anchor, h.record); err != nil {
		return err
	}
	h.s.bury(ctx, h.anchor, h.record)
	h.s.event(EventPending)
	h.start(context.WithoutCancel(ctx), owner, false, h.missing())
	return nil
}

// bury keeps what tells of a mixed turn after its record has expired.
func (s *session) bury(ctx context.Context, anchor string, r *record) {
	fields, err := encodeRecord(r)
	if err == nil {
		err = s.store.Put(ctx, s.scope, graveKey(anchor), fields, 2*s.ttl)
	}
	if err != nil {
		s.log.WarnContext(ctx, "a mixed turn will not be known as expired", "err", err)
	}
}

// start runs calls in the background, until ctx ends or the replica shuts down.
func (h *held) start(ctx context.Context, owner string, asked bool, places []int) {
	ctx, stop := context.WithCancel(ctx)
	unhook := context.AfterFunc(h.s.ctx, stop)
	h.s.running.Go(func() {
		defer stop()
		defer unhook()
		h.execute(ctx, owner, asked, places)
	})
}

// execute runs calls and stores each result as it comes. A record that is gone, or
// a lease that somebody else has, ends the calls.
func (h *held) execute(ctx context.Context, owner string, asked bool, places []int) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	h.s.pendingTurns.Add(1)
	defer h.s.pendingTurns.Add(-1)
	var beat sync.WaitGroup
	beat.Go(func() { h.beat(ctx, cancel, owner, asked) })
	var calls sync.WaitGroup
	for _, i := range places {
		calls.Go(func() {
			h.s.pendingCalls.Add(1)
			defer h.s.pendingCalls.Add(-1)
			result := h.run(ctx, h, i)
			defer result.open.end()
			if ctx.Err() != nil && result.Outcome == "cancelled" {
				return // whoever goes on decides what became of it
			}
			h.settle(i, result)
		})
	}
	calls.Wait()
	cancel(nil)
	beat.Wait()
	h.release(ctx, owner, asked)
}

// release gives the lease back. It must not end with the turn: a resume waits for it.
func (h *held) release(ctx context.Context, owner string, asked bool) {
	ctx, cancel := h.s.inTime(context.WithoutCancel(ctx))
	defer cancel()
	if err := h.s.store.Release(ctx, h.s.scope, leaseName(h.attempt, asked), owner); err != nil {
		h.s.log.DebugContext(ctx, "a lease was not given back and will lapse", "err", err)
	}
}

// settle stores the result of one call, trying again for as long as a store that
// restarts may need. The call's span is linked to a resume that waits.
func (h *held) settle(place int, result Result) {
	ctx := result.open.in(h.s.ctx)
	if result.open != nil {
		result.span = at(ctx)
	}
	fields, err := encodeResult(h.attempt, place, result)
	for try := 0; err == nil && try < settleTries; try++ {
		if try > 0 {
			select {
			case <-time.After(time.Second):
			case <-h.s.ctx.Done():
				return
			}
		}
		if waits, err := h.settleOnce(ctx, place, fields); err == nil {
			addLink(trace.SpanFromContext(ctx), waits, linkResume)
			return
		}
	}
	h.s.log.WarnContext(ctx, "the result of a mixed turn's call could not be stored", "tool", h.calls[place].name)
}

const settleTries = 30

// settleOnce stores a result, unless the record is gone or has one: what the model
// was told once, such as that nobody knows, it is told again. It gives the span of a
// resume that waits for the result.
func (h *held) settleOnce(ctx context.Context, place int, fields sessions.Fields) (waits string, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	found, err := h.s.store.Load(ctx, h.s.scope, 0, turnKey(h.anchor))
	if err != nil {
		return "", err
	}
	if _, there := found[0][resultField(h.attempt, place)]; there || found[0] == nil {
		h.s.log.DebugContext(ctx, "a result came too late")
		return "", nil
	}
	_, err = h.s.store.Update(ctx, h.s.scope, turnKey(h.anchor), fields, h.s.ttl)
	return string(found[0][waitField(h.attempt)]), err
}

// beat renews the lease until ctx ends. When the record or the lease is lost it
// cancels the calls.
func (h *held) beat(ctx context.Context, cancel context.CancelCauseFunc, owner string, asked bool) {
	ticker := time.NewTicker(min(heartbeat, h.s.ttl))
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		renewed, err := h.s.store.Renew(ctx, h.s.scope, leaseName(h.attempt, asked), owner, leaseTTL)
		if err == nil && !renewed {
			cancel(errors.New("another replica has taken the calls over"))
			return
		}
		found, err := h.s.store.Load(ctx, h.s.scope, 0, turnKey(h.anchor)) // looking on does not make it live longer
		if err == nil && found[0] == nil {
			cancel(errors.New("the record of the mixed turn is gone"))
			return
		}
	}
}

// await waits until all calls that may run have results, or until a server asks
// the user something. Before that it sees to it that the user's answer counts, if
// the request brings one. Calls of a replica that is gone are run again, until
// calls ends, where that does no harm; of the others the model is told that nobody
// knows.
func (h *held) await(ctx, calls context.Context, given *verdict) (asked []elicitation, err error) {
	waited := len(h.missing()) > 0
	if !waited && given == nil {
		return nil, nil
	}
	changed, stop := h.s.store.Watch(h.s.scope, turnKey(h.anchor))
	defer stop()
	poll := time.NewTicker(pollEvery)
	defer poll.Stop()
	for {
		found, err := h.s.load(ctx, turnKey(h.anchor))
		if err != nil {
			return nil, err
		}
		if found[0] == nil {
			h.s.event(EventExpired)
			return nil, nil
		}
		if err := h.take(found[0]); err != nil {
			return nil, err
		}
		if given != nil && h.decision == nil {
			if err := h.decide(ctx, calls, given); err != nil {
				return nil, err
			}
		}
		if len(h.missing()) == 0 && (given == nil || h.decision != nil) {
			if waited {
				h.s.event(EventResumed)
			}
			return nil, nil
		}
		if asked := h.open(); len(asked) > 0 {
			return asked, nil
		}
		waited = true
		for _, part := range []bool{false, true} {
			if err := h.takeOver(ctx, calls, part); err != nil {
				return nil, err
			}
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-changed:
		case <-poll.C:
		}
	}
}

// part gives the missing calls that run only when the user has agreed, or the
// others: each part has an owner of its own.
func (h *held) part(asked bool) (at []int) {
	for _, i := range h.missing() {
		if h.calls[i].asks == asked {
			at = append(at, i)
		}
	}
	return at
}

// takeOver does nothing as long as the calls have an owner.
func (h *held) takeOver(ctx, calls context.Context, asked bool) error {
	if len(h.part(asked)) == 0 {
		return nil
	}
	owner := rand.Text()
	got, err := h.s.store.Acquire(ctx, h.s.scope, leaseName(h.attempt, asked), owner, leaseTTL)
	if err != nil || !got {
		return err
	}
	again, err := h.sortOut(ctx, asked)
	if err != nil || len(again) == 0 {
		h.release(ctx, owner, asked) // whoever tries again need not wait for it
		return err
	}
	h.start(calls, owner, asked, again)
	return nil
}

// sortOut gives the calls without a result that are to be run again, and notes of
// the others that nobody knows.
func (h *held) sortOut(ctx context.Context, asked bool) (again []int, err error) {
	found, err := h.s.load(ctx, turnKey(h.anchor)) // the last owner may just have finished
	if err != nil || found[0] == nil {
		return nil, err
	}
	if err := h.take(found[0]); err != nil {
		return nil, err
	}
	missing := h.part(asked)
	if len(missing) > 0 {
		h.s.event(EventTakenOver)
	}
	for _, i := range missing {
		if h.calls[i].repeatable {
			again = append(again, i)
			continue
		}
		fields, err := encodeResult(h.attempt, i, Result{Text: noticeUnknown, Outcome: "unknown"})
		if err == nil {
			_, err = h.settleOnce(ctx, i, fields)
		}
		if err != nil {
			return nil, err
		}
	}
	return again, nil
}
