package policy

import (
	"context"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// maxRateWait is how long a call waits for its turn under a rate. The model is
// told at once of a longer one, and can do something else meanwhile.
const maxRateWait = 5 * time.Second

// gate lets calls begin within a limit. Those that must wait do so in a queue for
// each caller, and the queues take turns: who asks often keeps nobody else waiting.
type gate struct {
	mu      sync.Mutex
	limit   Limit
	tokens  *rate.Limiter
	running int
	queues  []*queue    // none is empty; the first has the next turn
	timer   *time.Timer // looks again when there is a token; nil before the first
}

type queue struct {
	caller string
	calls  []chan struct{} // closed when the call may begin
}

// full is why a call could not begin.
type full struct {
	limit Limit
	after time.Duration // until the rate lets it begin; 0: the concurrency does not
	ended bool          // the caller's context
}

func newGate(l Limit) *gate {
	g := &gate{tokens: rate.NewLimiter(rate.Inf, 0)}
	g.set(l)
	return g
}

// set changes the limit, and keeps what was used. Calls that wait begin if they
// may now.
func (g *gate) set(l Limit) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.limit == l {
		return
	}
	g.limit = l
	switch {
	case l.Rate.Calls == 0:
		g.tokens.SetLimit(rate.Inf)
	case g.tokens.Limit() == rate.Inf: // without a rate nothing was counted
		g.tokens = rate.NewLimiter(rate.Limit(l.Rate.perSecond()), l.burst())
	default:
		g.tokens.SetLimit(rate.Limit(l.Rate.perSecond()))
		g.tokens.SetBurst(l.burst())
	}
	g.openLocked()
}

// enter waits until the call may begin: at most wait for others to end; where
// only a rate holds it back maxRateWait, and as long again for callers who came
// later and have their turn first. leave must follow, unless it did not begin.
func (g *gate) enter(ctx context.Context, caller string, wait time.Duration) *full {
	g.mu.Lock()
	g.openLocked()
	ahead := g.aheadLocked(caller)
	if delay := g.delayLocked(ahead); delay > maxRateWait {
		defer g.mu.Unlock()
		return &full{limit: g.limit, after: delay}
	}
	begin := make(chan struct{})
	g.queueLocked(caller, begin)
	g.openLocked()
	if g.limit.Concurrency == 0 {
		wait = 2 * maxRateWait
	}
	g.mu.Unlock()

	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-begin:
		return nil
	case <-timer.C:
	case <-ctx.Done():
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.dropLocked(caller, begin) { // it began just now
		if ctx.Err() == nil {
			return nil
		}
		g.leaveLocked()
	}
	why := &full{limit: g.limit, ended: ctx.Err() != nil}
	if g.slotLocked() {
		why.after = max(time.Second, g.delayLocked(g.aheadLocked(caller)))
	}
	return why
}

// leave ends a call that began.
func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.leaveLocked()
}

func (g *gate) leaveLocked() {
	g.running--
	g.openLocked()
}

// idle says whether the gate is as good as a new one.
func (g *gate) idle() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.running == 0 && len(g.queues) == 0 && g.delayLocked(g.limit.burst()-1) == 0
}

// openLocked lets calls begin as long as the limit allows.
func (g *gate) openLocked() {
	for len(g.queues) > 0 && g.slotLocked() {
		if !g.tokens.Allow() {
			g.againLocked(g.delayLocked(0))
			return
		}
		q := g.queues[0]
		close(q.calls[0])
		g.running++
		q.calls = q.calls[1:]
		g.queues = g.queues[1:]
		if len(q.calls) > 0 {
			g.queues = append(g.queues, q)
		}
	}
}

func (g *gate) againLocked(after time.Duration) {
	after = max(after, time.Millisecond) // a token that is all but there must not keep us busy
	if g.timer != nil {
		g.timer.Reset(after)
		return
	}
	g.timer = time.AfterFunc(after, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.openLocked()
	})
}

func (g *gate) slotLocked() bool {
	return g.limit.Concurrency == 0 || g.running < g.limit.Concurrency
}

// delayLocked is the time until the rate has let as many calls begin and one more.
func (g *gate) delayLocked(ahead int) time.Duration {
	if g.limit.Rate.Calls == 0 {
		return 0
	}
	missing := float64(ahead+1) - g.tokens.Tokens()
	return max(0, time.Duration(missing/g.limit.Rate.perSecond()*float64(time.Second)))
}

func (g *gate) placeLocked(caller string) int {
	return slices.IndexFunc(g.queues, func(q *queue) bool { return q.caller == caller })
}

// aheadLocked counts the calls that would begin before a new one of the caller.
func (g *gate) aheadLocked(caller string) int {
	at, own := g.placeLocked(caller), 0
	if at < 0 {
		at = len(g.queues)
	} else {
		own = len(g.queues[at].calls)
	}
	ahead := own
	for i, q := range g.queues {
		switch {
		case i < at:
			ahead += min(len(q.calls), own+1)
		case i > at:
			ahead += min(len(q.calls), own)
		}
	}
	return ahead
}

func (g *gate) queueLocked(caller string, begin chan struct{}) {
	if at := g.placeLocked(caller); at >= 0 {
		g.queues[at].calls = append(g.queues[at].calls, begin)
		return
	}
	g.queues = append(g.queues, &queue{caller, []chan struct{}{begin}})
}

// dropLocked takes a call out of its queue, and reports whether it was there.
func (g *gate) dropLocked(caller string, begin chan struct{}) bool {
	at := g.placeLocked(caller)
	if at < 0 {
		return false
	}
	q := g.queues[at]
	i := slices.Index(q.calls, begin)
	if i < 0 {
		return false
	}
	if q.calls = slices.Delete(q.calls, i, i+1); len(q.calls) == 0 {
		g.queues = slices.Delete(g.queues, at, at+1)
	}
	return true
}
