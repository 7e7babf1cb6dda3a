package loop

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidwall/gjson"
)

const (
	booking  = `{"role":"assistant","content":null,"tool_calls":[{"id":"c2","type":"function","function":{"name":"book_table","arguments":"{\"n\":2}"}}]}`
	booked   = `{"role":"tool","tool_call_id":"c2","content":"booked"}`
	inOrder  = "user:Weather?|assistant:(c1 mcp_mail__send)(c2 book_table)(c3 mcp_clock__now)|toolc1:%s|toolc2:booked|toolc3:%s"
	fromMail = "result of mcp_mail__send"
	fromNow  = "result of mcp_clock__now"
)

func mixedCalls() string {
	return calls("mcp_mail__send", "{}", "book_table", `{"n":2}`, "mcp_clock__now", "{}")
}

// slowTools take some time, and say "cancelled" when they are.
func slowTools(d time.Duration) func(context.Context, string, string) Result {
	return func(ctx context.Context, name, _ string) Result {
		select {
		case <-time.After(d):
			return Result{Text: "result of " + name, Outcome: "ok"}
		case <-ctx.Done():
			return Result{Text: "Error: cancelled", Outcome: "cancelled"}
		}
	}
}

func count(events []string, event string) (n int) {
	for _, e := range events {
		if e == event {
			n++
		}
	}
	return n
}

// The client has its own calls at once; its resume, on whatever replica, brings
// all results in the order of the model's calls.
func TestMixedResume(t *testing.T) {
	for _, streaming := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			rigs, _, _ := replicas(t, 2)
			for _, g := range rigs {
				g.tools.run = slowTools(20 * time.Second)
			}
			body := func(messages ...string) string {
				return fmt.Sprintf(`{"stream":%v,%s`, streaming, chatOf(messages...)[1:])
			}
			answer := func(s string) answerFunc {
				if streaming {
					return streamed(asStream(s))
				}
				return whole(s)
			}
			rigs[0].answer(answer(mixedCalls()))
			start := time.Now()
			w := rigs[0].post(body(asks))
			if d := time.Since(start); d != 0 {
				t.Errorf("stream %v: the client waited %v for its calls", streaming, d)
			}
			names := gjson.Get(w.Body.String(), "choices.0.message.tool_calls.#.function.name").Raw
			ext := gjson.Get(w.Body.String(), "extensions.mcp_via_llm").Raw
			if streaming {
				s := read(w.Body.String())
				names, ext = fmt.Sprintf(`[%q]`, strings.Join(s.names, ",")), strings.Join(s.extensions, "")
			}
			if names != `["book_table"]` || gjson.Get(ext, "mcp_tools_called").Raw != `["mcp_mail__send","mcp_clock__now"]` || gjson.Get(ext, "stop_reason").String() != StopClientCalls {
				t.Errorf("stream %v: %s %s", streaming, names, ext)
			}
			time.Sleep(5 * time.Second) // the client is at its own call
			rigs[1].answer(answer(says("Done.")))
			w = rigs[1].post(body(asks, booking, booked))
			if d := time.Since(start); d != 20*time.Second {
				t.Errorf("stream %v: the whole took %v, want no longer than the slowest call", streaming, d)
			}
			if got := rigs[1].history(); got != fmt.Sprintf(inOrder, fromMail, fromNow) {
				t.Errorf("stream %v: the model saw %s", streaming, got)
			}
			if n := strings.Count(w.Body.String(), ": keep-alive"); streaming && n != 1 {
				t.Errorf("%d keep-alives in a wait of 15 s: %s", n, w.Body)
			}
			text, called := gjson.Get(w.Body.String(), "choices.0.message.content").String(), extension(w.Body.String(), "mcp_tools_called")
			if streaming {
				s := read(w.Body.String())
				text, called = s.text, gjson.Get(s.extensions[0], "mcp_tools_called").Raw
			}
			if text != "Done." || called != "[]" {
				t.Errorf("stream %v: %s %s", streaming, text, called)
			}
			// The same resume again, and the next turn, see the same history; nothing runs again.
			rigs[0].answer(answer(says("Done.")), answer(says("Bye.")))
			rigs[0].post(body(asks, booking, booked))
			if got := rigs[0].history(); got != fmt.Sprintf(inOrder, fromMail, fromNow) {
				t.Errorf("stream %v, again: the model saw %s", streaming, got)
			}
			rigs[0].post(body(asks, booking, booked, `{"role":"assistant","content":"Done."}`, thanks))
			if got := rigs[0].history(); got != fmt.Sprintf(inOrder, fromMail, fromNow)+"|assistant:Done.|user:Thanks." {
				t.Errorf("stream %v, the next turn: the model saw %s", streaming, got)
			}
			if n := len(rigs[0].tools.made()) + len(rigs[1].tools.made()); n != 2 {
				t.Errorf("stream %v: %d calls ran, want 2", streaming, n)
			}
			if count(rigs[0].events, EventPending) != 1 || count(rigs[1].events, EventResumed) != 1 {
				t.Errorf("stream %v: events %v %v", streaming, rigs[0].events, rigs[1].events)
			}
		})
	}
}

