package loop

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mcp-via-llm/mcp-via-llm/sessions"
)

// However often and wherever the same yes arrives, the call runs once.
func TestApprovedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rigs, _, _ := asking(t, 3)
		a := &app{}
		a.answers(rigs[0], calls("mcp_mail__send", "{}"))
		a.send(rigs[0], asks)
		a.messages = append(a.messages, user("yes"))
		for _, g := range rigs {
			g.tools.run = slowTools(20 * time.Second)
		}
		var wg sync.WaitGroup
		for i := range 12 {
			g := rigs[i%3]
			a.answers(g, says("Sent."))
			wg.Go(func() {
				time.Sleep(time.Duration(i) * 3 * time.Second)
				if s := a.again(g); s.text != "Sent." {
					t.Errorf("%s", s.body)
				}
			})
		}
		wg.Wait()
		if got := madeBy(rigs...); !slices.Equal(got, []string{"mcp_mail__send"}) {
			t.Errorf("ran %v", got)
		}
		for _, g := range rigs {
			if got := g.history(); got != "user:Weather?|assistant:(c1 mcp_mail__send)|toolc1:result of mcp_mail__send" {
				t.Errorf("the model saw %s", got)
			}
		}
	})
}

// The replica that runs an approved call dies: nobody knows what became of it,
// unless it may run again.
func TestApprovedCallTakenOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rigs, ways, _ := asking(t, 2)
		for _, g := range rigs {
			g.tools.approve = append(g.tools.approve, "mcp_clock__now")
		}
		a := &app{}
		a.answers(rigs[0], calls("mcp_mail__send", "{}", "mcp_clock__now", "{}"))
		a.send(rigs[0], asks)
		a.messages = append(a.messages, user("yes"))
		rigs[0].tools.run = slowTools(time.Hour)
		ctx, cancel := context.WithCancel(t.Context())
		b := a.branch(3)
		b.edit = append(b.edit, func(r *http.Request) { *r = *r.WithContext(ctx) })
		var wg sync.WaitGroup
		wg.Go(func() { b.again(rigs[0]) })
		time.Sleep(time.Second)
		ways[0].away.Store(true) // to the other it is as good as dead
		a.answers(rigs[1], says("Done."))
		a.send(rigs[1])
		if got := rigs[1].history(); got != "user:Weather?|assistant:(c1 mcp_mail__send)(c2 mcp_clock__now)|toolc1:"+noticeUnknown+"|toolc2:result of mcp_clock__now" {
			t.Errorf("the model saw %s", got)
		}
		if got := madeBy(rigs[1]); !slices.Equal(got, []string{"mcp_clock__now"}) {
			t.Errorf("ran again: %v", got)
		}
		cancel()
		wg.Wait()
	})
}

