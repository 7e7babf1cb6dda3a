package loop

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mcp-via-llm/mcp-via-llm/sessions"
	"github.com/tidwall/gjson"
)

// brittle is a store that can be taken away.
type brittle struct {
	sessions.Store
	away  atomic.Bool
	onPut func(key string) bool // for which it goes away
}

func (b *brittle) down() error {
	if b.away.Load() {
		return fmt.Errorf("%w: taken away", sessions.ErrUnavailable)
	}
	return nil
}

func (b *brittle) Load(ctx context.Context, s sessions.Scope, ttl time.Duration, keys ...string) ([]sessions.Fields, error) {
	if err := b.down(); err != nil {
		return nil, err
	}
	return b.Store.Load(ctx, s, ttl, keys...)
}
func (b *brittle) Put(ctx context.Context, s sessions.Scope, key string, f sessions.Fields, ttl time.Duration) error {
	if b.onPut != nil && b.onPut(key) {
		b.away.Store(true)
	}
	if err := b.down(); err != nil {
		return err
	}
	return b.Store.Put(ctx, s, key, f, ttl)
}
func (b *brittle) Settle(ctx context.Context, s sessions.Scope, key, field string, value []byte, ttl time.Duration) ([]byte, error) {
	if err := b.down(); err != nil {
		return nil, err
	}
	return b.Store.Settle(ctx, s, key, field, value, ttl)
}
func (b *brittle) Update(ctx context.Context, s sessions.Scope, key string, f sessions.Fields, ttl time.Duration) (bool, error) {
	if err := b.down(); err != nil {
		return false, err
	}
	return b.Store.Update(ctx, s, key, f, ttl)
}
func (b *brittle) Acquire(ctx context.Context, s sessions.Scope, name, owner string, ttl time.Duration) (bool, error) {
	if err := b.down(); err != nil {
		return false, err
	}
	return b.Store.Acquire(ctx, s, name, owner, ttl)
}
func (b *brittle) Renew(ctx context.Context, s sessions.Scope, name, owner string, ttl time.Duration) (bool, error) {
	if err := b.down(); err != nil {
		return false, err
	}
	return b.Store.Renew(ctx, s, name, owner, ttl)
}
func (b *brittle) Release(ctx context.Context, s sessions.Scope, name, owner string) error {
	if err := b.down(); err != nil {
		return err
	}
	return b.Store.Release(ctx, s, name, owner)
}
func (b *brittle) Members(ctx context.Context, s sessions.Scope, bag string) ([]string, error) {
	if err := b.down(); err != nil {
		return nil, err
	}
	return b.Store.Members(ctx, s, bag)
}
func (b *brittle) LoadWith(ctx context.Context, s sessions.Scope, ttl time.Duration, bag string, keys ...string) ([]sessions.Fields, []string, error) {
	if err := b.down(); err != nil {
		return nil, nil, err
	}
	return b.Store.LoadWith(ctx, s, ttl, bag, keys...)
}

// replicas are rigs that share a store; each has its own way to it.
func replicas(t *testing.T, n int) (rigs []*rig, ways []*brittle, store *sessions.Memory) {
	store = sessions.NewMemory(10_000, 64<<20)
	for range n {
		g, way := newRig(), &brittle{Store: store}
		g.memory = g.remember(way)
		rigs, ways = append(rigs, g), append(ways, way)
	}
	t.Cleanup(func() {
		for _, g := range rigs {
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			g.memory.Close(ctx)
		}
		store.Close() //nolint:errcheck // in memory
	})
	return rigs, ways, store
}

// answer gives the rig its next answers from the model.
func (g *rig) answer(answers ...answerFunc) {
	g.model.mu.Lock()
	defer g.model.mu.Unlock()
	g.model.answers = append(g.model.answers, answers...)
}

// asked gives what the model was sent last, as roles, ids and texts.
func (g *rig) history() string {
	var out []string
	for _, m := range gjson.Get(g.model.asked(g.model.count()), "messages").Array() {
		line := m.Get("role").String() + m.Get("tool_call_id").String() + ":" + m.Get("content").String()
		for _, c := range m.Get("tool_calls").Array() {
			line += "(" + c.Get("id").String() + " " + c.Get("function.name").String() + ")"
		}
		out = append(out, line)
	}
	return strings.Join(out, "|")
}

func chatOf(messages ...string) string {
	return `{"model":"m","messages":[` + strings.Join(messages, ",") + `],"tools":[{"type":"function","function":{"name":"book_table"}}]}`
}

