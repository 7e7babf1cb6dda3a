package policy

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

func TestParseRate(t *testing.T) {
	for text, want := range map[string]Rate{"10/s": {10, time.Second}, "600/m": {600, time.Minute}, "1/h": {1, time.Hour}} {
		if got, err := ParseRate(text); err != nil || got != want || got.String() != text {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "10", "10/", "/s", "0/s", "-1/s", "1.5/s", "10/d", "10 / s", "10/s/s", "99999999999999999999/s"} {
		if _, err := ParseRate(text); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}

func perSecond(n int) Rate { return Rate{n, time.Second} }

func limitsOf(s ServerLimits) *Limits {
	l := &Limits{}
	l.Update(map[string]ServerLimits{"files": s})
	return l
}

// A burst at once, then one call for each token, then a refusal that says when.
func TestRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limitsOf(ServerLimits{Limit: Limit{Rate: perSecond(2), Burst: 3}})
		start := time.Now()
		var begun []time.Duration
		for range 5 {
			leave, refused := l.Enter(t.Context(), read, "a")
			if refused != nil {
				t.Fatal(refused)
			}
			begun = append(begun, time.Since(start).Round(10*time.Millisecond))
			leave()
		}
		if want := []time.Duration{0, 0, 0, time.Second / 2, time.Second}; !slices.Equal(begun, want) {
			t.Errorf("begun at %v, want %v", begun, want)
		}
		if leave, refused := l.Enter(t.Context(), search, "a"); refused != nil {
			t.Error("another server is limited too")
		} else {
			leave()
		}
	})
}

func TestRateRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limitsOf(ServerLimits{Limit: Limit{Rate: Rate{1, time.Minute}}})
		if _, refused := l.Enter(t.Context(), read, "a"); refused != nil {
			t.Fatal(refused)
		}
		start := time.Now()
		_, refused := l.Enter(t.Context(), read, "a")
		want := Refusal{OutcomeRateLimited, `The call was not made: the MCP server "files" may be called once per minute, and that is used up. Try again in 60 s.`, "rate of 1/m"}
		if refused == nil || *refused != want || time.Since(start) != 0 {
			t.Errorf("after %v: %+v", time.Since(start), refused)
		}
		time.Sleep(57 * time.Second) // a wait of 3 s is short enough
		if _, refused := l.Enter(t.Context(), read, "a"); refused != nil || time.Since(start).Round(time.Second) != time.Minute {
			t.Errorf("after %v: %+v", time.Since(start), refused)
		}
	})
}

func TestConcurrency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limitsOf(ServerLimits{Limit: Limit{Concurrency: 2}, Wait: time.Minute})
		start := time.Now()
		var wg sync.WaitGroup
		ends := make([]time.Duration, 6)
		for i := range ends {
			wg.Go(func() {
				leave, refused := l.Enter(t.Context(), read, "a")
				if refused != nil {
					t.Error(refused)
					return
				}
				time.Sleep(10 * time.Second)
				leave()
				ends[i] = time.Since(start)
			})
		}
		wg.Wait()
		if slices.Sort(ends); !slices.Equal(ends, []time.Duration{10e9, 10e9, 20e9, 20e9, 30e9, 30e9}) {
			t.Errorf("ended at %v", ends)
		}
	})
}

func TestConcurrencyWaitsNoLongerThanACallMayTake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limitsOf(ServerLimits{Limit: Limit{Concurrency: 1}, Wait: time.Minute})
		leave, refused := l.Enter(t.Context(), read, "a")
		if refused != nil {
			t.Fatal(refused)
		}
		start := time.Now()
		_, refused = l.Enter(t.Context(), read, "b")
		if refused == nil || refused.Outcome != OutcomeRateLimited || refused.Reason != "concurrency of 1" ||
			!strings.Contains(refused.Message, "no more than 1 at once") || time.Since(start) != time.Minute {
			t.Errorf("after %v: %+v", time.Since(start), refused)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, refused := l.Enter(ctx, read, "b"); refused == nil || refused.Outcome != OutcomeCancelled {
			t.Errorf("%+v", refused)
		}
		leave()
		if leave, refused = l.Enter(t.Context(), read, "b"); refused != nil {
			t.Errorf("those who gave up are still there: %+v", refused)
		}
		leave()
	})
}

