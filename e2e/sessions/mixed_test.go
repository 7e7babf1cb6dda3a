package sessions_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// turn is one line of what a replica reports of its turns.
type turn struct {
	Identity string `json:"identity"`
	Client   string `json:"client"`
	Status   int    `json:"status"`
	Stop     string `json:"stop_reason"`
}

// turns gives the turns of a replica, the newest first.
func (w *world) turns(t *testing.T, replica int) []turn {
	t.Helper()
	response, err := http.Get(w.Replicas[replica].Admin + "/debug/turns")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var all []turn
	if err := json.NewDecoder(response.Body).Decode(&all); err != nil {
		t.Fatal(err)
	}
	return all
}

// owner is the replica that has had the only turn so far.
func (w *world) owner(t *testing.T) int {
	t.Helper()
	for i := range w.Replicas {
		if len(w.turns(t, i)) == 1 {
			return i
		}
	}
	t.Fatal("no replica had the turn")
	return 0
}

// both runs a test streamed and not, at once.
func both(t *testing.T, test func(*testing.T, bool)) {
	for _, stream := range []bool{false, true} {
		t.Run(fmt.Sprintf("stream=%v", stream), func(t *testing.T) {
			t.Parallel()
			test(t, stream)
		})
	}
}

func names(a answer) (all []string) {
	for _, c := range a.calls {
		all = append(all, c.Function.Name)
	}
	return all
}

// want asserts the history that the model was shown last, a line a message after the user's.
func (c *conversation) want(t *testing.T, history ...string) {
	t.Helper()
	got := c.w.model.of(c).last
	if len(got) == 0 || !slices.Equal(got[1:], history) {
		t.Errorf("%s: the model saw\n%s\nwant after the question\n%s", c.plan.Nonce, strings.Join(got, "\n"), strings.Join(history, "\n"))
	}
}

const told = `assistant:Let me see.(c1 shop__order {"nonce":"n1x","ms":-1})(c2 book_table {"nonce":"n1x"})(c3 shop__look {"nonce":"n1x"})`

// TestMixedResume asserts that the client has its calls while the slow MCP call runs, that its resume on the other
// replica waits for that call and no longer, and that the model sees everything in its own order, then and later.
func TestMixedResume(t *testing.T) {
	both(t, func(t *testing.T, stream bool) {
		w := start(t, setup{client: "keepalive: 1s"})
		c := w.talk(plan{Nonce: "n1x", Kind: "mixed", Order: -1}, stream)
		a := c.must(t)
		if !slices.Equal(names(a), []string{"book_table"}) || a.finish != "tool_calls" || a.text != "Let me see." {
			t.Errorf("the client got %v", a)
		}
		if called := a.extension.Get("mcp_tools_called").Raw; called != `["shop__order","shop__look"]` || a.extension.Get("stop_reason").String() != "client_tool_calls" {
			t.Errorf("extensions %s", a.extension.Raw)
		}
		eventually(t, requestLimit, "the hidden call runs", func() bool { return w.shop.count(w.shop.ran, "order n1x") == 1 })
		first := w.owner(t)
		resumed := make(chan answer, 1)
		go func() { resumed <- c.send(t.Context()) }()
		// A second is for the resume to get to its wait. If it were slower the test would show less, and not fail.
		time.Sleep(time.Second)
		if n := w.model.of(c).requests; n != 1 {
			t.Errorf("the model was asked %d times while a call ran", n)
		}
		w.shop.open("n1x")
		a = <-resumed
		if !a.complete() || a.text != "done n1x" || a.extension.Get("mcp_tools_called").Raw != "[]" {
			t.Errorf("the resume got %v", a)
		}
		if n := len(w.turns(t, 1-first)); n != 1 {
			t.Errorf("the other replica had %d turns", n)
		}
		for event, replica := range map[string]int{"pending": first, "resumed": 1 - first, "hit": 1 - first} {
			if n := w.metric(t, replica, `mcp_via_llm_session_events_total{event="`+event); n != "1" {
				t.Errorf("%q events of kind %s", n, event)
			}
		}
		history := []string{told, "toolc1:did order n1x, time 1", "toolc2:booked n1x", "toolc3:did look n1x, time 1"}
		c.want(t, history...)
		a = c.must(t) // the same resume again
		c.want(t, history...)
		c.messages = append(c.messages, message("user", "Thanks."))
		a = c.must(t)
		c.want(t, append(history, "assistant:done n1x", "user:Thanks.")...)
		if n := w.shop.count(w.shop.ran, "order n1x") + w.shop.count(w.shop.ran, "look n1x"); n != 2 {
			t.Errorf("%d calls ran, want 2", n)
		}
	})
}

