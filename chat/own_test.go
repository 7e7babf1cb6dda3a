package chat

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

// The gateway's own text and calls come after the model's, streamed and whole alike.
func TestWordsOfTheGateway(t *testing.T) {
	const call = `{"index":0,"id":"m","type":"function","function":{"name":"mcp_wx__now","arguments":"{}"}}`
	for _, tt := range []struct {
		name, message string // of the model
		say           []string
		give          []Call
		text, calls   string
	}{
		{"after text and a call that stays inside", `{"role":"assistant","content":"Let me.","tool_calls":[` + call + `]}`, []string{"May I?"}, nil, "Let me.\n\nMay I?", ""},
		{"after no text", `{"role":"assistant","content":null,"tool_calls":[` + call + `]}`, []string{"May I?"}, nil, "May I?", ""},
		{"twice", `{"role":"assistant","content":"One\n"}`, []string{"two", "three"}, nil, "One\n\ntwo\n\nthree", ""},
		{"calls", `{"role":"assistant","content":"Let me.","tool_calls":[` + call + `]}`, nil, []Call{NewCall("e1", "ask", `{"q":"<\"x\">"}`), NewCall("e2", "ask", "{}")},
			"Let me.", `e1 ask {"q":"<\"x\">"}; e2 ask {}`},
		{"calls without a message of the model's", `{"role":"assistant","content":null}`, nil, []Call{NewCall("e1", "ask", "{}")}, "", "e1 ask {}"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, w := newRelay(), &Whole{Hidden: newRelay().Hidden}
			completion := Replayed(tt.message, "tool_calls", "")
			_, events, err := feed(r, AsChunk(completion), "[DONE]")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := w.Add(completion); err != nil {
				t.Fatal(err)
			}
			for _, s := range tt.say {
				events = append(events, r.Say(s))
				w.Say(s)
			}
			if tt.give != nil {
				events = append(events, r.Give(tt.give))
				w.Give(tt.give)
			}
			events = append(events, r.Finish("stop", "", "{}")...)
			text, roles := "", 0
			calls := make([]string, len(tt.give))
			for _, e := range events {
				delta := gjson.Get(e, "choices.0.delta")
				text += delta.Get("content").String()
				roles += len(delta.Get("role").String()) / len("assistant")
				for _, c := range delta.Get("tool_calls").Array() {
					calls[c.Get("index").Int()] += line(c)
				}
			}
			if got := strings.Join(calls, "; "); text != tt.text || got != tt.calls || roles != 1 {
				t.Errorf("streamed: %q %q, %d roles", text, got, roles)
			}
			message := gjson.GetBytes(w.Finish("stop", "", "{}"), "choices.0.message")
			calls = nil
			for _, c := range message.Get("tool_calls").Array() {
				calls = append(calls, line(c))
			}
			if got := strings.Join(calls, "; "); message.Get("content").String() != tt.text || got != tt.calls {
				t.Errorf("whole: %s", message.Raw)
			}
			if m := Visible(tt.text, tt.give); m.Text() != NormalText(tt.text) || len(m.CallIDs) != len(tt.give) {
				t.Errorf("comes back as %s", m.Raw)
			}
		})
	}
	w := &Whole{Hidden: newRelay().Hidden}
	if _, err := w.Add(Replayed(`{"role":"assistant","content":[{"type":"text","text":"a"}]}`, "stop", "")); err != nil {
		t.Fatal(err)
	}
	w.Say("b")
	if got := gjson.GetBytes(w.Finish("stop", "", "{}"), "choices.0.message.content").Raw; got != `[{"type":"text","text":"a"},{"type":"text","text":"b"}]` {
		t.Errorf("after parts: %s", got)
	}
}

func line(c gjson.Result) string {
	return fmt.Sprint(c.Get("id"), " ", c.Get("function.name"), " ", c.Get("function.arguments"))
}
