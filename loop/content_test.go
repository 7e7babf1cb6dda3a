package loop

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tidwall/gjson"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/log"
	"go.opentelemetry.io/otel/log/embedded"
	"pgregory.net/rapid"
)

const captured = `{"model":"m","messages":[{"role":"system","content":"Be brief."},{"role":"user","content":[{"type":"text","text":"Weather?"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}]},{"role":"developer","content":"In Celsius."}]}`

func TestContentOnSpans(t *testing.T) {
	var s spans
	g := s.traced(newRig(whole(calls("mcp_wx__now", `{"city":"Oslo"}`)), whole(says("Sunny."))))
	g.options.Content = Content{Spans: true, Limit: 1000}
	g.post(captured)
	chats, call := s.named("chat m"), s.one(t, "execute_tool mcp_wx__now")
	for _, row := range []struct{ got, want string }{
		{attr(chats[0], "gen_ai.system_instructions"), ""},
		{attr(chats[0], "gen_ai.input.messages"), `[{"role":"system","parts":[{"type":"text","content":"Be brief."}]},{"role":"user","parts":[{"type":"text","content":"Weather?"},{"type":"image_url"}]},{"role":"developer","parts":[{"type":"text","content":"In Celsius."}]}]`},
		{attr(chats[0], "gen_ai.output.messages"), `[{"role":"assistant","parts":[{"type":"tool_call","id":"c1","name":"mcp_wx__now","arguments":{"city":"Oslo"}}],"finish_reason":"tool_calls"}]`},
		{gjson.Get(attr(chats[1], "gen_ai.input.messages"), "4").Raw, `{"role":"tool","parts":[{"type":"tool_call_response","id":"c1","response":"result of mcp_wx__now"}]}`},
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
	g := s.traced(newRig(whole(calls("mcp_wx__now", `{"id":9007199254740993,"big":18446744073709551617,"part":0.5,"none":null}`)), respond(500, "text/plain", "x")))
	g.options.Content = Content{Events: &events, Limit: 1000}
	g.options.Provider = func(*http.Request, *Client) []attribute.KeyValue {
		return []attribute.KeyValue{attribute.String("gen_ai.provider.name", "openai"), attribute.Int("server.port", 443)}
	}
	g.post(captured)
	if len(events.records) != 2 || events.records[0].EventName() != "gen_ai.client.inference.operation.details" {
		t.Fatalf("events %v", events.records)
	}
	chats := s.named("chat m")
	for i, record := range events.records {
		of := map[string]string{}
		record.WalkAttributes(func(a attribute.KeyValue) bool {
			of[string(a.Key)] = a.Value.String()
			return true
		})
		for _, a := range chats[i].Attributes() {
			if got := of[string(a.Key)]; got != a.Value.String() {
				t.Errorf("event %d: %s is %q, and %q on the span", i, a.Key, got, a.Value.String())
			}
		}
		if attr(chats[i], "gen_ai.input.messages") != "" || attr(chats[i], "gen_ai.provider.name") != "openai" || attr(chats[i], "gen_ai.request.stream") != "" {
			t.Errorf("span %d: %v", i, chats[i].Attributes())
		}
		for _, want := range [][]string{{"Weather?", "Be brief.", "In Celsius.", ":9007199254740993,", `"18446744073709551617"`, "0.5"}, {"Weather?", "result of"}}[i] {
			if said := of["gen_ai.input.messages"] + of["gen_ai.output.messages"]; !strings.Contains(said, want) {
				t.Errorf("event %d: no %s in %s", i, want, said)
			}
		}
	}
	if attr(chats[1], "error.type") != "500" {
		t.Errorf("%v", chats[1].Attributes())
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
		out := Content{Limit: limit}.messages(gjson.ParseBytes(body))
		if !gjson.Valid(out) {
			t.Fatalf("not JSON: %s", out)
		}
		if len(out) > 8*limit+400 { // text may be escaped, and one message passes the limit by its frame
			t.Fatalf("%d bytes for a limit of %d: %s", len(out), limit, out)
		}
	})
}
