package sessions_test

import (
	"context"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestSDKRetry asserts that the official SDK's own retry after an error goes on where the turn broke.
func TestSDKRetry(t *testing.T) {
	t.Parallel()
	w := start(t, setup{})
	w.model.fail("n1x", 1)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute) // an SDK takes seconds to load on busy cores
	defer cancel()
	question := w.talk(plan{Nonce: "n1x", Kind: "order"}, false).messages[0].(map[string]any)["content"].(string)
	out, err := exec.CommandContext(ctx, tools.Python(), "testdata/retry.py", w.URL+"/v1", "alice", "sdk", question).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if got, want := strings.TrimSpace(string(out)), `{"text": "Let me see.\n\ndone n1x", "called": ["shop__order"]}`; got != want {
		t.Errorf("the application sees %s, want %s", got, want)
	}
	if n := w.shop.count(w.shop.ran, "order n1x"); n != 1 {
		t.Errorf("%d orders", n)
	}
	if s := w.model.of(&conversation{id: "sdk"}); s.requests != 3 {
		t.Errorf("the model was asked %d times, want a question, a failure and an answer", s.requests)
	}
}

// TestReplicaKilled asserts that a turn whose replica is killed goes on when the same request comes again: what had
// finished does not run again, and of what was running the model is told that nobody knows.
func TestReplicaKilled(t *testing.T) {
	for name, finished := range map[string]bool{"after a call": true, "within a call": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := start(t, setup{})
			p := plan{Nonce: "n1x", Kind: "order"}
			if !finished {
				p.Order = -1
			}
			c := w.talk(p, false)
			release := w.model.hold("n1x", 1)
			defer release()
			broken := make(chan answer, 1)
			go func() { broken <- c.send(t.Context()) }()
			eventually(t, requestLimit, "the turn is there", func() bool {
				return w.shop.count(w.shop.ran, "order n1x") == 1 && (!finished || w.model.of(c).requests == 2)
			})
			w.Replicas[w.busy(t)].Process.Kill()
			if a := <-broken; a.outcome() != outcomeGone {
				t.Errorf("the broken turn got %v", a)
			}
			release()
			a := c.insist(t, nil)
			told := w.model.of(c).results["0 c1"]
			if a.text != "Let me see.\n\ndone n1x" || finished != (told == "did order n1x, time 1") || !finished && !strings.Contains(told, "unknown") {
				t.Errorf("%v, and the model was told %q", a, told)
			}
			if n := w.shop.count(w.shop.ran, "order n1x"); n != 1 {
				t.Errorf("%d orders", n)
			}
		})
	}
}

// TestMixedReplicaKilled asserts the same of a mixed turn whose answer the client never had whole.
func TestMixedReplicaKilled(t *testing.T) {
	t.Parallel()
	w := start(t, setup{})
	c := w.talk(plan{Nonce: "n1x", Kind: "mixed", Order: -1}, false)
	a := c.send(t.Context())
	if !a.complete() {
		t.Fatal(a)
	}
	eventually(t, requestLimit, "the order runs", func() bool { return w.shop.count(w.shop.ran, "order n1x") == 1 })
	w.Replicas[w.owner(t)].Process.Kill()
	c.take(a)
	a = c.insist(t, nil)
	told := w.model.of(c).results
	if a.text != "done n1x" || !strings.Contains(told["0 c1"], "unknown") || !strings.HasPrefix(told["0 c3"], "did look n1x") {
		t.Errorf("%v, and the model was told %v", a, told)
	}
	if n := w.shop.count(w.shop.ran, "order n1x"); n != 1 {
		t.Errorf("%d orders", n)
	}
}

// TestResumedTwiceAtOnce asserts that of two resumes on two replicas one takes over the calls of a replica that was
// killed, and that both see what became of them.
func TestResumedTwiceAtOnce(t *testing.T) {
	t.Parallel()
	w := start(t, setup{})
	c := w.talk(plan{Nonce: "n1x", Kind: "mixed", Order: -1, Look: -1}, false)
	c.must(t)
	eventually(t, requestLimit, "the calls run", func() bool {
		return w.shop.count(w.shop.ran, "order n1x") == 1 && w.shop.count(w.shop.ran, "look n1x") == 1
	})
	owner := w.owner(t)
	w.Replicas[owner].Process.Kill()
	w.revive(t, owner)
	eventually(t, requestLimit, "the killed replica's calls are over", func() bool { return w.shop.count(w.shop.cancelled, "look n1x") == 1 })
	w.shop.open("n1x")
	twin := *c
	twin.messages = slices.Clone(c.messages)
	answers := make(chan answer, 2)
	go func() { answers <- c.insist(t, nil) }()
	go func() { answers <- twin.insist(t, nil) }()
	for range 2 {
		if a := <-answers; a.text != "done n1x" {
			t.Errorf("%v", a)
		}
	}
	told := w.model.of(c).results // the model reports what it is told in two ways
	if !strings.Contains(told["0 c1"], "unknown") || told["0 c3"] != "did look n1x, time 2" {
		t.Errorf("the model was told %v", told)
	}
	if orders, looks := w.shop.count(w.shop.ran, "order n1x"), w.shop.count(w.shop.ran, "look n1x"); orders != 1 || looks != 2 {
		t.Errorf("%d orders and %d looks", orders, looks)
	}
}