// TestMixedFinishesFirst asserts that calls which end while the client is at its own cost the resume nothing.
func TestMixedFinishesFirst(t *testing.T) {
	w := start(t, setup{})
	both(t, func(t *testing.T, stream bool) {
		nonce := map[bool]string{false: "n1x", true: "n2x"}[stream]
		c := w.talk(plan{Nonce: nonce, Kind: "mixed", Order: 100, Look: 50}, stream)
		c.must(t)
		eventually(t, requestLimit, "the hidden calls end", func() bool {
			return w.shop.count(w.shop.finished, "order "+nonce) == 1 && w.shop.count(w.shop.finished, "look "+nonce) == 1
		})
		if a := c.must(t); a.text != "done "+nonce {
			t.Errorf("%v", a)
		}
	})
}

// TestLong asserts the history of MCP rounds and mixed turns after each other, while the client drops what SDKs drop.
func TestLong(t *testing.T) {
	w := start(t, setup{})
	both(t, func(t *testing.T, stream bool) {
		nonce := map[bool]string{false: "n1x", true: "n2x"}[stream]
		c := w.talk(plan{Nonce: nonce, Kind: "long"}, stream)
		for range 2 {
			c.must(t)
			c.messages = append([]any{message("system", fmt.Sprintf("Message %d.", len(c.messages)))}, c.messages...)
		}
		a := c.must(t)
		call := func(id, name string) string { return fmt.Sprintf(`(%s %s {"nonce":"%s"})`, id, name, nonce) }
		if got := w.model.of(c).last[3:]; a.text != "done "+nonce || !slices.Equal(got, []string{
			"assistant:Let me see." + call("c1", "shop__stamp"), "toolc1:did stamp " + nonce + ", time 1",
			"assistant:" + call("c1", "book_table") + call("c2", "shop__look"), "toolc1:booked " + nonce, "toolc2:did look " + nonce + ", time 1",
			"assistant:" + call("c1", "shop__stamp") + call("c2", "book_table"), "toolc1:did stamp " + nonce + ", time 2", "toolc2:booked " + nonce,
			"assistant:" + call("c1", "shop__stamp"), "toolc1:did stamp " + nonce + ", time 3",
		}) {
			t.Errorf("the client got %v, the model saw\n%s", a, strings.Join(got, "\n"))
		}
	})
}

// TestNeverShared asserts that conversations with the same words, at once, have nothing in common if who speaks, for
// whom, or in which session is not the same.
func TestNeverShared(t *testing.T) {
	w := start(t, setup{})
	p := plan{Nonce: "n1x", Kind: "mixed", Order: 100, Look: 100}
	var all []*conversation
	for i, edit := range []func(*conversation){
		func(*conversation) {},
		func(c *conversation) { c.who = "bob" },
		func(c *conversation) { c.user = "u1" },
		func(c *conversation) { c.user = "u2" },
		func(c *conversation) { c.headers = []string{"X-Mcp-Session: one"} },
		func(c *conversation) { c.headers = []string{"X-Mcp-Session: two"} },
		func(c *conversation) { c.headers, c.who = []string{"X-Mcp-Session: two"}, "bob" },
	} {
		c := w.talk(p, i%2 == 0)
		edit(c)
		all = append(all, c)
	}
	atOnce := func(what func(*conversation)) {
		done := make(chan struct{})
		for _, c := range all {
			go func() { what(c); done <- struct{}{} }()
		}
		for range all {
			<-done
		}
	}
	for range 2 {
		atOnce(func(c *conversation) {
			a := c.send(t.Context())
			if !a.complete() {
				t.Errorf("%v", a)
			}
			c.take(a)
		})
	}
	orders := map[string]bool{}
	for _, c := range all {
		s := w.model.of(c)
		if s.degraded || s.requests != 2 {
			t.Errorf("%s: %+v", c.id, s)
		}
		orders[s.results["0 c1"]] = true
	}
	if n := w.shop.count(w.shop.ran, "order n1x"); n != len(all) || len(orders) != len(all) {
		t.Errorf("%d orders and %d results for %d conversations: %v", n, len(orders), len(all), orders)
	}
	// What is not one's own is not there, whatever one sends.
	stranger := w.talk(p, false)
	stranger.who, stranger.messages = "carol", all[0].messages[:3]
	stranger.must(t)
	if !w.model.of(stranger).degraded {
		t.Errorf("a stranger got hidden history:\n%s", strings.Join(w.model.of(stranger).last, "\n"))
	}
}

// busy is the replica that has a journal open, where there is only one in the world.
func (w *world) busy(t *testing.T) int {
	t.Helper()
	for i := range w.Replicas {
		if w.metric(t, i, `mcp_via_llm_store_duration_seconds_count{operation="add"`) != "" {
			return i
		}
	}
	t.Fatal("no replica has a journal")
	return 0
}

// metric gives the value of a replica's metric that begins like this; "" if there is none.
func (w *world) metric(t *testing.T, replica int, begin string) string {
	t.Helper()
	response, err := http.Get(w.Replicas[replica].Admin + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		if fields := strings.Fields(line); strings.HasPrefix(line, begin) && len(fields) > 1 {
			return fields[len(fields)-1]
		}
	}
	return ""
}