func TestMixedOddResumes(t *testing.T) {
	never := `{"role":"user","content":"Never mind."}`
	for _, tt := range []struct {
		name     string
		messages []string
		want     string
	}{
		{"respelt", []string{asks, `{"role":"assistant","tool_calls":[{"function":{"arguments":"{ \"n\" : 2 }","name":"book_table"},"type":"function","id":"c2","index":0}]}`, booked}, fmt.Sprintf(inOrder, fromMail, fromNow)},
		{"a new message instead of the result", []string{asks, booking, never}, strings.Replace(fmt.Sprintf(inOrder, fromMail, fromNow), "booked", noticeNone, 1) + "|user:Never mind."},
		{"the text beside the call edited", []string{asks, strings.Replace(booking, "null", `"Other words."`, 1), booked}, "user:Weather?|assistant:Other words.(c2 book_table)|toolc2:booked"},
		{"the call edited", []string{asks, strings.Replace(booking, "2}", "3}", 1), booked}, "user:Weather?|assistant:(c2 book_table)|toolc2:booked"},
	} {
		synctest.Test(t, func(t *testing.T) {
			rigs, _, _ := replicas(t, 1)
			g := rigs[0]
			g.tools.run = slowTools(time.Second)
			g.answer(whole(mixedCalls()), whole(says("Done.")))
			g.post(chatOf(asks))
			g.post(chatOf(tt.messages...))
			if got := g.history(); got != tt.want {
				t.Errorf("%s: the model saw\n%s, want\n%s", tt.name, got, tt.want)
			}
		})
	}
}

// Calls of a replica that is gone run again only where that does no harm.
func TestMixedTakenOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rigs, ways, _ := replicas(t, 2)
		rigs[0].tools.run = slowTools(time.Hour)
		rigs[0].answer(whole(mixedCalls()))
		rigs[0].post(chatOf(asks))
		ways[0].away.Store(true) // to the others it is as good as dead
		rigs[1].answer(whole(says("Done.")))
		start := time.Now()
		rigs[1].post(chatOf(asks, booking, booked))
		if got := rigs[1].history(); got != fmt.Sprintf(inOrder, noticeUnknown, fromNow) {
			t.Errorf("the model saw %s", got)
		}
		if d := time.Since(start); d > leaseTTL+time.Second {
			t.Errorf("the resume took %v", d)
		}
		if made := rigs[1].tools.made(); len(made) != 1 || made[0].Name != "mcp_clock__now" || count(rigs[1].events, EventTakenOver) != 1 {
			t.Errorf("ran again: %v; events %v", made, rigs[1].events)
		}
	})
}

// A replica that shuts down gives up its calls at once.
func TestMixedOwnerShutsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rigs, _, _ := replicas(t, 2)
		rigs[0].tools.run = slowTools(time.Hour)
		rigs[0].answer(whole(mixedCalls()))
		rigs[0].post(chatOf(asks))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		rigs[0].memory.Close(ctx)
		rigs[1].answer(whole(says("Done.")))
		start := time.Now()
		rigs[1].post(chatOf(asks, booking, booked))
		if got := rigs[1].history(); got != fmt.Sprintf(inOrder, noticeUnknown, fromNow) || time.Since(start) > time.Second {
			t.Errorf("after %v the model saw %s", time.Since(start), got)
		}
	})
}

