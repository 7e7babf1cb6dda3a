package loop

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidwall/gjson"
)

// inquisitive are replicas with a tool that asks the model and gives what it says.
func inquisitive(t *testing.T, n int, params ...string) []*rig {
	rigs, _, _ := replicas(t, n)
	for _, g := range rigs {
		g.client.Sampling = Sampling{MaxRequests: 2, MaxTokens: 100}
		g.tools.run = func(ctx context.Context, name, _ string) Result {
			if name != "mcp_mail__send" {
				return Result{Text: "result of " + name, Outcome: "ok"}
			}
			var texts []string
			for _, p := range params {
				got, err := AskerFrom(ctx).Sample(ctx, "srv", json.RawMessage(p))
				if err != nil {
					got = []byte(err.Error())
				}
				texts = append(texts, string(got))
			}
			return Result{Text: strings.Join(texts, " "), Outcome: "ok"}
		}
	}
	return rigs
}

const sums = `{"messages":[{"role":"user","content":{"type":"text","text":"2+2?"}}],"systemPrompt":"Be brief.","maxTokens":1000,"temperature":0.5,"stopSequences":["."]}`

// A server asks the model of the turn: beside the conversation, within the budget,
// on the turn's account.
func TestSampling(t *testing.T) {
	for _, streaming := range []bool{false, true} {
		g := inquisitive(t, 1, sums)[0]
		a := &app{stream: streaming, edit: []func(*http.Request){as(authAlice), func(r *http.Request) { r.Header.Set(HeaderSession, "s") }}}
		a.answers(g, calls("mcp_mail__send", "{}"))
		g.answer(whole(says("Four.")))
		a.answers(g, says("It is four."))
		s := a.send(g, asks)
		if got, want := g.model.asked(2), `{"model":"m","messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"2+2?"}],"max_completion_tokens":100,"temperature":0.5,"stop":["."]}`; got != want {
			t.Errorf("the model was asked\n%s, want\n%s", got, want)
		}
		if h := g.model.requests[1].Header; h.Get("Authorization") != authAlice || h.Get(HeaderSession) != "" {
			t.Errorf("with %v", h)
		}
		if got := g.history(); got != `user:Weather?|assistant:(c1 mcp_mail__send)|toolc1:{"role":"assistant","content":{"type":"text","text":"Four."},"model":"","stopReason":"endTurn"}` {
			t.Errorf("the model saw %s", got)
		}
		if s.text != "It is four." || s.iterations != 2 || gjson.Get(s.usage, "total_tokens").Int() != 12+23+23 {
			t.Errorf("%s", s.body)
		}
		if r := g.reports[0]; r.Sampled != 1 || len(r.Segments) != 2 {
			t.Errorf("%+v", r)
		}
	}
}

