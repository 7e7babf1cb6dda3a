package mcp

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

const (
	// What one session may write to the log: so many lines a second in the long
	// run, and so many at once.
	logRate  = 5
	logBurst = 50
	// The same of a process for its stderr, where programs print their stacks. A line
	// counts once more for each KiB.
	stderrRate  = 10
	stderrBurst = 200
	// tellAfter is when the log says how many lines were left out meanwhile.
	tellAfter = time.Second
)

// throttle bounds the lines that a server may write to the log.
type throttle struct {
	limit *rate.Limiter
	tell  func(left int) // logs how many lines were left out

	mu    sync.Mutex
	left  int
	timer *time.Timer // while some are left out and it is not told
	over  bool
}

func newThrottle(perSecond rate.Limit, burst int, tell func(left int)) *throttle {
	return &throttle{limit: rate.NewLimiter(perSecond, burst), tell: tell}
}

// allow reports whether there is room for so many lines.
func (t *throttle) allow(lines int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.limit.AllowN(time.Now(), lines) {
		return true
	}
	t.left++
	if t.timer == nil && !t.over {
		t.timer = time.AfterFunc(tellAfter, func() {
			t.mu.Lock()
			defer t.mu.Unlock()
			if !t.over {
				t.report()
			}
		})
	}
	return false
}

// end tells what was not told yet; nothing is told after it.
func (t *throttle) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.timer != nil {
		t.timer.Stop()
		t.report()
	}
	t.over = true
}

func (t *throttle) report() {
	t.tell(t.left)
	t.left, t.timer = 0, nil
}
