package loop

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tidwall/gjson"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/log"
	"go.opentelemetry.io/otel/log/embedded"
	"pgregory.net/rapid"
)

const captured = `{"model":"m","messages":[{"role":"system","content":"Be brief."},{"role":"user","content":[{"type":"text","text":"Weather?"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}]}]}`

func TestContentOnSpans(t *testing.T) {
	var s spans
	g := s.traced(newRig(whole(calls("mcp_wx__now", `{"city":"Oslo"}`)), whole(says("Sunny."))))
	g.options.Content = Content{Spans: true, Limit: 1000}
	g.post(captured)
	chats, call := s.named("chat m"), s.one(t, "execute_tool mcp_wx__now")
	for _, row := range []struct{ got, want string }{
		{attr(chats[0], "gen_ai.system_instructions"), `[{"type":"text","content":"Be brief."}]`},
		{attr(chats[0], "gen_ai.input.messages"), `[{"role":"user","parts":[{"type":"text","content":"Weather?"},{"type":"image_url"}]}]`},
		{attr(chats[0], "gen_ai.output.messages"), `[{"role":"assistant","parts":[{"type":"tool_call","id":"c1","name":"mcp_wx__now","arguments":{"city":"Oslo"}}],"finish_reason":"tool_calls"}]`},
		{gjson.Get(attr(chats[1], "gen_ai.input.messages"), "2").Raw, `{"role":"tool","parts":[{"type":"tool_call_response","id":"c1","response":"result of mcp_wx__now"}]}`},
		{attr(chats[1], "gen_ai.output.messages"), `[{"role":"assistant","parts":[{"type":"text","content":"Sunny."}],"finish_reason":"stop"}]`},
		{attr(call, "gen_ai.tool.call.arguments"), `{"city":"Oslo"}`},
		{attr(call, "gen_ai.tool.call.result"), "result of mcp_wx__now"},
	} {
		if diff := cmp.Diff(row.want, row.got); diff != "" {
			t.Error(diff)
		}
	}
}

func TestNoContentByDefault(t *testing.T) {
	var s spans
	g := s.traced(newRig(whole(calls("mcp_wx__now", `{"city":"Oslo"}`)), whole(says("Sunny."))))
	g.post(captured)
	for _, span := range s.Ended() {
		for _, a := range span.Attributes() {
			for _, said := range []string{"brief", "Weather", "Oslo", "Sunny", "result of"} {
				if strings.Contains(a.Value.Emit(), said) {
					t.Errorf("%s has %v", span.Name(), a)
				}
			}
		}
	}
}

// eventLog keeps events.
type eventLog struct {
	embedded.Logger
	records []log.Record
}

func (l *eventLog) Emit(_ context.Context, r log.Record)                { l.records = append(l.records, r) }
func (l *eventLog) Enabled(context.Context, log.EnabledParameters) bool { return true }

func TestContentInEvents(t *testing.T) {
	var events eventLog
	var s spans
	g := s.traced(newRig(whole(says("Sunny."))))
	g.options.Content = Content{Events: &events, Limit: 1000}
	g.post(captured)
	if len(events.records) != 1 || events.records[0].EventName() != "gen_ai.client.inference.operation.details" {
		t.Fatalf("events %v", events.records)
	}
	if attr(s.one(t, "chat m"), "gen_ai.input.messages") != "" {
		t.Error("the span has content too")
	}
	var b strings.Builder
	events.records[0].WalkAttributes(func(a attribute.KeyValue) bool {
		b.WriteString(string(a.Key) + "=" + a.Value.String() + "\n")
		return true
	})
	for _, want := range []string{"gen_ai.operation.name=chat", "Weather?", "Be brief.", "Sunny."} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %s in %s", want, b.String())
		}
	}
}

// TestContentIsBounded asserts that what is recorded is JSON, in the form of the
// conventions, and of bounded size, whatever was said.
func TestContentIsBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(0, 400).Draw(t, "limit")
		var messages []map[string]any
		for range rapid.IntRange(0, 12).Draw(t, "messages") {
			m := map[string]any{"role": rapid.SampledFrom([]string{"system", "user", "assistant", "tool"}).Draw(t, "role"), "content": rapid.String().Draw(t, "text")}
			if rapid.Bool().Draw(t, "calls") {
				call := map[string]any{"id": "c", "function": map[string]any{"name": "f", "arguments": rapid.SampledFrom([]string{"{}", `{"a":"` + strings.Repeat("b", 500) + `"}`, "{broken"}).Draw(t, "arguments")}}
				m["tool_calls"] = []any{call, call, call}
			}
			messages = append(messages, m)
		}
		body, err := json.Marshal(messages)
		if err != nil {
			t.Fatal(err)
		}
		instructions, conversation := Content{Limit: limit}.messages(gjson.ParseBytes(body))
		for _, out := range []string{instructions, conversation} {
			if out != "" && !gjson.Valid(out) {
				t.Fatalf("not JSON: %s", out)
			}
			if len(out) > 8*limit+400 { // text may be escaped, and one message passes the limit by its frame
				t.Fatalf("%d bytes for a limit of %d: %s", len(out), limit, out)
			}
		}
	})
}
