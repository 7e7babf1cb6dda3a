package sessions_test

import (
	"slices"
	"testing"
	"time"

	"github.com/mcp-via-llm/mcp-via-llm/sessions/redisrig"
)

// persistent is a Redis that keeps its data when it is killed and started again.
var persistent = []string{"appendonly yes"}

// TestRedisAway asserts that without Redis, hanging or gone, a plain turn goes on at once and one that brings results
// is refused, and that all is as before when it is back.
func TestRedisAway(t *testing.T) {
	for name, away := range map[string]struct{ leave, back func(*redisrig.Server) }{
		"hangs": {(*redisrig.Server).Pause, (*redisrig.Server).Resume},
		"gone":  {(*redisrig.Server).Kill, (*redisrig.Server).Restart},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := start(t, setup{redis: persistent})
			c := w.talk(plan{Nonce: "n1x", Kind: "mixed"}, false)
			c.must(t)
			eventually(t, requestLimit, "the calls end", func() bool { return w.shop.count(w.shop.finished, "look n1x") == 1 })
			usual := w.plainTurns(t, 6)
			away.leave(w.redis)
			lost := w.plainTurns(t, 12)
			// Each replica finds out once. The rest is for a busy machine: the median must not notice.
			if extra := slices.Max(lost) - slices.Max(usual); extra > 250*time.Millisecond+500*time.Millisecond {
				t.Errorf("a plain turn took %v longer", extra)
			}
			slices.Sort(lost)
			slices.Sort(usual)
			if extra := lost[len(lost)/2] - usual[len(usual)/2]; extra > 100*time.Millisecond {
				t.Errorf("half of the plain turns took %v longer", extra)
			}
			a := c.send(t.Context())
			if a.outcome() != outcomeStoreAway || a.status != 503 || w.model.of(c).requests != 1 {
				t.Errorf("a resume got %v", a)
			}
			mixed := w.talk(plan{Nonce: "n2x", Kind: "mixed"}, true)
			if a := mixed.must(t); a.extension.Get("mcp_tools_called").Raw != "[]" || w.shop.count(w.shop.ran, "order n2x") != 0 {
				t.Errorf("a call was started whose result nobody would find: %v", a)
			}
			away.back(w.redis)
			if a := c.insist(t, nil); a.text != "done n1x" {
				t.Errorf("%v", a)
			}
			c.want(t, `assistant:Let me see.(c1 shop__order {"nonce":"n1x"})(c2 book_table {"nonce":"n1x"})(c3 shop__look {"nonce":"n1x"})`,
				"toolc1:did order n1x, time 1", "toolc2:booked n1x", "toolc3:did look n1x, time 1")
			if a := mixed.insist(t, nil); a.text != "done n2x" || !w.model.of(mixed).degraded {
				t.Errorf("%v", a)
			}
		})
	}
}

// plainTurns has turns with a call of their own, each a new conversation, and gives what each took.
func (w *world) plainTurns(t *testing.T, n int) (took []time.Duration) {
	t.Helper()
	for i := range n {
		c := w.talk(plan{Nonce: "n9x", Kind: "order"}, i%2 == 0)
		begin := time.Now()
		if a := c.must(t); a.text != "Let me see.\n\ndone n9x" {
			t.Errorf("%v", a)
		}
		took = append(took, time.Since(begin))
	}
	return took
}

// TestDegrade asserts that with store.on_error: degrade a turn that brings results goes on with what the client sent.
func TestDegrade(t *testing.T) {
	t.Parallel()
	w := start(t, setup{store: ", on_error: degrade"})
	c := w.talk(plan{Nonce: "n1x", Kind: "mixed"}, false)
	c.must(t)
	w.redis.Kill()
	if a := c.must(t); a.text != "done n1x" || !w.model.of(c).degraded {
		t.Errorf("%v", a)
	}
}

// TestShouldRetry asserts that an SDK is told not to send a turn again only if a call may have changed something and
// there is no journal of it.
func TestShouldRetry(t *testing.T) {
	t.Parallel()
	w := start(t, setup{})
	try := func(nonce, want string) {
		t.Helper()
		c := w.talk(plan{Nonce: nonce, Kind: "order"}, false)
		w.model.fail(nonce, 1)
		a := c.send(t.Context())
		if got := a.header.Get("X-Should-Retry"); a.status != 500 || got != want {
			t.Errorf("x-should-retry is %q, want %q, of %v", got, want, a)
		}
	}
	try("n1x", "")
	w.redis.Kill()
	try("n2x", "false")
	try("n3x", "false")
	w.redis.Restart()
	eventually(t, requestLimit, "there is a journal again", func() bool {
		c := w.talk(plan{Nonce: "n4x", Kind: "order"}, false)
		w.model.fail("n4x", 1)
		return c.send(t.Context()).header.Get("X-Should-Retry") == ""
	})
}