const (
	asks      = `{"role":"user","content":"Weather?"}`
	sunny     = `{"role":"assistant","content":"Sunny."}`
	thanks    = `{"role":"user","content":"Thanks."}`
	withTool  = "user:Weather?|assistant:(c1 mcp_wx__now)|toolc1:result of mcp_wx__now|assistant:Sunny.|user:Thanks."
	sansTool  = "user:Weather?|assistant:Sunny.|user:Thanks."
	authAlice = "Bearer alice"
)

func as(who string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set("Authorization", who) }
}

// talk has one turn with an MCP call, and gives the rig an answer for the next.
func talk(g *rig, edit ...func(*http.Request)) {
	g.answer(whole(calls("mcp_wx__now", "{}")), whole(says("Sunny.")), whole(says("Bye.")))
	g.post(chatOf(asks), edit...)
}

func TestHiddenHistory(t *testing.T) {
	for _, tt := range []struct {
		name     string
		messages []string
		edit     []func(*http.Request)
		want     string
	}{
		{"the next turn", []string{asks, sunny, thanks}, nil, withTool},
		{"spelt anew", []string{`{"role":"user","content":[{"type":"text","text":"Weather?"}]}`, `{"role":"assistant","content":" Sunny. ","refusal":null}`, thanks}, nil,
			strings.Replace(withTool, "user:Weather?", `user:[{"type":"text","text":"Weather?"}]`, 1)},
		{"other instructions", []string{`{"role":"system","content":"It is noon."}`, asks, sunny, thanks}, nil, "system:It is noon.|" + withTool},
		{"an edited reply", []string{asks, `{"role":"assistant","content":"Rainy."}`, thanks}, nil, strings.Replace(sansTool, "Sunny", "Rainy", 1)},
		{"an edited question", []string{`{"role":"user","content":"Weather today?"}`, sunny, thanks}, nil, strings.Replace(sansTool, "Weather?", "Weather today?", 1)},
		{"another branch", []string{asks, sunny, `{"role":"user","content":"And Rome?"}`}, nil, strings.Replace(withTool, "Thanks.", "And Rome?", 1)},
		{"another client with the same words", []string{asks, sunny, thanks}, []func(*http.Request){as("Bearer bob")}, sansTool},
		{"another session of the client", []string{asks, sunny, thanks}, []func(*http.Request){as(authAlice), func(r *http.Request) { r.Header.Set(HeaderSession, "two") }}, sansTool},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rigs, _, _ := replicas(t, 2)
			talk(rigs[0], as(authAlice))
			rigs[1].answer(whole(says("Bye.")))
			edit := tt.edit
			if edit == nil {
				edit = []func(*http.Request){as(authAlice)}
			}
			rigs[1].post(chatOf(tt.messages...), edit...)
			if got := rigs[1].history(); got != tt.want {
				t.Errorf("the model saw\n%s, want\n%s", got, tt.want)
			}
		})
	}
	t.Run("whom the application speaks for", func(t *testing.T) {
		rigs, _, _ := replicas(t, 1)
		g := rigs[0]
		g.answer(whole(calls("mcp_wx__now", "{}")), whole(says("Sunny.")), whole(says("Bye.")), whole(says("Bye.")))
		with := func(user, body string) string {
			return strings.Replace(body, `{"model"`, `{"user":"`+user+`","model"`, 1)
		}
		g.post(with("u1", chatOf(asks)))
		g.post(with("u2", chatOf(asks, sunny, thanks)))
		if got := g.history(); got != sansTool {
			t.Errorf("another user: %s", got)
		}
		g.post(with("u1", chatOf(asks, sunny, thanks)))
		if got := g.history(); got != withTool {
			t.Errorf("the same user: %s", got)
		}
	})
	t.Run("streamed, with text before the call", func(t *testing.T) {
		rigs, _, _ := replicas(t, 1)
		g := rigs[0]
		g.answer(streamed(asStream(strings.Replace(calls("mcp_wx__now", "{}"), `"content":null`, `"content":"Let me look."`, 1))), streamed(asStream(says("Sunny."))), whole(says("Bye.")))
		s := read(g.post(strings.Replace(chatOf(asks), `{"model"`, `{"stream":true,"model"`, 1)).Body.String())
		g.post(chatOf(asks, fmt.Sprintf(`{"role":"assistant","content":%q}`, s.text), thanks))
		if got := g.history(); got != strings.Replace(withTool, "assistant:(", "assistant:Let me look.(", 1) {
			t.Errorf("the model saw %s", got)
		}
	})
	t.Run("tool_choice none", func(t *testing.T) {
		rigs, _, _ := replicas(t, 1)
		talk(rigs[0])
		rigs[0].post(strings.Replace(chatOf(asks, sunny, thanks), `{"model"`, `{"tool_choice":"none","model"`, 1))
		asked := rigs[0].model.asked(3)
		if rigs[0].history() != withTool || gjson.Get(asked, "tool_choice").String() != "none" || gjson.Get(asked, "tools.#").Int() < 2 {
			t.Errorf("the model was asked %s", asked)
		}
	})
	t.Run("over the limit the oldest results go", func(t *testing.T) {
		rigs, _, _ := replicas(t, 1)
		rigs[0].client.HistoryMaxBytes = 10
		talk(rigs[0])
		rigs[0].post(chatOf(asks, sunny, thanks))
		if got := rigs[0].history(); got != strings.Replace(withTool, "result of mcp_wx__now", noticeTrimmed, 1) {
			t.Errorf("the model saw %s", got)
		}
	})
}

