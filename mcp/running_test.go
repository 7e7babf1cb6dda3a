package mcp

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// every does something again and again while a call runs.
func every(d time.Duration, times int, do func(*running)) func(*running) {
	return func(run *running) {
		for range times {
			time.Sleep(d)
			if run.ctx.Err() != nil {
				return
			}
			do(run)
		}
	}
}

func progress(run *running) { run.moved("", 1, 0) }

var clockRows = map[string]struct {
	limit   time.Duration // of the caller
	during  func(*running)
	after   time.Duration
	says    string
	outcome string
}{
	"silence":             {0, func(*running) {}, time.Minute, "showed no progress for 1m0s (tool_timeout)", OutcomeTimeout},
	"progress, then none": {0, every(20*time.Second, 10, progress), 200*time.Second + time.Minute, "showed no progress for 1m0s", OutcomeTimeout},
	"progress for ever":   {0, every(20*time.Second, 1000, progress), 10 * time.Minute, "still ran after 10m0s, the longest that a call may take (tool_timeout_max)", OutcomeTimeout},
	"the caller's time":   {30 * time.Second, func(*running) {}, 30 * time.Second, "the time of the whole request was over", OutcomeTimeout},
	"a question": {0, func(run *running) {
		release := run.clock.hold()
		time.Sleep(time.Hour)
		release()
		release() // twice does no harm
	}, time.Hour + time.Minute, "no progress", OutcomeTimeout},
	"questions and progress for ever": {0, every(30*time.Second, 1000, func(run *running) {
		defer run.clock.hold()()
		time.Sleep(30 * time.Second)
		run.moved("", 1, 1)
	}), 20*time.Minute - 30*time.Second, "10m0s", OutcomeTimeout},
	"two questions at once": {0, func(run *running) {
		first, second := run.clock.hold(), run.clock.hold()
		time.Sleep(time.Hour)
		first()
		time.Sleep(time.Hour)
		second()
	}, 2*time.Hour + time.Minute, "no progress", OutcomeTimeout},
}

// The time without progress, the time of the whole call and the caller's own are
// three limits, and the model is told which one ended the call.
func TestClock(t *testing.T) {
	for name, test := range clockRows {
		synctest.Test(t, func(t *testing.T) {
			cfg := Server{Name: "a"}.withDefaults()
			c := &conn{cfg: &cfg, log: slog.New(slog.DiscardHandler)}
			ctx, cancel := context.WithCancel(t.Context())
			if test.limit > 0 {
				ctx, cancel = context.WithTimeout(t.Context(), test.limit)
			}
			defer cancel()
			begin := time.Now()
			run := c.begin(ctx, &request{as: "a__dig", name: "dig"})
			var group sync.WaitGroup
			group.Go(func() { test.during(run) })
			<-run.ctx.Done()
			took := time.Since(begin)
			var told *callError
			if !errors.As(c.describe(run, run.ctx.Err()), &told) || told.outcome != test.outcome || !strings.Contains(told.message, test.says) {
				t.Errorf("%s: %+v", name, told)
			}
			if took != test.after {
				t.Errorf("%s: ended after %v, want %v", name, took, test.after)
			}
			run.end()
			group.Wait()
		})
	}
}

// What is told of progress comes in order, with the server's own words, and never
// after the end.
func TestProgressIsPassedOn(t *testing.T) {
	cfg := Server{Name: "a"}.withDefaults()
	c := &conn{cfg: &cfg, log: slog.New(slog.DiscardHandler)}
	var told []string
	ctx := WithProgress(t.Context(), func(server, tool, message string, progress, total float64) {
		told = append(told, server+" "+tool+" "+message)
		if len(message) > maxErrorText || progress != 3 || total != 10 {
			t.Errorf("%q %v %v", message, progress, total)
		}
	})
	run := c.begin(ctx, &request{as: "a__dig", name: "dig"})
	run.moved("digging", 3, 10)
	run.moved(strings.Repeat("x", 10000), 3, 10)
	run.end()
	run.moved("late", 3, 10)
	if len(told) != 2 || told[0] != "a dig digging" {
		t.Errorf("%q", told)
	}
}
