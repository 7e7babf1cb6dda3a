package loop

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// Ledger is what happens in a turn: while it runs, and of its calls in the
// background also afterwards. It holds nothing of what is said.
type Ledger struct {
	mu     sync.Mutex
	report Report
	open   []*ledgerCall // that run, wait to run, or do not belong to the turn's own time

	// The turn's goroutine alone uses these.
	called  []string // injected names, in call order
	omitted []string // names of tools for which there was no room
	usage   string   // sum over segments, raw
}

// ledgerCall is a call from when it is wanted.
type ledgerCall struct {
	CallReport
	wanted, began time.Time
}

// Report tells what has happened up to now; of what still runs it has the times up
// to now. It may be called at any time, and what it returns does not change.
func (l *Ledger) Report() *Report {
	l.mu.Lock()
	defer l.mu.Unlock()
	r, now := l.report, time.Since(l.report.Start)
	if r.StopReason == "" {
		r.Duration = now
	}
	r.Segments = slices.Clone(r.Segments)
	for i := range r.Segments {
		if s := &r.Segments[i]; s.Running {
			s.Duration = now - s.Offset
		}
	}
	r.Waits = slices.Clone(r.Waits)
	for i := range r.Waits {
		if w := &r.Waits[i]; w.Running {
			w.Duration = now - w.Offset
		}
	}
	r.Calls = slices.Clone(r.Calls)
	for _, c := range l.open {
		r.Calls = append(r.Calls, c.upTo(r.Start, now))
	}
	slices.SortStableFunc(r.Calls, func(a, b CallReport) int { return cmp.Compare(a.Offset-a.Waited, b.Offset-b.Waited) })
	return &r
}

// Ended says whether the turn is over.
func (l *Ledger) Ended() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.report.StopReason != ""
}

// upTo gives the call as it is at a time after the turn's start.
func (c *ledgerCall) upTo(start time.Time, now time.Duration) CallReport {
	out := c.CallReport
	switch {
	case !c.Running:
	case c.began.IsZero():
		out.Offset, out.Waited = now, now-c.wanted.Sub(start)
	default:
		out.Duration = now - c.Offset
	}
	return out
}

// note changes the report.
func (l *Ledger) note(change func(*Report)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change(&l.report)
}

func (l *Ledger) segment(s SegmentReport) {
	l.note(func(r *Report) { r.Segments = append(r.Segments, s) })
}

// update replaces the last segment.
func (l *Ledger) update(s SegmentReport) {
	l.note(func(r *Report) { r.Segments[len(r.Segments)-1] = s })
}

// wait begins a wait, and gives what ends it.
func (l *Ledger) wait(what string) (over func()) {
	var place int
	l.note(func(r *Report) {
		place = len(r.Waits)
		r.Waits = append(r.Waits, WaitReport{For: what, Offset: time.Since(r.Start), Running: true})
	})
	return func() {
		l.note(func(r *Report) {
			w := &r.Waits[place]
			w.Duration, w.Running = time.Since(r.Start)-w.Offset, false
		})
	}
}

// call notes a call that is wanted. One in the background belongs to the segment
// that was last when it was wanted.
func (l *Ledger) call(c CallReport) *ledgerCall {
	l.mu.Lock()
	defer l.mu.Unlock()
	c.Running = true
	if c.Background {
		c.Segment = len(l.report.Segments)
	}
	entry := &ledgerCall{CallReport: c, wanted: time.Now()}
	l.open = append(l.open, entry)
	return entry
}

// began notes that a call waits no longer.
func (l *Ledger) began(c *ledgerCall) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c.began = time.Now()
	c.Offset, c.Waited = c.began.Sub(l.report.Start), c.began.Sub(c.wanted)
}

// ended notes what became of a call; background says that the turn did not wait for
// it.
func (l *Ledger) ended(c *ledgerCall, result Result, background bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c.Duration, c.Outcome, c.Bytes = time.Since(c.began), result.Outcome, len(result.Text)
	c.Running, c.Background = false, background
	if background {
		return
	}
	l.open = slices.DeleteFunc(l.open, func(other *ledgerCall) bool { return other == c })
	l.report.Calls = append(l.report.Calls, c.CallReport)
}