func TestMixedNeverResumed(t *testing.T) {
	for name, end := range map[string]func(*rig, interface {
		Erase(context.Context, string) (int, error)
	}) error{
		"expired": func(*rig, interface {
			Erase(context.Context, string) (int, error)
		}) error {
			time.Sleep(time.Hour)
			return nil
		},
		"erased": func(_ *rig, store interface {
			Erase(context.Context, string) (int, error)
		}) error {
			n, err := store.Erase(context.Background(), "default/")
			if n == 0 {
				return fmt.Errorf("nothing was erased")
			}
			time.Sleep(2 * heartbeat)
			return err
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			rigs, _, store := replicas(t, 1)
			g := rigs[0]
			cancelled := make(chan string, 20)
			g.tools.run = func(ctx context.Context, name, _ string) Result {
				<-ctx.Done()
				cancelled <- name
				return Result{Outcome: "cancelled"}
			}
			g.answer(whole(mixedCalls()), whole(says("Done.")))
			g.post(chatOf(asks))
			time.Sleep(time.Second)
			if err := end(g, store); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			time.Sleep(time.Second)
			if len(cancelled) != 2 {
				t.Errorf("%s: %d calls were cancelled, want 2", name, len(cancelled))
			}
			g.post(chatOf(asks, booking, booked))
			want := fmt.Sprintf(inOrder, noticeExpired, noticeExpired)
			if name == "erased" { // nothing is left to tell
				want = "user:Weather?|assistant:(c2 book_table)|toolc2:booked"
			}
			if got := g.history(); got != want {
				t.Errorf("%s: the model saw %s, want %s", name, got, want)
			}
		})
	}
}

// The limit of calls that run at once holds for those in the background too.
func TestMixedCallsAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rigs, _, _ := replicas(t, 1)
		g := rigs[0]
		g.client.MaxParallelCalls = 1
		g.tools.run = slowTools(10 * time.Second)
		g.answer(whole(mixedCalls()), whole(says("Done.")))
		start := time.Now()
		g.post(chatOf(asks))
		g.post(chatOf(asks, booking, booked))
		if d := time.Since(start); d != 20*time.Second {
			t.Errorf("two calls took %v one after the other", d)
		}
	})
}

// Mixed turns may follow each other, with MCP rounds between them.
func TestSeveralMixedTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rigs, _, _ := replicas(t, 2)
		for _, g := range rigs {
			g.tools.run = slowTools(time.Second)
		}
		// The provider numbers its calls from the start in each turn.
		rigs[0].answer(whole(calls("mcp_wx__now", "{}")), whole(mixedCalls()), whole(calls("mcp_wx__now", "{}")), whole(says("Done.")))
		rigs[1].answer(whole(calls("mcp_fs__read", "{}")), whole(mixedCalls()))
		rigs[0].post(chatOf(asks))
		rigs[1].post(chatOf(asks, booking, booked))
		rigs[0].post(chatOf(asks, booking, booked, booking, strings.Replace(booked, "booked", "booked again", 1)))
		first := "assistant:(c1 mcp_wx__now)|toolc1:result of mcp_wx__now|assistant:(c1 mcp_mail__send)(c2 book_table)(c3 mcp_clock__now)|toolc1:result of mcp_mail__send|toolc2:booked|toolc3:result of mcp_clock__now"
		second := strings.NewReplacer("mcp_wx__now", "mcp_fs__read", "booked", "booked again").Replace(first)
		if got, want := rigs[0].history(), "user:Weather?|"+first+"|"+second+"|assistant:(c1 mcp_wx__now)|toolc1:result of mcp_wx__now"; got != want {
			t.Errorf("the model saw\n%s, want\n%s", got, want)
		}
	})
}

// Bad arguments of a hidden call do not keep a mixed turn from going on, and
// unknown members of the model's message come back to it.
func TestMixedDetails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rigs, _, _ := replicas(t, 1)
		g := rigs[0]
		g.answer(whole(`{"id":"cc","choices":[{"index":0,"finish_reason":"tool_calls","message":{"role":"assistant","content":"Both.","reasoning_content":"hm","tool_calls":[`+
			`{"id":"c1","type":"function","extra_content":{"sig":"x"},"function":{"name":"mcp_wx__now","arguments":"{\"a\":"}},{"id":"c2","type":"function","function":{"name":"book_table","arguments":"{\"n\":2}"}}]}}]}`), whole(says("Done.")))
		w := g.post(chatOf(asks))
		if got := gjson.Get(w.Body.String(), "choices.0.message.content").String(); got != "Both." {
			t.Errorf("the client saw %s", w.Body)
		}
		g.post(chatOf(asks, strings.Replace(booking, "null", `"Both."`, 1), booked))
		asked := g.model.asked(2)
		if gjson.Get(asked, "messages.1.reasoning_content").String() != "hm" || gjson.Get(asked, "messages.1.tool_calls.0.extra_content.sig").String() != "x" ||
			gjson.Get(asked, "messages.1.tool_calls.0.function.arguments").String() != "{}" || !strings.Contains(gjson.Get(asked, "messages.2.content").String(), "not valid JSON") {
			t.Errorf("the model saw %s", gjson.Get(asked, "messages"))
		}
		if len(g.tools.made()) != 0 {
			t.Error("a call with bad arguments ran")
		}
	})
}