// What a server may ask, and what the model is then asked.
func TestSamplingRequests(t *testing.T) {
	picture := `{"messages":[{"role":"user","content":[{"type":"text","text":"What is it?"},{"type":"image","mimeType":"image/png","data":"iVBORw0KGgo="}]},{"role":"assistant","content":{"type":"audio","mimeType":"audio/wav","data":"UklGRg=="}}]}`
	for _, tt := range []struct {
		name, params string
		body         string // of the client, besides its messages
		edit         func(*Client)
		answer       answerFunc
		asked        string // messages and limit, if the model was asked
		told         string
	}{
		{"few tokens", `{"messages":[{"role":"user","content":{"type":"text","text":"x"}}],"maxTokens":7}`, `"max_tokens":5,"user":"u1",`, nil, whole(says("y")),
			`[{"role":"user","content":"x"}],"max_tokens":7,"user":"u1"}`, `"text":"y"`},
		{"a dialect", `{"messages":[{"role":"user","content":{"type":"text","text":"x"}}]}`, "", func(c *Client) { c.Dialect = "ollama" }, whole(says("y")),
			`[{"role":"user","content":"x"}],"max_tokens":100}`, `"text":"y"`},
		{"cut short", `{"messages":[{"role":"user","content":{"type":"text","text":"x"}}]}`, "", nil, whole(strings.Replace(says("y"), `"stop"`, `"length"`, 1)),
			`[{"role":"user","content":"x"}],"max_completion_tokens":100}`, `"stopReason":"maxTokens"`},
		{"a model that streams", `{"messages":[{"role":"user","content":{"type":"text","text":"x"}}]}`, "", nil, streamed(asStream(says("y"))),
			`[{"role":"user","content":"x"}],"max_completion_tokens":100}`, `"text":"y"`},
		{"a picture that is described", picture, "", nil, whole(says("A dot.")),
			`[{"role":"user","content":[{"type":"text","text":"What is it?"},{"type":"text","text":"[image image/png]"}]},{"role":"assistant","content":[{"type":"text","text":"[audio audio/wav]"}]}],"max_completion_tokens":100}`, "A dot."},
		{"a picture that is shown", picture, "", func(c *Client) { c.Images = imagesAfter }, whole(says("A dot.")),
			`[{"role":"user","content":[{"type":"text","text":"What is it?"},{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgo="}}]},{"role":"assistant","content":[{"type":"text","text":"[audio audio/wav]"}]}],"max_completion_tokens":100}`, "A dot."},
		{"no messages", `{}`, "", nil, nil, "", "there are no messages"},
		{"a role", `{"messages":[{"role":"system","content":{"type":"text","text":"x"}}]}`, "", nil, nil, "", `the role "system"`},
		{"content", `{"messages":[{"role":"user","content":{"type":"tool_use"}}]}`, "", nil, nil, "", `type "tool_use"`},
		{"off", sums, "", func(c *Client) { c.Sampling = Sampling{} }, nil, "", errNoSampling.Error()},
		{"an error", sums, "", nil, respond(429, "application/json", `{"error":{"message":"secret"}}`), "-", "answered with status 429"},
		{"an error in a 200", sums, "", nil, whole(`{"error":{"message":"overloaded"}}`), "-", "overloaded"},
		{"no completion", sums, "", nil, whole(`[]`), "-", "not a JSON object"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := inquisitive(t, 1, tt.params)[0]
			if tt.edit != nil {
				tt.edit(g.client)
			}
			g.answer(whole(calls("mcp_mail__send", "{}")))
			if tt.answer != nil {
				g.answer(tt.answer)
			}
			g.answer(whole(says("Done.")))
			g.post("{" + tt.body + chatOf(asks)[1:])
			switch got := g.model.asked(2); {
			case tt.asked == "" && !strings.Contains(got, "mcp_mail__send"):
				t.Errorf("the model was asked %s", got)
			case len(tt.asked) > 1 && got != `{"model":"m","messages":`+tt.asked:
				t.Errorf("the model was asked\n%s, want\n%s", got, tt.asked)
			}
			if got := g.history(); !strings.Contains(got, tt.told) || strings.Contains(got, "secret") {
				t.Errorf("the server was told %s, want %s", got, tt.told)
			}
		})
	}
	t.Run("over the budget", func(t *testing.T) {
		g := inquisitive(t, 1, sums, sums, sums)[0]
		g.answer(whole(calls("mcp_mail__send", "{}")), whole(says("one")), whole(says("two")), whole(says("Done.")))
		g.post(chatOf(asks))
		if got := g.history(); g.model.count() != 4 || !strings.Contains(got, "two") || !strings.HasSuffix(got, errSampled.Error()) {
			t.Errorf("the model saw %s", got)
		}
	})
}

// A server whose call outlives its turn may ask the model, too: the turn that
// brings the results pays.
func TestSamplingBesideTheTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rigs := inquisitive(t, 2, sums)
		ask := rigs[0].tools.run
		rigs[0].tools.run = func(ctx context.Context, name, arguments string) Result {
			time.Sleep(time.Second)
			return ask(ctx, name, arguments)
		}
		var told atomic.Int64
		rigs[0].options.OnSegment = func(context.Context, SegmentEvent) { told.Add(1) }
		a := &app{}
		a.answers(rigs[0], mixedCalls(), says("Four."))
		if s := a.send(rigs[0], asks); gjson.Get(s.usage, "total_tokens").Int() != 12 {
			t.Errorf("%s", s.body)
		}
		time.Sleep(5 * time.Second)
		if n := told.Load(); n != 2 {
			t.Errorf("told of %d exchanges with the model, want the turn's and the server's", n)
		}
		a.answers(rigs[1], says("Done."), says("Bye."))
		if s := a.send(rigs[1], booked); gjson.Get(s.usage, "total_tokens").Int() != 23+23 || !strings.Contains(rigs[1].history(), "Four.") {
			t.Errorf("%s; the model saw %s", s.body, rigs[1].history())
		}
		if s := a.send(rigs[1], thanks); gjson.Get(s.usage, "total_tokens").Int() != 23 {
			t.Errorf("%s", s.body)
		}
	})
}
