package loop

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// follow keeps the ledgers of a rig's turns, and counts those that are over.
func follow(g *rig, over *int) (ledgers func() []*Ledger) {
	var all []*Ledger
	g.options.OnStart = func(l *Ledger) func() {
		all = append(all, l)
		return func() { *over++ }
	}
	return func() []*Ledger { return all }
}

// drawn is a report in one line: what there is, from when, for how long, in seconds.
func drawn(r *Report) string {
	var out []string
	state := func(running bool) string { return map[bool]string{true: "…"}[running] }
	for _, s := range r.Segments {
		out = append(out, fmt.Sprintf("segment %v+%v%s", s.Offset.Seconds(), s.Duration.Seconds(), state(s.Running)))
	}
	for _, c := range r.Calls {
		kind := map[bool]string{true: "background", false: "call"}[c.Background]
		out = append(out, fmt.Sprintf("%s %s/%d %v+%v%s %s", kind, strings.TrimPrefix(c.Name, "mcp_"), c.Segment, c.Offset.Seconds()-c.Waited.Seconds(), c.Waited.Seconds(), state(c.Running && c.Duration == 0), c.Outcome))
		if c.Duration > 0 {
			out = append(out, fmt.Sprintf("ran %v%s", c.Duration.Seconds(), state(c.Running)))
		}
	}
	for _, w := range r.Waits {
		out = append(out, fmt.Sprintf("wait %s %v+%v%s", w.For, w.Offset.Seconds(), w.Duration.Seconds(), state(w.Running)))
	}
	return fmt.Sprintf("%v %s %s", r.Duration.Seconds(), r.StopReason, strings.Join(out, ", "))
}

// after gives an answer that takes some time.
func after(d time.Duration, then answerFunc) answerFunc {
	return func(r *http.Request) (*http.Response, error) {
		time.Sleep(d)
		return then(r)
	}
}

// What runs is in the report from when it begins, with its times up to now.
func TestLedgerWhileATurnRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(after(2*time.Second, whole(calls("mcp_fs__read", "{}", "mcp_wx__now", "{}"))), whole(says("Done.")))
		g.client.MaxParallelCalls = 1
		g.tools.run = slowTools(10 * time.Second)
		over := 0
		ledgers := follow(g, &over)
		go g.post(chatOf(asks))
		var before []byte
		for _, at := range []struct {
			after time.Duration
			want  []string // parts of it
		}{
			{time.Second, []string{"1  segment 0+1…"}},
			{4 * time.Second, []string{"5  segment 0+2, ", "call fs__read/1 2+0 , ran 3…", "call wx__now/1 2+3… "}},
			{10 * time.Second, []string{"15  segment 0+2, ", "/1 2+0 ok, ran 10", "/1 2+10 , ran 3…"}},
			{10 * time.Second, []string{"22 answer segment 0+2, segment 22+0, call ", "/1 2+0 ok, ran 10, call ", "/1 2+10 ok, ran 10"}},
		} {
			time.Sleep(at.after)
			synctest.Wait()
			report := ledgers()[0].Report()
			got := drawn(report)
			swapped := strings.NewReplacer("fs__read", "wx__now", "wx__now", "fs__read").Replace(got) // either call may come first
			for _, part := range at.want {
				if !strings.Contains(got, part) && !strings.Contains(swapped, part) {
					t.Errorf("got  %s\nwant %s", got, part)
				}
			}
			now, err := json.Marshal(report)
			if err != nil || string(now) == string(before) {
				t.Errorf("%v %s", err, now)
			}
			before = now
		}
		if over != 1 || ledgers()[0].Report().Calls[0].Bytes == 0 {
			t.Errorf("%d turns are over", over)
		}
	})
}

// Calls in the background are told of after their turn has ended, and the turn
// that waits for them tells of that.
func TestLedgerOfTheBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rigs, _, _ := replicas(t, 1)
		g := rigs[0]
		over := 0
		ledgers := follow(g, &over)
		g.tools.run = slowTools(20 * time.Second)
		g.answer(whole(mixedCalls()), whole(says("Done.")))
		g.post(chatOf(asks))
		time.Sleep(5 * time.Second)
		if got := drawn(ledgers()[0].Report()); !strings.Contains(got, "0 client_tool_calls segment 0+0, background ") || strings.Count(got, "/1 0+0 , ran 5…") != 2 {
			t.Error(got)
		}
		g.post(chatOf(asks, booking, booked))
		if got := drawn(ledgers()[0].Report()); strings.Count(got, "/1 0+0 ok, ran 20") != 2 || strings.Contains(got, "…") {
			t.Error(got)
		}
		if got := drawn(ledgers()[1].Report()); got != "15 answer segment 15+0, wait background_calls 0+15" {
			t.Error(got)
		}
		if len(g.reports[0].Calls) != 0 || g.reports[0].Background != 2 || over != 2 {
			t.Errorf("%+v, %d turns are over", g.reports[0], over)
		}
	})
}
