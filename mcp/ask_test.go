package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// answerer is an Asker that notes what it was asked.
type answerer struct {
	mu     sync.Mutex
	asked  []string
	answer string
	err    error
	wait   chan struct{} // if set, answers only when it is closed
}

func (a *answerer) Sample(ctx context.Context, server string, params json.RawMessage) (json.RawMessage, error) {
	return a.take(ctx, "sample "+server+" "+string(params))
}

func (a *answerer) Elicit(ctx context.Context, server string, params json.RawMessage) (json.RawMessage, error) {
	return a.take(ctx, "elicit "+server+" "+string(params))
}

func (a *answerer) take(ctx context.Context, question string) (json.RawMessage, error) {
	a.mu.Lock()
	a.asked = append(a.asked, question)
	a.mu.Unlock()
	if a.wait != nil {
		select {
		case <-a.wait:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return json.RawMessage(a.answer), a.err
}

func (a *answerer) questions() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.asked
}

const (
	sure       = `{"message":"Sure?","requestedSchema":{"type":"object","properties":{"n":{"type":"integer","maximum":9007199254740993},"a":{"type":"boolean"}}}}`
	elicitSure = `{"jsonrpc":"2.0","id":"srv-1","method":"elicitation/create","params":` + sure + `}`
	samplePlan = `{"jsonrpc":"2.0","id":3.0,"method":"sampling/createMessage","params":{"messages":[{"role":"user","content":{"type":"text","text":"hi"}}],"maxTokens":9007199254740993}}`
	listRoots  = `{"jsonrpc":"2.0","id":4,"method":"roots/list"}`
	pinged     = `{"jsonrpc":"2.0","id":2,"method":"ping"}`
	odd        = `{"jsonrpc":"2.0","id":"x","method":"tasks/list","params":{}}`
)

// asking makes a script's tool run ask these, on its own stream, and end when all
// are answered.
func asking(t *testing.T, s *script, questions ...string) {
	s.answer("POST tools/call", func(w http.ResponseWriter, _ *http.Request, m heard) {
		before := len(s.all("POST answer"))
		for _, question := range questions {
			event(w, question)
		}
		eventually(t, "answers", func() bool { return len(s.all("POST answer")) == before+len(questions) })
		event(w, `{"jsonrpc":"2.0","id":`+m.id+`,"result":{"content":[{"type":"text","text":"done"}]}}`)
	})
}

// answers are those to a script's questions, by raw id.
func (s *script) answers() map[string]heard {
	all := map[string]heard{}
	for _, m := range s.all("POST answer") {
		all[m.id] = m
	}
	return all
}

// What was not offered is refused at once, pings are answered, ids come back as
// they were, and nobody is asked.
func TestAskedWithoutOffer(t *testing.T) {
	t.Run(stateful, func(t *testing.T) {
		t.Parallel()
		s := newScript(t)
		asking(t, s, elicitSure, samplePlan, listRoots, pinged, odd)
		h := newTestHost(t, config("box", stateful, s.front))
		nobody := &answerer{answer: `{"action":"accept","content":{}}`}
		if res := toolsOf(t, h, "box").Bind(nil).Call(WithAsker(t.Context(), nobody), "box__run", ""); res.Text != "done" {
			t.Errorf("%+v", res)
		}
		if len(nobody.questions()) > 0 {
			t.Errorf("asked %q", nobody.questions())
		}
		if caps := s.await(t, "POST initialize").get("params.capabilities").Raw; caps != "{}" {
			t.Errorf("announced %s", caps)
		}
		got := s.answers()
		for _, id := range []string{`"srv-1"`, `3.0`, `4`, `"x"`} {
			if got[id].get("error.code").Int() != -32601 || got[id].get("result").Exists() {
				t.Errorf("%s: %s", id, got[id].body)
			}
		}
		if got["2"].get("result").Raw != "{}" {
			t.Errorf("ping: %s", got["2"].body)
		}
		for _, m := range got {
			if m.header.Get(headerSession) != "s-1" || m.header.Get(headerVersion) != legacyVersion {
				t.Errorf("an answer without its session: %v", m.header)
			}
		}
	})
	t.Run(stdio, func(t *testing.T) {
		t.Parallel()
		cfg, seen := lines(t, "box", map[string][]string{
			"tools/call": {elicitSure, samplePlan, listRoots, pinged, odd, "pause", `{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"done"}]}}`},
		})
		h := newTestHost(t, cfg)
		if res := toolsOf(t, h, "box").Bind(nil).Call(t.Context(), "box__run", ""); res.Text != "done" {
			t.Errorf("%+v", res)
		}
		got := map[string]heard{}
		eventually(t, "answers", func() bool {
			for _, m := range seen() {
				if m.key == "" {
					got[m.id] = m
				}
			}
			return len(got) == 5
		})
		if got["2"].get("result").Raw != "{}" || got[`"srv-1"`].get("error.code").Int() != -32601 || got["4"].get("error.code").Int() != -32601 {
			t.Errorf("%v", got)
		}
	})
}

// What is offered is announced, and answered by the caller's Asker, byte for byte.
func TestAsked(t *testing.T) {
	t.Parallel()
	s := newScript(t)
	asking(t, s, elicitSure, samplePlan, listRoots)
	cfg := config("box", stateful, s.front)
	cfg.Elicitation, cfg.Sampling, cfg.Roots = true, true, []string{"file:///data/src", "file:///tmp"}
	h := newTestHost(t, cfg)
	b := toolsOf(t, h, "box").Bind(nil)
	asker := &answerer{answer: `{"action":"accept","role":"assistant","content":{"n":9007199254740993,"b":1.50}}`}
	if res := b.Call(WithAsker(t.Context(), asker), "box__run", ""); res.Text != "done" {
		t.Errorf("%+v", res)
	}
	if caps := s.await(t, "POST initialize").get("params.capabilities").Raw; caps != `{"sampling":{},"elicitation":{"form":{}},"roots":{}}` {
		t.Errorf("announced %s", caps)
	}
	got := s.answers()
	for _, id := range []string{`"srv-1"`, "3.0"} {
		if got[id].get("result").Raw != asker.answer {
			t.Errorf("%s: %s", id, got[id].body)
		}
	}
	if roots := got["4"].get("result.roots").Raw; roots != `[{"uri":"file:///data/src","name":"src"},{"uri":"file:///tmp","name":"tmp"}]` {
		t.Errorf("roots %s", roots)
	}
	asked := strings.Join(asker.questions(), "\n")
	if !strings.Contains(asked, "elicit box "+sure) || !strings.Contains(asked, `sample box {"messages":[{"role":"user"`) || !strings.Contains(asked, `"maxTokens":9007199254740993`) {
		t.Errorf("asked %s", asked)
	}
}

// Without a usable answer the server gets a no, and a reason, but never a yes.
func TestAskedInVain(t *testing.T) {
	url := `{"jsonrpc":"2.0","id":"srv-1","method":"elicitation/create","params":{"mode":"url","message":"m","url":"https://x","elicitationId":"1"}}`
	tools := `{"jsonrpc":"2.0","id":"srv-1","method":"sampling/createMessage","params":{"messages":[],"maxTokens":1,"tools":[{"name":"t"}]}}`
	sample := strings.Replace(samplePlan, "3.0", `"srv-1"`, 1)
	for name, test := range map[string]struct {
		asker    Asker
		question string
		want     string // in the answer
	}{
		"nobody to ask":             {nil, elicitSure, `"result":{"_meta":{"mcp-via-llm/reason":"not answered: nobody can be asked during this request"},"action":"decline"}`},
		"nobody to ask for a model": {nil, sample, `"error":{"code":-1,"message":"not answered: nobody can be asked`},
		"an error":                  {&answerer{err: errors.New("the budget is spent")}, sample, `"error":{"code":-1,"message":"not answered: the budget is spent"`},
		"an error of elicitation":   {&answerer{err: errors.New("nobody there")}, elicitSure, `"action":"decline"`},
		"no answer":                 {&answerer{}, elicitSure, `"action":"decline"`},
		"not an answer":             {&answerer{answer: `"yes"`}, elicitSure, `"action":"decline"`},
		"an odd action":             {&answerer{answer: `{"action":"sure"}`}, elicitSure, `"action":"decline"`},
		"no object":                 {&answerer{answer: `[1]`}, sample, `"error":{"code":-1`},
		"a panic":                   {panicker{}, elicitSure, `"action":"decline"`},
		"a mode not offered":        {&answerer{answer: `{"action":"accept"}`}, url, `"error":{"code":-32602`},
		"tools not offered":         {&answerer{answer: `{"role":"assistant"}`}, tools, `"error":{"code":-32602`},
		"a decline":                 {&answerer{answer: `{"action":"decline"}`}, elicitSure, `"result":{"action":"decline"}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScript(t)
			asking(t, s, test.question)
			cfg := config("box", stateful, s.front)
			cfg.Elicitation, cfg.Sampling = true, true
			h := newTestHost(t, cfg)
			ctx := t.Context()
			if test.asker != nil {
				ctx = WithAsker(ctx, test.asker)
			}
			if res := toolsOf(t, h, "box").Bind(nil).Call(ctx, "box__run", ""); res.Text != "done" {
				t.Errorf("%+v", res)
			}
			if got := s.answers()[`"srv-1"`].body; !strings.Contains(got, test.want) || strings.Contains(got, "accept") {
				t.Errorf("answered %s", got)
			}
		})
	}
}

type panicker struct{}

func (panicker) Sample(context.Context, string, json.RawMessage) (json.RawMessage, error) { panic("x") }
func (panicker) Elicit(context.Context, string, json.RawMessage) (json.RawMessage, error) { panic("x") }

// A server may ask only so much in one call, and a question that it takes back is
// not pursued. Waiting for an answer costs the tool no time.
func TestQuestionsHaveLimits(t *testing.T) {
	t.Parallel()
	s := newScript(t)
	var many []string
	for i := range maxQuestions + 3 {
		many = append(many, strings.Replace(elicitSure, "srv-1", fmt.Sprint("q", i), 1))
	}
	asking(t, s, many...)
	cfg := config("box", stateful, s.front)
	cfg.Elicitation, cfg.ToolTimeout, cfg.ToolTimeoutMax = true, time.Second, time.Second
	h := newTestHost(t, cfg)
	b := toolsOf(t, h, "box").Bind(nil)
	asker := &answerer{answer: `{"action":"accept"}`, wait: make(chan struct{})}
	time.AfterFunc(2500*time.Millisecond, func() { close(asker.wait) })
	if res := b.Call(WithAsker(t.Context(), asker), "box__run", ""); res.Text != "done" {
		t.Errorf("%+v", res)
	}
	if n := len(asker.questions()); n != maxQuestions {
		t.Errorf("asked %d times, want %d", n, maxQuestions)
	}

	s.answer("POST tools/call", func(w http.ResponseWriter, r *http.Request, m heard) {
		event(w, elicitSure)
		eventually(t, "question", func() bool { return len(asker.questions()) == maxQuestions+1 })
		event(w, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"srv-1"}}`)
		event(w, `{"jsonrpc":"2.0","id":`+m.id+`,"result":{"content":[{"type":"text","text":"done"}]}}`)
	})
	before := len(s.all("POST answer"))
	asker.wait = make(chan struct{})
	if res := b.Call(WithAsker(t.Context(), asker), "box__run", ""); res.Text != "done" {
		t.Errorf("%+v", res)
	}
	if n := len(s.all("POST answer")); n != before {
		t.Errorf("a question that was taken back was answered")
	}
}
