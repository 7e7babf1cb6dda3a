package sessions_test

import (
	"strings"
	"sync"
	"testing"
	"time"
)

// question is the tag at the end of a question to the user.
const question = "(question "

// TestApprovalOnAnyReplica asserts that the user's yes counts once, however often it is sent and to whatever replica,
// that a replica that dies in the midst of the approved call leaves it at that, and that nothing runs before the yes.
func TestApprovalOnAnyReplica(t *testing.T) {
	both(t, func(t *testing.T, stream bool) {
		w := start(t, setup{client: "approve: [shop__order], keepalive: 1s"})
		c := w.talk(plan{Nonce: "n1x", Kind: "mixed", Order: 1500}, stream)
		if a := c.must(t); len(a.calls) != 1 || a.extension.Get("mcp_tools_called").Raw != `["shop__look"]` {
			t.Errorf("the client got %v", a)
		}
		a := c.must(t) // brings the result of the client's call
		if !strings.Contains(a.text, "1. `shop__order`") || !strings.Contains(a.text, question) || a.finish != "stop" || a.extension.Get("stop_reason").String() != "approval" {
			t.Errorf("the client got %v", a)
		}
		if n := w.shop.count(w.shop.ran, "order n1x"); n != 0 {
			t.Fatalf("%d orders before the answer", n)
		}
		c.messages = append(c.messages, message("user", "Yes."))
		answers := make([]answer, 8)
		var wg sync.WaitGroup
		for i := range answers {
			copied := *c
			wg.Go(func() {
				time.Sleep(time.Duration(i%4) * 200 * time.Millisecond)
				answers[i] = copied.send(t.Context())
			})
		}
		wg.Wait()
		for _, a := range answers {
			if !a.complete() || a.text != "done n1x" {
				t.Errorf("an answer to yes: %v", a)
			}
		}
		if n := w.shop.count(w.shop.ran, "order n1x"); n != 1 {
			t.Errorf("%d orders ran", n)
		}
		history := []string{strings.Replace(told, `"ms":-1`, `"ms":1500`, 1), "toolc1:did order n1x, time 1", "toolc2:booked n1x", "toolc3:did look n1x, time 1"}
		c.take(answers[0])
		c.want(t, history...)
		c.messages = append(c.messages, message("user", "Thanks."))
		c.must(t)
		c.want(t, append(history, "assistant:done n1x", "user:Thanks.")...)
	})
}

// TestApprovedCallOfADeadReplica asserts that an approved call whose replica is killed does not run again.
func TestApprovedCallOfADeadReplica(t *testing.T) {
	t.Parallel()
	w := start(t, setup{client: "approve: [shop__order], keepalive: 1s"})
	c := w.talk(plan{Nonce: "n1x", Kind: "order", Order: -1}, true)
	if a := c.must(t); !strings.Contains(a.text, question) {
		t.Fatalf("the client got %v", a)
	}
	c.messages = append(c.messages, message("user", "yes"))
	broken := make(chan answer, 1)
	go func() { broken <- c.send(t.Context()) }()
	eventually(t, requestLimit, "the order runs", func() bool { return w.shop.count(w.shop.ran, "order n1x") == 1 })
	runs := 0
	if w.metric(t, 1, `mcp_via_llm_session_events_total{event="approved"`) == "1" {
		runs = 1
	}
	w.Replicas[runs].Process.Kill()
	if a := <-broken; a.complete() {
		t.Errorf("the broken turn got %v", a)
	}
	a := c.insist(t, nil)
	if told := w.model.of(c).results["0 c1"]; a.text != "done n1x" || !strings.Contains(told, "unknown") {
		t.Errorf("%v, and the model was told %q", a, told)
	}
	if n := w.shop.count(w.shop.ran, "order n1x"); n != 1 {
		t.Errorf("%d orders ran", n)
	}
}
