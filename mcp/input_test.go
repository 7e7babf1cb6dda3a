package mcp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// inputRequired answers calls that bring no answers by asking for input.
func inputRequired(s *script, requests, state string) {
	s.answer("POST tools/call", func(w http.ResponseWriter, _ *http.Request, m heard) {
		if m.get("params.inputResponses").Exists() || m.get("params.requestState").Exists() {
			result(w, m, `{"resultType":"complete","content":[{"type":"text","text":"done"}]}`)
			return
		}
		result(w, m, `{"resultType":"input_required","inputRequests":`+requests+`,"requestState":`+state+`}`)
	})
}

const (
	twoQuestions = `{"q<1>":{"method":"elicitation/create","params":` + sure + `},"r":{"method":"roots/list"}}`
	opaque       = `"op\u0061que<&>\ud83d\ude00"`
)

// 2026-07-28: a call that needs input is sent again with the answers and the state,
// as another request of the same call.
func TestInputRequired(t *testing.T) {
	t.Parallel()
	s := newScript(t).modern()
	inputRequired(s, twoQuestions, opaque)
	cfg := config("box", stateful, s.front)
	cfg.Elicitation, cfg.Roots = true, []string{"file:///data"}
	h := newTestHost(t, cfg)
	asker := &answerer{answer: `{"action":"accept","content":{"n":9007199254740993}}`}
	res := toolsOf(t, h, "box").Bind(nil).Call(WithAsker(t.Context(), asker), "box__run", `{"a":1.50}`)
	if res.Text != "done" || len(asker.questions()) != 1 || asker.questions()[0] != "elicit box "+sure {
		t.Errorf("%+v, asked %q", res, asker.questions())
	}
	calls := s.all("POST tools/call")
	if len(calls) != 2 || calls[0].id == calls[1].id {
		t.Fatalf("%d calls", len(calls))
	}
	first, second := calls[0], calls[1]
	if caps := first.get(`params._meta.io\.modelcontextprotocol/clientCapabilities`); !caps.Get("roots").Exists() || !caps.Get("elicitation").Exists() || caps.Get("sampling").Exists() {
		t.Errorf("announced %s", caps.Raw)
	}
	if got := second.get("params.requestState").String(); got != "opaque<&>😀" {
		t.Errorf("state %q", got)
	}
	if got := second.get("params.inputResponses.q<1>").Raw; got != asker.answer {
		t.Errorf("answer %s", got)
	}
	if got := second.get("params.inputResponses.r.roots.0.uri").String(); got != "file:///data" {
		t.Errorf("roots %s", second.body)
	}
	if second.get("params.arguments").Raw != `{"a":1.50}` || second.get("params.name").String() != "run" {
		t.Errorf("another call: %s", second.body)
	}
}

