package kind

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidwall/gjson"
)

// TestPodKilled asserts that a turn whose pod is killed goes on in the other when the client sends it again, and that
// nothing which had finished runs twice.
func TestPodKilled(t *testing.T) {
	both(t, func(t *testing.T, stream bool) {
		p := plan{Nonce: nonce(), Calls: [][]string{{"order"}, {"look"}}, MS: 4000}
		c := talk(p)
		c.stream = stream
		first := make(chan answer, 1)
		go func() { first <- c.send(context.WithoutCancel(t.Context())) }()
		eventually(t, time.Minute, "the second call runs", func() bool { return did(t, "look", p.Nonce) == 1 })
		var victim string
		for pod, active := range metric(t, "mcp_via_llm_turns_active") {
			if active > 0 {
				victim = pod
			}
		}
		if victim == "" {
			t.Fatal("no pod says that it has the turn")
		}
		if _, err := kubectl("delete", "pod", victim, "--grace-period=0", "--force"); err != nil {
			t.Fatal(err)
		}
		if a := <-first; a.done() {
			t.Fatalf("the turn ended well without its pod: %v", a)
		}
		eventually(t, 2*time.Minute, "the turn goes on", func() bool {
			a := c.send(t.Context())
			return a.done("did order " + p.Nonce + ", time 1")
		})
		if n := did(t, "order", p.Nonce); n != 1 {
			t.Errorf("an order was given %d times", n)
		}
		settled(t, 2)
	})
}

// settled waits until the service has so many ready pods, and no other.
func settled(t *testing.T, replicas int) {
	t.Helper()
	if _, err := kubectl("rollout", "status", "deployment/"+full, "--timeout=3m"); err != nil {
		t.Fatal(err)
	}
	eventually(t, 3*time.Minute, fmt.Sprintf("%d pods", replicas), func() bool { return len(pods(t)) == replicas })
}

// load sends turns all the time, until it is stopped.
type load struct {
	turns  atomic.Int64
	mu     sync.Mutex
	failed []string
	stop   context.CancelFunc
	done   sync.WaitGroup
}

// startLoad has so many clients at once, each with turns of one to two seconds: streamed or not, with one call each.
func startLoad(t *testing.T, clients int) *load {
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	l := &load{stop: stop}
	for i := range clients {
		l.done.Go(func() {
			for ctx.Err() == nil {
				p := plan{Nonce: nonce(), Calls: [][]string{{"order"}}, MS: 600, Pace: 50}
				c := talk(p)
				c.stream = i%2 == 0
				at := time.Now()
				a := c.send(context.WithoutCancel(ctx))
				l.turns.Add(1)
				if !a.done("did order " + p.Nonce + ", time 1") {
					l.mu.Lock()
					l.failed = append(l.failed, fmt.Sprintf("%s stream=%v %v", at.Format(time.TimeOnly), c.stream, a))
					l.mu.Unlock()
				}
			}
		})
	}
	t.Cleanup(func() { l.stop(); l.done.Wait() })
	return l
}

// end stops the load, and asserts that no turn has failed.
func (l *load) end(t *testing.T) {
	t.Helper()
	l.stop()
	l.done.Wait()
	t.Logf("%d turns", l.turns.Load())
	if len(l.failed) > 0 {
		t.Errorf("%d of %d turns failed:\n%s", len(l.failed), l.turns.Load(), strings.Join(l.failed[:min(10, len(l.failed))], "\n"))
	}
	if l.turns.Load() < 10 {
		t.Error("that was no load")
	}
}

// TestRollingUpgrade asserts that an upgrade to another image, of the service and so of Envoy's set-up, fails no turn.
func TestRollingUpgrade(t *testing.T) {
	l := startLoad(t, 6)
	eventually(t, time.Minute, "the load runs", func() bool { return l.turns.Load() > 6 })
	tag = "two"
	if err := upgrade(); err != nil {
		t.Fatal(err)
	}
	settled(t, 2)
	gone(t)
	l.end(t)
	out, err := kubectl("exec", "deploy/"+full, "-c", "mcp-via-llm", "--", "/mcp-via-llm", "version")
	if err != nil || !strings.HasPrefix(out, "mcp-via-llm two ") {
		t.Errorf("%v %s", err, out)
	}
}

// gone waits until no pod of the release is on its way out.
func gone(t *testing.T) {
	t.Helper()
	eventually(t, 3*time.Minute, "old pods are gone", func() bool {
		out, err := kubectl("get", "pods", "-l", "app.kubernetes.io/instance="+release, "-o", "json")
		if err != nil {
			t.Fatal(err)
		}
		return len(gjson.Get(out, "items.#.metadata.deletionTimestamp").Array()) == 0
	})
}

// TestScale asserts that new pods get turns, and that those which go fail none.
func TestScale(t *testing.T) {
	l := startLoad(t, 8)
	if err := upgrade("--set", "replicas=4"); err != nil {
		t.Fatal(err)
	}
	settled(t, 4)
	eventually(t, time.Minute, "turns on all four pods", func() bool {
		all := turns(t)
		for _, n := range all {
			if n == 0 {
				return false
			}
		}
		return len(all) == 4
	})
	if err := upgrade(); err != nil {
		t.Fatal(err)
	}
	settled(t, 2)
	gone(t)
	l.end(t)
}

// TestRedisRestart asserts that turns go on while Redis is away, and that mixed turns work again when it is back.
func TestRedisRestart(t *testing.T) {
	if _, err := kubectl("delete", "pod", full+"-redis-0", "--grace-period=1", "--wait=false"); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		if a := talk(plan{Nonce: nonce(), Calls: [][]string{{"look"}}}).must(t); !a.done("did look") {
			t.Errorf("without Redis: %v", a)
		}
	}
	if _, err := kubectl("rollout", "status", "statefulset/"+full+"-redis", "--timeout=2m"); err != nil {
		t.Fatal(err)
	}
	eventually(t, time.Minute, "a mixed turn with Redis", func() bool {
		p := plan{Nonce: nonce(), Calls: [][]string{{"order", "book_table"}}}
		c := talk(p)
		a := c.send(t.Context())
		if len(a.calls) != 1 || a.calls[0].Get("function.name").String() != "book_table" {
			return false
		}
		c.resume(a)
		return c.send(t.Context()).done("did order "+p.Nonce+", time 1", "booked")
	})
}