// Without its store a turn goes on, save one that brings results of calls.
func TestStoreAway(t *testing.T) {
	results := chatOf(asks, `{"role":"assistant","tool_calls":[{"id":"b","type":"function","function":{"name":"book_table","arguments":"{}"}}]}`, `{"role":"tool","tool_call_id":"b","content":"booked"}`)
	for _, tt := range []struct {
		name, body string
		degrade    bool
		status     int
	}{
		{"a plain turn", chatOf(asks, sunny, thanks), false, 200},
		{"one that brings results", results, false, 503},
		{"one that brings results and may degrade", results, true, 200},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rigs, ways, _ := replicas(t, 1)
			g := rigs[0]
			g.options.Degrade = tt.degrade
			ways[0].away.Store(true)
			g.answer(whole(calls("mcp_wx__now", "{}")), whole(says("Done.")))
			w := g.post(tt.body)
			if w.Code != tt.status {
				t.Errorf("%d %s", w.Code, w.Body)
			}
			if len(g.reports) != 1 || g.reports[0].Status != tt.status || (g.reports[0].StopReason == StopError) != (tt.status == 503) {
				t.Errorf("reports %+v", g.reports)
			}
			if tt.status == 503 && (gjson.Get(w.Body.String(), "error.code").String() != "store_unavailable" || g.model.count() != 0) {
				t.Errorf("%s", w.Body)
			}
		})
	}
	t.Run("an error after a call that nothing remembers must not be tried again", func(t *testing.T) {
		for tool, retry := range map[string]string{"mcp_mail__send": "false", "mcp_clock__now": ""} {
			rigs, ways, _ := replicas(t, 1)
			ways[0].away.Store(true)
			rigs[0].answer(whole(calls(tool, "{}")), respond(500, "application/json", `{"error":{}}`))
			if w := rigs[0].post(chatOf(asks)); w.Code != 500 || w.Header().Get(retryHeader) != retry {
				t.Errorf("%s: %d %v", tool, w.Code, w.Header())
			}
		}
	})
	t.Run("a mixed turn starts nothing that its resume could not find", func(t *testing.T) {
		rigs, ways, _ := replicas(t, 1)
		ways[0].away.Store(true)
		rigs[0].answer(whole(calls("mcp_wx__now", "{}", "book_table", "{}")))
		w := rigs[0].post(chatOf(asks))
		if gjson.Get(w.Body.String(), "choices.0.message.tool_calls.#").Int() != 1 || len(rigs[0].tools.made()) != 0 || extension(w.Body.String(), "mcp_tools_called") != "[]" {
			t.Errorf("%d calls, %s", len(rigs[0].tools.made()), w.Body)
		}
	})
}