// Without an answer the model is told that a person is needed, and that is the end
// of the call.
func TestInputRequiredInVain(t *testing.T) {
	person := []string{"human confirmation", "cannot be given here", "The call was not completed"}
	const elicit = `{"q":{"method":"elicitation/create","params":{"message":"Sure?"}}}`
	for name, test := range map[string]struct {
		requests string
		offered  bool
		asker    Asker
		says     []string
	}{
		"not offered":    {elicit, false, &answerer{answer: `{"action":"accept"}`}, person},
		"nobody":         {elicit, true, nil, person},
		"an error":       {elicit, true, &answerer{err: errors.New("no user")}, append(person, "no user")},
		"not an answer":  {elicit, true, &answerer{answer: `{"ok":true}`}, person},
		"no params":      {`{"q":{"method":"elicitation/create"}}`, false, nil, person},
		"sampling":       {`{"q":{"method":"sampling/createMessage","params":{}}}`, false, nil, []string{"sampling/createMessage", "cannot have here"}},
		"roots":          {`{"q":{"method":"roots/list"}}`, false, nil, []string{"roots/list", "cannot have here"}},
		"unknown method": {`{"q":{"method":"future/thing","params":{}}}`, false, nil, []string{"future/thing", "cannot have here"}},
		"by URL":         {`{"q":{"method":"elicitation/create","params":{"mode":"url","url":"https://x","message":"m","elicitationId":"1"}}}`, true, &answerer{answer: `{"action":"accept"}`}, person},
		"nothing named":  {`{}`, false, nil, []string{"input that it does not name"}},
		"not a map":      {`[]`, false, nil, []string{"input that it does not name"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScript(t).modern()
			state := opaque
			if strings.Contains(test.says[0], "does not name") {
				state = "null"
			}
			inputRequired(s, test.requests, state)
			cfg := config("box", stateful, s.front)
			cfg.Elicitation = test.offered
			h := newTestHost(t, cfg)
			ctx := t.Context()
			if test.asker != nil {
				ctx = WithAsker(ctx, test.asker)
			}
			res := toolsOf(t, h, "box").Bind(nil).Call(ctx, "box__run", "")
			for _, says := range test.says {
				if res.Outcome != OutcomeToolError || !res.IsError || !strings.Contains(res.Text, says) {
					t.Errorf("%+v, want %q", res, says)
				}
			}
			if n := len(s.all("POST tools/call")); n != 1 {
				t.Errorf("%d calls", n)
			}
			if st := h.Status()[0]; st.State != "connected" {
				t.Errorf("%+v", st)
			}
		})
	}
}

// A server that asks for ever, or is busy for ever, is asked no more at last.
func TestInputRequiredForEver(t *testing.T) {
	for name, test := range map[string]struct {
		answer string
		calls  int
		says   string
	}{
		"asks": {`{"resultType":"input_required","inputRequests":{"q":{"method":"roots/list"}},"requestState":"s"}`, maxQuestions + 1, "10 times"},
		"busy": {`{"resultType":"input_required","requestState":"s"}`, maxBusy + 1, "too busy"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScript(t).modern()
			s.answer("POST tools/call", func(w http.ResponseWriter, _ *http.Request, m heard) { result(w, m, test.answer) })
			cfg := config("box", stateful, s.front)
			cfg.Roots = []string{"file:///data"}
			h := newTestHost(t, cfg)
			res := toolsOf(t, h, "box").Bind(nil).Call(t.Context(), "box__run", "")
			if res.Outcome != OutcomeToolError || !strings.Contains(res.Text, test.says) {
				t.Errorf("%+v", res)
			}
			if n := len(s.all("POST tools/call")); n != test.calls {
				t.Errorf("%d calls, want %d", n, test.calls)
			}
		})
	}
}

// The SDK's own server, of both eras, gets what it asks for.
func TestInputOfTheSDK(t *testing.T) {
	for _, kind := range []string{stateful, stateless, plainSSE} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			box := newToolbox()
			box.server.AddTool(&sdk.Tool{Name: "confirm", InputSchema: map[string]any{"type": "object"}},
				func(_ context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
					answer, ok := req.Params.InputResponses["q"].(*sdk.ElicitResult)
					if !ok {
						return &sdk.CallToolResult{RequestState: "round 2", InputRequests: sdk.InputRequestMap{"q": &sdk.ElicitParams{
							Message: "Sure?", RequestedSchema: map[string]any{"type": "object"}}}}, nil
					}
					return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: fmt.Sprint(answer.Action, " ", req.Params.RequestState)}}}, nil
				})
			cfg := config("box", kind, box.serve(t, kind))
			cfg.Elicitation = true
			h := newTestHost(t, cfg)
			b := toolsOf(t, h, "box").Bind(nil)
			for _, action := range []string{"accept", "decline", "cancel"} {
				asker := &answerer{answer: `{"action":"` + action + `"}`}
				if res := b.Call(WithAsker(t.Context(), asker), "box__confirm", ""); res.Text != action+" round 2" {
					t.Errorf("%s: %+v", action, res)
				}
			}
		})
	}
}