// Each tool that a glob matches has a limit of its own, beside the server's.
func TestLimitsOfTools(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limitsOf(ServerLimits{Limit: Limit{Rate: Rate{3, time.Hour}, Burst: 3}, Tools: map[string]Limit{"w*": {Rate: Rate{1, time.Hour}}}})
		wipe := Tool{Server: "files", Original: "wipe"}
		for _, row := range []struct {
			tool Tool
			want string
		}{{write, ""}, {write, "rate of 1/h"}, {wipe, ""}, {read, ""}, {read, "rate of 3/h"}} {
			leave, refused := l.Enter(t.Context(), row.tool, "a")
			if refused == nil {
				refused = &Refusal{}
				leave()
			}
			if refused.Reason != row.want {
				t.Errorf("%s: %q, want %q", row.tool.Original, refused.Reason, row.want)
			}
			if row.want == "rate of 1/h" && !strings.Contains(refused.Message, "this tool may be called once per hour") {
				t.Error(refused.Message)
			}
		}
	})
}

// A caller with many calls delays those of another by no more than one of its own.
func TestCallersTakeTurns(t *testing.T) {
	for _, limit := range []Limit{{Rate: perSecond(1), Burst: 1}, {Concurrency: 1}} {
		synctest.Test(t, func(t *testing.T) {
			l := limitsOf(ServerLimits{Limit: limit, Wait: time.Hour})
			var mu sync.Mutex
			var order []string
			var wg sync.WaitGroup
			call := func(caller string) {
				wg.Go(func() {
					leave, refused := l.Enter(t.Context(), read, caller)
					if refused != nil {
						t.Error(caller, refused)
						return
					}
					defer leave()
					mu.Lock()
					order = append(order, caller)
					mu.Unlock()
					time.Sleep(time.Second)
				})
				synctest.Wait()
			}
			for range 4 {
				call("busy")
			}
			call("other")
			call("third")
			wg.Wait()
			if want := []string{"busy", "busy", "other", "third", "busy", "busy"}; !slices.Equal(order, want) {
				t.Errorf("%+v: %q, want %q", limit, order, want)
			}
		})
	}
}

// What is left of a limit outlives a reload, and a changed one is in force at once.
func TestLimitsOutliveConfigurations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := map[string]ServerLimits{"files": {Limit: Limit{Rate: Rate{2, time.Hour}, Burst: 2}, Tools: map[string]Limit{"r*": {Concurrency: 1}}, Wait: time.Minute}}
		l := &Limits{}
		l.Update(one)
		enter := func() (func(), *Refusal) { return l.Enter(t.Context(), read, "a") }
		leave, refused := enter()
		if refused != nil {
			t.Fatal(refused)
		}
		l.Update(map[string]ServerLimits{"files": one["files"], "web": {Limit: Limit{Concurrency: 3}}})
		if _, refused := enter(); refused == nil || refused.Reason != "concurrency of 1" {
			t.Errorf("a reload forgot the call that runs: %+v", refused)
		}
		second := make(chan func())
		go func() {
			leave, refused := enter()
			if refused != nil {
				t.Error(refused)
			}
			second <- leave
		}()
		synctest.Wait()
		changed := one["files"]
		changed.Tools = map[string]Limit{"r*": {Concurrency: 2}}
		l.Update(map[string]ServerLimits{"files": changed})
		leave2 := <-second
		leave()
		leave2()
		if _, refused := enter(); refused == nil || refused.Reason != "rate of 2/h" {
			t.Errorf("a reload forgot the calls that were: %+v", refused)
		}
		l.Update(map[string]ServerLimits{})
		for range 5 {
			if leave, refused := enter(); refused != nil {
				t.Errorf("limits that are gone: %+v", refused)
			} else {
				leave()
			}
		}
	})
}

func TestCallsThatWaitGoOnWithoutALimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limitsOf(ServerLimits{Limit: Limit{Concurrency: 1}, Wait: time.Hour})
		leave, _ := l.Enter(t.Context(), read, "a")
		begun := make(chan func())
		go func() {
			leave, refused := l.Enter(t.Context(), read, "a")
			if refused != nil {
				t.Error(refused)
			}
			begun <- leave
		}()
		synctest.Wait()
		l.Update(nil)
		(<-begun)()
		leave()
	})
}

// The server decides what its tools are called; that costs a bounded memory.
func TestGatesAreBounded(t *testing.T) {
	l := limitsOf(ServerLimits{Tools: map[string]Limit{"*": {Concurrency: 1}}})
	for i := range 3 * maxGates {
		leave, refused := l.Enter(t.Context(), Tool{Server: "files", Original: fmt.Sprint(i)}, "a")
		if refused != nil {
			t.Fatal(refused)
		}
		leave()
	}
	if n := len(l.servers["files"].gates); n > maxGates {
		t.Errorf("%d gates", n)
	}
}

// Whatever calls come and give up, no more run at once and no more begin in a time
// than the limit says, and when all are over the gate is as good as new.
func TestLimitsHold(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		limit := Limit{Concurrency: rapid.IntRange(0, 3).Draw(rt, "concurrency")}
		if rapid.Bool().Draw(rt, "has a rate") {
			limit.Rate = perSecond(rapid.IntRange(1, 5).Draw(rt, "rate"))
			limit.Burst = rapid.IntRange(0, 4).Draw(rt, "burst")
		}
		type plan struct{ after, takes, patience int }
		var plans []plan
		for range rapid.IntRange(1, 30).Draw(rt, "calls") {
			plans = append(plans, plan{rapid.IntRange(0, 3000).Draw(rt, "after"), rapid.IntRange(0, 4000).Draw(rt, "takes"), rapid.IntRange(1, 9000).Draw(rt, "patience")})
		}
		var wrong string
		synctest.Test(t, func(t *testing.T) {
			l := limitsOf(ServerLimits{Limit: limit, Wait: 3 * time.Second})
			g := func() *gate { return l.servers["files"].gates[gateKey{}] }
			var mu sync.Mutex
			var begun []time.Time
			running, most := 0, 0
			var wg sync.WaitGroup
			for i, p := range plans {
				wg.Go(func() {
					time.Sleep(time.Duration(p.after) * time.Millisecond)
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(p.patience)*time.Millisecond)
					defer cancel()
					leave, refused := l.Enter(ctx, read, fmt.Sprint(i%3))
					if refused != nil {
						return
					}
					mu.Lock()
					begun = append(begun, time.Now())
					running++
					most = max(most, running)
					mu.Unlock()
					time.Sleep(time.Duration(p.takes) * time.Millisecond)
					mu.Lock()
					running--
					mu.Unlock()
					leave()
				})
			}
			wg.Wait()
			if limit.Concurrency > 0 && most > limit.Concurrency {
				wrong = fmt.Sprintf("%d ran at once under %+v", most, limit)
			}
			for i := range begun {
				for j := i; j < len(begun) && limit.Rate.Calls > 0; j++ {
					allowed := float64(limit.burst()) + begun[j].Sub(begun[i]).Seconds()*limit.Rate.perSecond()
					if float64(j-i+1) > allowed+0.01 {
						wrong = fmt.Sprintf("%d began within %v under %+v", j-i+1, begun[j].Sub(begun[i]), limit)
					}
				}
			}
			if limit != (Limit{}) {
				time.Sleep(time.Hour)
				if !g().idle() {
					wrong = fmt.Sprintf("not idle at the end: %+v", g())
				}
			}
		})
		if wrong != "" {
			rt.Fatal(wrong)
		}
	})
}
