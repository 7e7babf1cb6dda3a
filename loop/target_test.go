package loop

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A call that was held runs only if its name still is that of the same tool: by
// itself, through a tool that calls others, and however it is gone on with.
func TestHeldCallWhoseNameHasMoved(t *testing.T) {
	const moved = "user:Weather?|assistant:(c1 mcp_mail__send)|toolc1:" + noticeMoved
	move := func(g *rig) { g.tools.targets = map[string]string{"mcp_mail__send": "evil\x00mcp_mail__send"} }
	each(t, func(t *testing.T, a *app) {
		rigs, _, _ := asking(t, 2)
		move(rigs[1])
		a.answers(rigs[0], calls("mcp_mail__send", "{}"))
		a.send(rigs[0], asks)
		a.answers(rigs[1], says("Gone."))
		if s := a.send(rigs[1], user("yes")); s.text != "Gone." || s.called != "[]" || rigs[1].history() != moved {
			t.Errorf("%s; the model saw %s", s.body, rigs[1].history())
		}
		a.answers(rigs[0], says("Bye."))
		a.send(rigs[0], thanks)
		if got := rigs[0].history(); got != moved+"|assistant:Gone.|user:Thanks." || len(madeBy(rigs...)) != 0 {
			t.Errorf("the model saw %s; ran %v", got, madeBy(rigs...))
		}
	})
	t.Run("asked for by the results of a mixed turn", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			rigs, _, _ := asking(t, 2)
			a := &app{}
			a.answers(rigs[0], mixedCalls())
			a.send(rigs[0], asks)
			a.send(rigs[0], booked)
			move(rigs[1])
			a.answers(rigs[1], says("Gone."))
			a.send(rigs[1], user("yes"))
			if got := rigs[1].history(); !strings.Contains(got, noticeMoved) || slices.Contains(madeBy(rigs...), "mcp_mail__send") {
				t.Errorf("the model saw %s; ran %v", got, madeBy(rigs...))
			}
		})
	})
	t.Run("through another tool", func(t *testing.T) {
		rigs, _, _ := asking(t, 2)
		for _, g := range rigs {
			g.tools.names = append(g.tools.names[:len(g.tools.names):len(g.tools.names)], "mcp_hub__call")
			g.tools.approve = []string{"mcp_hub__call"}
		}
		move(rigs[1])
		a := &app{}
		a.answers(rigs[0], calls("mcp_hub__call", `{"name":"mcp_mail__send"}`))
		a.send(rigs[0], asks)
		a.answers(rigs[1], says("Gone."))
		a.send(rigs[1], user("yes"))
		if got := rigs[1].history(); !strings.HasSuffix(got, noticeMoved) || len(madeBy(rigs...)) != 0 {
			t.Errorf("the model saw %s; ran %v", got, madeBy(rigs...))
		}
	})
	t.Run("a mixed turn taken over", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			rigs, ways, _ := replicas(t, 2)
			a := &app{}
			a.answers(rigs[0], calls("mcp_clock__now", "{}", "book_table", `{"n":2}`))
			rigs[0].tools.run = slowTools(time.Hour)
			a.send(rigs[0], asks)
			time.Sleep(time.Second)
			ways[0].away.Store(true)
			rigs[1].tools.targets = map[string]string{"mcp_clock__now": "evil\x00now"}
			a.answers(rigs[1], says("Gone."))
			a.send(rigs[1], booked)
			if got := rigs[1].history(); !strings.Contains(got, "toolc1:"+noticeMoved) || len(madeBy(rigs[1])) != 0 {
				t.Errorf("the model saw %s; ran %v", got, madeBy(rigs[1]))
			}
		})
	})
	t.Run("a turn that broke before it could ask", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			rigs, _, _ := asking(t, 2)
			a := &app{messages: []string{asks}}
			a.answers(rigs[0], calls("mcp_mail__send", "{}"))
			a.lose(t, rigs[0], "May I")
			move(rigs[1])
			// The question was kept, so it is put again; the yes runs nothing.
			a.answers(rigs[1], says("Gone."))
			if q := a.send(rigs[1]); q.stop == StopApproval {
				a.send(rigs[1], user("yes"))
			}
			if got := rigs[1].history(); got != moved || len(madeBy(rigs...)) != 0 {
				t.Errorf("the model saw %s; ran %v", got, madeBy(rigs...))
			}
		})
	})
}

// A call that a broken turn had begun runs again only if it still is of the same tool.
func TestJournalWhoseNamesHaveMoved(t *testing.T) {
	each(t, func(t *testing.T, a *app) {
		rigs, _, _ := replicas(t, 2)
		rigs[0].tools.run = slowTools(time.Hour)
		a.answers(rigs[0], calls("mcp_clock__now", "{}"))
		a.messages = []string{asks}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		b := a.branch(1)
		b.edit = append(b.edit, func(r *http.Request) { *r = *r.WithContext(ctx) })
		b.again(rigs[0])
		synctest.Wait()
		rigs[1].tools.targets = map[string]string{"mcp_clock__now": "evil\x00now"}
		a.answers(rigs[1], says("Gone."))
		a.send(rigs[1])
		if got := rigs[1].history(); got != "user:Weather?|assistant:(c1 mcp_clock__now)|toolc1:"+noticeUnknown || len(madeBy(rigs[1])) != 0 {
			t.Errorf("the model saw %s; ran %v", got, madeBy(rigs[1]))
		}
	})
}
