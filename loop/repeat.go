package loop

import (
	"sync"
	"time"
)

// repeat calls f after d, and again whenever the time has passed that f returns,
// until that is 0. Between calls there is no goroutine: thousands of turns wait at
// once, and each would hold a stack. stop waits for a call that runs; f must not
// call it.
func repeat(d time.Duration, f func() time.Duration) (stop func()) {
	var mu sync.Mutex
	var timer *time.Timer
	stopped := false
	mu.Lock()
	defer mu.Unlock()
	timer = time.AfterFunc(d, func() {
		mu.Lock()
		defer mu.Unlock()
		if stopped {
			return
		}
		if next := f(); next > 0 {
			timer.Reset(next)
		}
	})
	return func() {
		mu.Lock()
		defer mu.Unlock()
		stopped = true
		timer.Stop()
	}
}