// The same request again goes on, on any replica.
func TestJournalGoesOn(t *testing.T) {
	fails := respond(500, "application/json", `{"error":{"message":"overloaded"}}`)
	for _, streaming := range []bool{false, true} {
		rigs, _, store := replicas(t, 2)
		body := fmt.Sprintf(`{"stream":%v,%s`, streaming, chatOf(asks)[1:])
		first := strings.Replace(calls("mcp_mail__send", "{}"), `"content":null`, `"content":"Sending."`, 1)
		answer := func(s string) answerFunc {
			if streaming {
				return streamed(asStream(s))
			}
			return whole(s)
		}
		rigs[0].answer(answer(first), fails)
		rigs[0].post(body)
		rigs[1].answer(answer(says("Sent.")))
		w := rigs[1].post(body)
		if n := len(rigs[1].tools.made()); n != 0 {
			t.Errorf("stream %v: %d calls ran again", streaming, n)
		}
		if got := rigs[1].history(); got != "user:Weather?|assistant:Sending.(c1 mcp_mail__send)|toolc1:result of mcp_mail__send" {
			t.Errorf("stream %v: the model saw %s", streaming, got)
		}
		text, ext := gjson.Get(w.Body.String(), "choices.0.message.content").String(), gjson.Get(w.Body.String(), "extensions.mcp_via_llm").Raw
		if streaming {
			s := read(w.Body.String())
			text, ext = s.text, strings.Join(s.extensions, "")
			if s.roles != 1 || s.dones != 1 || len(s.ids) != 1 || len(s.finishes) != 1 {
				t.Errorf("%s", w.Body)
			}
		}
		if text != "Sending.\n\nSent." || gjson.Get(ext, "iterations").Int() != 2 || gjson.Get(ext, "mcp_tools_called").Raw != `["mcp_mail__send"]` || gjson.Get(ext, "total_prompt_tokens").Int() != 30 {
			t.Errorf("stream %v: %q %s", streaming, text, ext)
		}
		// A turn that ended well leaves no journal, so a regenerate begins afresh.
		rigs[0].answer(answer(first), answer(says("Sent again.")))
		rigs[0].post(body)
		if n := len(rigs[0].tools.made()); n != 2 {
			t.Errorf("stream %v: %d calls on the first replica, want 2", streaming, n)
		}
		for _, g := range rigs {
			g.memory.Close(t.Context()) // and with it what is still to be done
		}
		if n, err := store.Count(t.Context(), "default/"); err != nil || n != 4 {
			t.Errorf("stream %v: %d keys are left (%v), want two for each of two answers", streaming, n, err)
		}
	}
}

// Calls that were in flight run again only where that does no harm.
func TestJournalOfCallsInFlight(t *testing.T) {
	rigs, _, _ := replicas(t, 2)
	ctx, cancel := context.WithCancel(t.Context())
	rigs[0].tools.run = func(ctx context.Context, name, _ string) Result {
		if name == "mcp_fs__read" {
			return Result{Text: "finished", Outcome: "ok"}
		}
		cancel() // the client goes away while two calls run
		<-ctx.Done()
		return Result{Text: "Error", Outcome: "cancelled"}
	}
	rigs[0].answer(whole(calls("mcp_fs__read", "{}", "mcp_mail__send", "{}", "mcp_clock__now", "{}")))
	rigs[0].client.MaxParallelCalls = 1
	rigs[0].tools.names = []string{"mcp_fs__read", "mcp_mail__send", "mcp_clock__now"}
	rigs[0].post(chatOf(asks), func(r *http.Request) { *r = *r.WithContext(ctx) })
	rigs[1].answer(whole(says("Done.")))
	rigs[1].post(chatOf(asks))
	var again []string
	for _, c := range rigs[1].tools.made() {
		again = append(again, c.Name)
	}
	got := rigs[1].history()
	if !slices.Contains(again, "mcp_clock__now") || slices.Contains(again, "mcp_mail__send") {
		t.Errorf("ran again: %v", again)
	}
	if !strings.Contains(got, noticeUnknown) {
		t.Errorf("the model saw %s", got)
	}
}

// Identical requests at once share nothing.
func TestJournalsAreNotShared(t *testing.T) {
	store := sessions.NewMemory(10_000, 64<<20)
	defer store.Close() //nolint:errcheck // in memory
	g := newRig()
	g.memory = g.remember(store) // as it is: no busy machine makes it seem away
	const n = 100
	second := make(chan struct{})
	var waiting atomic.Int32
	g.model.answers = nil
	for range 2 * n {
		g.answer(func(r *http.Request) (*http.Response, error) {
			body := g.model.bodyOf(r)
			if !strings.Contains(body, `"role":"tool"`) {
				return whole(calls("mcp_mail__send", "{}"))(r)
			}
			if waiting.Add(1) == n {
				close(second)
			}
			<-second // all journals are open at once
			return whole(says("Sent."))(r)
		})
	}
	done := make(chan string, n)
	for range n {
		go func() { done <- g.post(chatOf(asks)).Body.String() }()
	}
	for range n {
		if body := <-done; extension(body, "mcp_tools_called") != `["mcp_mail__send"]` {
			t.Errorf("%s", body)
		}
	}
	if made := len(g.tools.made()); made != n {
		t.Errorf("%d calls ran, want %d", made, n)
	}
	g.memory.Close(t.Context()) // and with it what is still to be done
	if left, err := store.Count(t.Context(), "default/"); err != nil || left != 2 {
		t.Errorf("%d keys are left (%v)", left, err)
	}
}
