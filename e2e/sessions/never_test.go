package sessions_test

import (
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestNeverResumed asserts that calls which nobody comes back for are cancelled at the MCP server when the session
// expires, and that a resume after that goes on, with the model knowing.
func TestNeverResumed(t *testing.T) {
	t.Parallel()
	w := start(t, setup{client: "session_ttl: 3s"})
	c := w.talk(plan{Nonce: "n1x", Kind: "mixed", Order: -1, Look: -1}, false) // a result would let the record live longer
	c.must(t)
	eventually(t, requestLimit, "the call is cancelled", func() bool { return w.shop.count(w.shop.cancelled, "order n1x") == 1 })
	if a := c.must(t); a.text != "done n1x" {
		t.Errorf("%v", a)
	}
	s := w.model.of(c)
	if got := s.results["0 c1"]; !strings.Contains(got, "expired") || s.degraded || w.shop.count(w.shop.ran, "order n1x") != 1 {
		t.Errorf("the model was told %q", got)
	}
}

// sessions runs the command of an operator and gives what it prints.
func (w *world) sessions(t *testing.T, what, client string) string {
	t.Helper()
	out, err := exec.Command(service, "sessions", what, "--config", w.ConfigFile, "--client", client).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return strings.TrimSpace(string(out))
}

// TestErase asserts that an operator can count and erase what is kept of a client, and that its running calls end.
func TestErase(t *testing.T) {
	t.Parallel()
	w := start(t, setup{})
	c := w.talk(plan{Nonce: "n1x", Kind: "mixed", Order: -1}, false)
	c.must(t)
	mine := w.turns(t, w.owner(t))[0]
	client := mine.Client + "/" + mine.Identity
	other := w.talk(plan{Nonce: "n2x", Kind: "mixed"}, false)
	other.who = "bob"
	other.must(t)
	if out := w.sessions(t, "count", client); strings.Contains(out, ": 0 keys") || !strings.HasSuffix(out, "keys kept") {
		t.Error(out)
	}
	if out := w.sessions(t, "delete", client); strings.Contains(out, ": 0 keys") || !strings.HasSuffix(out, "keys deleted") {
		t.Error(out)
	}
	eventually(t, requestLimit, "the call is cancelled", func() bool { return w.shop.count(w.shop.cancelled, "order n1x") == 1 })
	eventually(t, requestLimit, "nothing is left", func() bool { return strings.HasSuffix(w.sessions(t, "count", client), ": 0 keys kept") })
	if a := c.must(t); a.text != "done n1x" || !w.model.of(c).degraded {
		t.Errorf("%v after the history was erased", a)
	}
	if a := other.must(t); a.text != "done n2x" || w.model.of(other).degraded {
		t.Errorf("another client's history was erased: %v", a)
	}
}

// TestDrain asserts what becomes of hidden calls whose replica is told to end: one that ends in time has its result,
// of another the model is told that nobody knows. Neither runs again.
func TestDrain(t *testing.T) {
	for name, finishes := range map[string]bool{"finishes": true, "does not": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := start(t, setup{})
			c := w.talk(plan{Nonce: "n1x", Kind: "mixed", Order: -1}, false)
			c.must(t)
			eventually(t, requestLimit, "the call runs", func() bool { return w.shop.count(w.shop.ran, "order n1x") == 1 })
			owner := w.Replicas[w.owner(t)].Process
			if err := owner.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			resumed := make(chan answer, 1)
			go func() { resumed <- c.insist(t, nil) }()
			if finishes {
				time.Sleep(500 * time.Millisecond) // so that the replica is at its end
				w.shop.open("n1x")
			}
			a := <-resumed
			s := w.model.of(c)
			want := "outcome of this call is unknown"
			if finishes {
				want = "did order n1x, time 1"
			}
			if a.text != "done n1x" || s.degraded || !strings.Contains(s.results["0 c1"], want) || s.results["0 c3"] != "did look n1x, time 1" {
				t.Errorf("%v; the model was told %v", a, s.results)
			}
			if n := w.shop.count(w.shop.ran, "order n1x"); n != 1 {
				t.Errorf("%d orders", n)
			}
			select {
			case <-owner.Done():
				if code := owner.ExitCode(); code != 0 {
					t.Errorf("exit code %d", code)
				}
			case <-time.After(requestLimit):
				t.Error("the service did not end")
			}
		})
	}
}
