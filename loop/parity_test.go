package loop

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/mcp-via-llm/mcp-via-llm/loop/transcript"
	"github.com/tidwall/gjson"
	"pgregory.net/rapid"
)

// asChunks is a completion as a stream that cuts its text and its arguments.
func asChunks(t *rapid.T, completion string) string {
	var b strings.Builder
	emit := func(delta, finish string) {
		fmt.Fprintf(&b, "data: {\"id\":%s,\"choices\":[{\"index\":0,\"delta\":%s,\"finish_reason\":%s}]}\n\n", gjson.Get(completion, "id").Raw, delta, finish)
	}
	message := gjson.Get(completion, "choices.0.message")
	first := `{"role":"assistant"}`
	if content := message.Get("content"); content.Type == gjson.String {
		first = `{"role":"assistant","content":""}`
		emit(first, "null")
		for _, piece := range pieces(t, content.String()) {
			emit(fmt.Sprintf(`{"content":%q}`, piece), "null")
		}
	} else {
		emit(`{"role":"assistant","content":null}`, "null")
	}
	for i, call := range message.Get("tool_calls").Array() {
		emit(fmt.Sprintf(`{"tool_calls":[{"index":%d,"id":%s,"type":"function","function":{"name":%s,"arguments":""}}]}`, i, call.Get("id").Raw, call.Get("function.name").Raw), "null")
		for _, piece := range pieces(t, call.Get("function.arguments").String()) {
			emit(fmt.Sprintf(`{"tool_calls":[{"index":%d,"function":{"arguments":%q}}]}`, i, piece), "null")
		}
	}
	emit("{}", gjson.Get(completion, "choices.0.finish_reason").Raw)
	fmt.Fprintf(&b, "data: {\"id\":%s,\"choices\":[],\"usage\":%s}\n\ndata: [DONE]\n\n", gjson.Get(completion, "id").Raw, gjson.Get(completion, "usage").Raw)
	return b.String()
}

func pieces(t *rapid.T, s string) (out []string) {
	for s != "" {
		n := rapid.IntRange(1, len(s)).Draw(t, "cut")
		out, s = append(out, s[:n]), s[n:]
	}
	return out
}

// A turn gives the client the same text, calls, usage and extensions, and the
// model the same history, whether it is streamed or not.
func TestStreamedAndWholeAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var completions []string
		for n, rounds := 1, rapid.IntRange(1, 4).Draw(t, "rounds"); n <= rounds; n++ {
			text := rapid.SampledFrom([]string{"null", `""`, `"Let me look."`, `"One\n"`, `"Two\n\n"`, `"\nThree"`}).Draw(t, "text")
			var entries []string
			names := []string{"mcp_wx__now", "mcp_clock__now"}
			if n == rounds {
				names = []string{"book_table", "mcp_clock__now"}
			}
			for i := range rapid.IntRange(0, 3).Draw(t, "calls") {
				name := rapid.SampledFrom(names).Draw(t, "name")
				arguments := rapid.SampledFrom([]string{"{}", `{"a":1}`, `{"n": 9007199254740993, "s": "x"}`, `{"a":`}).Draw(t, "arguments")
				entries = append(entries, fmt.Sprintf(`{"id":"c%d_%d","type":"function","function":{"name":%q,"arguments":%q}}`, n, i, name, arguments))
			}
			if n < rounds && len(entries) == 0 {
				entries = append(entries, fmt.Sprintf(`{"id":"c%d","type":"function","function":{"name":"mcp_wx__now","arguments":"{}"}}`, n))
			}
			calls, finish := "", "stop"
			if len(entries) > 0 {
				calls, finish = `,"tool_calls":[`+strings.Join(entries, ",")+"]", "tool_calls"
			}
			completions = append(completions, fmt.Sprintf(`{"id":"cc-%d","choices":[{"index":0,"message":{"role":"assistant","content":%s%s},"finish_reason":%q}],"usage":{"prompt_tokens":%d,"completion_tokens":1,"total_tokens":%d}}`, n, text, calls, finish, n, n+1))
		}
		// The script ends with an answer, whatever the last of the drawn ones calls.
		completions = append(completions, says("The end."))
		plain, streaming := newRig(), newRig()
		if rapid.Bool().Draw(t, "approve") {
			plain.tools.approve, streaming.tools.approve = []string{"mcp_clock__now"}, []string{"mcp_clock__now"}
		}
		for _, c := range completions {
			plain.model.answers = append(plain.model.answers, whole(c))
			streaming.model.answers = append(streaming.model.answers, streamed(asChunks(t, c)))
		}
		own := `,"tools":[{"type":"function","function":{"name":"book_table"}}]`
		body := plain.post(question + own + "}").Body.String()
		s := read(streaming.post(question + own + `,"stream":true,"stream_options":{"include_usage":true}}`).Body.String())

		choice := gjson.Get(body, "choices.0")
		want := map[string]string{"text": untagged(choice.Get("message.content").String()), "finish": choice.Get("finish_reason").String(),
			"usage": gjson.Get(body, "usage").Raw, "extensions": gjson.Get(body, "extensions.mcp_via_llm").Raw}
		got := map[string]string{"text": untagged(s.text), "finish": strings.Join(s.finishes, ","), "usage": strings.Join(s.usage, ","), "extensions": strings.Join(s.extensions, ",")}
		for i, call := range choice.Get("message.tool_calls").Array() {
			want[fmt.Sprint("call ", i)] = call.Get("id").String() + call.Get("function.name").String() + call.Get("function.arguments").String()
		}
		for i := range s.names {
			got[fmt.Sprint("call ", i)] = s.callIDs[i] + s.names[i] + s.arguments[i]
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("the client sees (-whole +streamed):\n%s", diff)
		}
		if diff := cmp.Diff(history(plain), history(streaming)); diff != "" {
			t.Fatalf("the model sees (-whole +streamed):\n%s", diff)
		}
		if !slices.Equal([]int{s.roles, s.dones, len(s.ids)}, []int{1, 1, 1}) {
			t.Fatalf("%d roles, %d [DONE], ids %v", s.roles, s.dones, s.ids)
		}
	})
}

// untagged is a text without what differs from question to question.
func untagged(s string) string { return string(transcript.Comparable([]byte(s))) }

// history is what the model was sent in the last segment.
func history(g *rig) string {
	return gjson.Get(g.model.asked(g.model.count()), "messages|@pretty").Raw
}