// A client that goes away while its resume waits leaves the calls running.
func TestMixedResumeGoesAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rigs, _, _ := replicas(t, 1)
		g := rigs[0]
		g.tools.run = slowTools(30 * time.Second)
		g.answer(whole(mixedCalls()), whole(says("Done.")))
		g.post(chatOf(asks))
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		g.post(chatOf(asks, booking, booked), func(r *http.Request) { *r = *r.WithContext(ctx) })
		g.post(chatOf(asks, booking, booked))
		if got := g.history(); got != fmt.Sprintf(inOrder, fromMail, fromNow) {
			t.Errorf("the model saw %s", got)
		}
		if n := len(g.tools.made()); n != 2 || !slices.Contains(g.events, EventResumed) {
			t.Errorf("%d calls ran; events %v", n, g.events)
		}
	})
}

// A resume that has begun its answer while it waited gives a provider's refusal
// as an event: the status line is out.
func TestMixedResumeRefused(t *testing.T) {
	for _, style := range []string{"comment", "chunk"} {
		synctest.Test(t, func(t *testing.T) {
			rigs, _, _ := replicas(t, 1)
			g := rigs[0]
			g.client.KeepaliveStyle = style
			g.tools.run = slowTools(25 * time.Second)
			g.answer(whole(mixedCalls()), respond(429, "application/json", `{"error":{"message":"slow down"}}`))
			g.post(chatOf(asks))
			w := g.post(strings.Replace(chatOf(asks, booking, booked), `{"model"`, `{"stream":true,"model"`, 1))
			s := read(w.Body.String())
			if w.Code != 200 || len(s.errors) != 1 || gjson.Get(s.errors[0], "message").String() != "slow down" || s.dones != 0 {
				t.Errorf("%s: %d %s", style, w.Code, w.Body)
			}
			comments, chunks := strings.Count(w.Body.String(), ": keep-alive"), strings.Count(w.Body.String(), `"delta":{}`)
			if style == "comment" && comments != 2 || style == "chunk" && (comments != 0 || chunks != 2 || len(s.ids) != 1) {
				t.Errorf("%s: %d comments, %d chunks: %s", style, comments, chunks, w.Body)
			}
		})
	}
}

// What the model has not seen yet is never left out, however large it is.
func TestMixedFreshResultsStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rigs, _, _ := replicas(t, 1)
		g := rigs[0]
		g.client.HistoryMaxBytes = 10
		g.tools.run = slowTools(time.Second)
		g.answer(whole(calls("mcp_wx__now", "{}")), whole(says("Sunny.")), whole(mixedCalls()), whole(says("Done.")), whole(says("Bye.")))
		g.post(chatOf(asks))
		g.post(chatOf(asks, sunny, asks))
		g.post(chatOf(asks, sunny, asks, booking, booked))
		old := strings.Replace(withTool, "result of mcp_wx__now", noticeTrimmed, 1)
		old = strings.TrimSuffix(old, "user:Thanks.")
		if got := g.history(); got != old+fmt.Sprintf(inOrder, fromMail, fromNow) {
			t.Errorf("the model saw %s", got)
		}
		g.post(chatOf(asks, sunny, asks, booking, booked, `{"role":"assistant","content":"Done."}`, thanks))
		if got := g.history(); strings.Count(got, noticeTrimmed) != 3 {
			t.Errorf("one turn later the model saw %s", got)
		}
	})
}

// A resume that waits keeps the record alive, and its calls with it.
func TestMixedResumeKeepsCallsAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rigs, _, _ := replicas(t, 1)
		g := rigs[0]
		g.client.SessionTTL = 10 * time.Second
		g.tools.run = slowTools(30 * time.Second)
		g.answer(whole(mixedCalls()), whole(says("Done.")))
		g.post(chatOf(asks))
		time.Sleep(time.Second)
		g.post(chatOf(asks, booking, booked))
		if got := g.history(); got != fmt.Sprintf(inOrder, fromMail, fromNow) {
			t.Errorf("the model saw %s", got)
		}
	})
}