// An approved call ends with the client that waits for it, as every call does.
func TestApprovedCallIsCancelled(t *testing.T) {
	each(t, func(t *testing.T, a *app) {
		rigs, _, _ := asking(t, 1)
		g := rigs[0]
		a.answers(g, calls("mcp_mail__send", "{}"), says("Done."))
		a.send(g, asks)
		cancelled := make(chan struct{})
		g.tools.run = func(ctx context.Context, _, _ string) Result {
			<-ctx.Done()
			close(cancelled)
			return Result{Outcome: "cancelled"}
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		a.messages = append(a.messages, user("yes"))
		b := a.branch(3)
		b.edit = append(b.edit, func(r *http.Request) { *r = *r.WithContext(ctx) })
		b.again(g)
		<-cancelled
		a.send(g)
		if got := g.history(); got != "user:Weather?|assistant:(c1 mcp_mail__send)|toolc1:"+noticeUnknown {
			t.Errorf("the model saw %s", got)
		}
	})
}

// A turn that breaks while it asks: the same request brings the same question, and
// what ran beside it does not run again.
func TestQuestionAfterABreak(t *testing.T) {
	each(t, func(t *testing.T, a *app) {
		rigs, _, _ := asking(t, 2)
		first := calls("mcp_wx__now", "{}")
		a.answers(rigs[0], first, calls("mcp_mail__send", "{}", "mcp_fs__read", "{}"))
		a.messages = []string{asks}
		lost := a.lose(t, rigs[0], "May I")
		a.answers(rigs[1], says("Sent."))
		q := a.send(rigs[1])
		if q.stop != StopApproval || q.text == "" || !strings.Contains(lost, q.text[len(q.text)-14:len(q.text)-2]) || rigs[1].model.count() != 0 || q.iterations != 2 {
			t.Errorf("again: %s\nafter %s", q.body, lost)
		}
		a.send(rigs[1], user("yes"))
		if got := rigs[1].history(); got != "user:Weather?|assistant:(c1 mcp_wx__now)|toolc1:result of mcp_wx__now|assistant:(c1 mcp_mail__send)(c2 mcp_fs__read)|toolc1:result of mcp_mail__send|toolc2:result of mcp_fs__read" {
			t.Errorf("the model saw %s", got)
		}
		if diff := cmp.Diff([]string{"mcp_fs__read", "mcp_mail__send", "mcp_wx__now"}, madeBy(rigs...)); diff != "" {
			t.Errorf("ran (-want +got):\n%s", diff)
		}
	})
}

// A question that cannot be kept is not put: the turn goes on without the call.
func TestQuestionThatCannotBeKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rigs, ways, _ := asking(t, 2)
		ways[0].onPut = func(key string) bool { return strings.HasPrefix(key, "t:") } // from here on
		a := &app{messages: []string{asks}}
		a.answers(rigs[0], calls("mcp_mail__send", "{}", "mcp_fs__read", "{}"), says("Not now."))
		s := a.again(rigs[0])
		if s.text != "Not now." || s.stop != StopAnswer || s.called != `["mcp_fs__read"]` || !slices.Equal(rigs[0].tools.declined, []string{"mcp_mail__send " + DeclinedUnaskable}) {
			t.Errorf("%s, declined %q", s.body, rigs[0].tools.declined)
		}
		if got := rigs[0].history(); got != "user:Weather?|assistant:(c1 mcp_mail__send)(c2 mcp_fs__read)|toolc1:"+noticeUnaskable+"|toolc2:result of mcp_fs__read" {
			t.Errorf("the model saw %s", got)
		}
	})
}

// Without the store nobody can be asked, and no answer can be taken.
func TestApprovalWithoutTheStore(t *testing.T) {
	rigs, ways, _ := asking(t, 1)
	g, a := rigs[0], &app{}
	a.answers(g, calls("mcp_mail__send", "{}"), says("Cannot ask."))
	ways[0].away.Store(true)
	if s := a.send(g, asks); s.text != "Cannot ask." || len(g.tools.made()) != 0 {
		t.Errorf("%s", s.body)
	}
	ways[0].away.Store(false)
	b := &app{}
	b.answers(g, calls("mcp_mail__send", "{}"), says("Sent."))
	b.send(g, asks)
	ways[0].away.Store(true)
	b.messages = append(b.messages, user("yes"))
	if s := b.again(g); s.status != 503 || !strings.Contains(s.body, "store_unavailable") || len(g.tools.made()) != 0 {
		t.Errorf("%d %s", s.status, s.body)
	}
	ways[0].away.Store(false)
	if s := b.again(g); s.text != "Sent." || len(g.tools.made()) != 1 {
		t.Errorf("%s", s.body)
	}
}

// generous gives every lease, as a store may that has failed over.
type generous struct{ sessions.Store }

func (g generous) Acquire(context.Context, sessions.Scope, string, string, time.Duration) (bool, error) {
	return true, nil
}

// Even with its lease given twice, an approved call is started by one request alone.
func TestDecidedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := sessions.NewMemory(100, 1<<20)
		defer store.Close() //nolint:errcheck // in memory
		memory := NewMemory(generous{store}, nil, nil)
		defer memory.Close(t.Context())
		var started []int
		for range 2 {
			h := &held{s: &session{Memory: memory, ttl: time.Hour, scope: sessions.Scope{Client: "c", ID: "i"}}, anchor: "a",
				record: &record{attempt: "1", calls: []heldCall{{id: "c1", hidden: true, asks: true}}},
				run:    func(context.Context, *held, int) Result { return Result{Outcome: "ok"} }}
			v := &verdict{approved: []int{0}}
			if err := h.decide(t.Context(), t.Context(), v); err != nil || !h.decision.allows(0) {
				t.Errorf("%v, %+v", err, h.decision)
			}
			started = append(started, v.started...)
		}
		if len(started) != 1 {
			t.Errorf("started %v", started)
		}
	})
}
