package telemetry_test

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mcp-via-llm/mcp-via-llm/e2e/llm"
)

// mixedTurns is a mixed turn of three segments, and the answer to its resume.
func mixedTurns() llm.Brain {
	return llm.Sequence(
		llm.Answer{Text: "Let me add.", Prompt: 100, Output: 20, Calls: []llm.ToolCall{llm.Call("c1", "calc__add_numbers", `{"a": 5, "b": 7}`)}}.Step(),
		llm.Answer{Prompt: 150, Cached: 64, Output: 30, Calls: []llm.ToolCall{
			llm.Call("c2", "shop__look", `{"name":"bread"}`), llm.Call("c3", "shop__refuse", `{"name":"cake"}`),
		}}.Step(),
		llm.Answer{Prompt: 200, Cached: 128, Output: 12, Calls: []llm.ToolCall{
			llm.Call("c4", "shop__order", `{"name":"bread"}`), llm.Call("c5", "book_table", `{}`),
		}}.Step(),
		llm.Answer{Text: "All done.", Prompt: 300, Output: 7}.Step(),
	)
}

const (
	request = `{"model":"scripted-1","stream":true,"temperature":0.5,"max_completion_tokens":99,"tools":[{"type":"function","function":{"name":"book_table"}}],` +
		`"messages":[{"role":"user","content":"Order bread and book a table."}`
	called = `,{"role":"assistant","content":"Let me add.","tool_calls":[{"id":"c5","type":"function","function":{"name":"book_table","arguments":"{}"}}]}` +
		`,{"role":"tool","tool_call_id":"c5","content":"booked"}`
)

// Two requests of one browser, in two traces.
const (
	firstTrace, firstSpan   = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	resumeTrace, resumeSpan = "1bf7651916cd43dd8448eb211c80319c", "c7ad6b7169203331"
)

func browser(trace, span string) http.Header {
	return http.Header{"Traceparent": {"00-" + trace + "-" + span + "-01"}, "Tracestate": {"browser=1"}}
}

// sent gives the text of an answer, which must be a success.
func sent(t *testing.T, request *http.Request) string {
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Error(err)
		return ""
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Errorf("%s %v\n%s", response.Status, err, body)
	}
	return string(body)
}

const turn = "envoy:ingress > envoy:" + extProc + " > turn"

const extProc = "async envoy.service.ext_proc.v3.ExternalProcessor.Process egress"

// TestTraceOfAMixedTurn follows a mixed, streamed turn of three segments and its resume from the browser to the last
// tool: every span in its place, with its attributes and links, and every hop told of it.
func TestTraceOfAMixedTurn(t *testing.T) {
	w := start(t, setup{brain: mixedTurns()})
	stream := w.post(t, request+"]}", browser(firstTrace, firstSpan))
	if !strings.Contains(stream, `"name":"book_table"`) || strings.Contains(stream, `"name":"shop__order"`) {
		t.Fatalf("the mixed turn gave\n%s", stream)
	}
	resumed := make(chan string)
	go func() { resumed <- w.post(t, request+called+"]}", browser(resumeTrace, resumeSpan)) }()
	w.waitForResume(t)
	close(w.shop.gate)
	if stream = <-resumed; !strings.Contains(stream, "done.") {
		t.Fatalf("the resume gave\n%s", stream)
	}

	const hop = " > envoy:ingress > envoy:router llm egress"
	const tool = " > envoy:ingress > envoy:router mcp_shop egress"
	first := w.await(t, firstTrace, []string{
		turn + " > chat scripted-1",
		turn + " > chat scripted-1" + hop,
		turn + " > chat scripted-1" + hop,
		turn + " > execute_tool calc__add_numbers > tools/call add_numbers",
		turn + " > execute_tool shop__look > tools/call look" + tool,
		turn + " > execute_tool shop__order > tools/call order" + tool,
		turn + " > execute_tool shop__refuse > tools/call refuse" + tool,
		"envoy:ingress > envoy:router llm egress", // the first segment rides the application's own request
	})
	resume := w.await(t, resumeTrace, []string{
		turn + " > await background calls",
		turn + " > chat scripted-1",
		"envoy:ingress > envoy:router llm egress",
	})
	if len(first.roots) != 1 || first.roots[0].parent != firstSpan || len(resume.roots) != 1 || resume.roots[0].parent != resumeSpan {
		t.Errorf("the browser is not the parent of all:\n%v\n%v", first, resume)
	}
	checkAttributes(t, w, first)
	checkLinks(t, first, resume)
	w.checkHops(t, first)
	if t.Failed() {
		t.Logf("the mixed turn:\n%v\nthe resume:\n%v", first, resume)
	}
}

// waitForResume waits until the resume's wait for the hidden call is noted in the call's record.
func (w *world) waitForResume(t *testing.T) {
	t.Helper()
	eventually(t, arrival, func() string {
		keys, _ := w.redis.Do("KEYS", "mcpvia:*:r:t:*").([]any)
		for _, key := range keys {
			fields, _ := w.redis.Do("HKEYS", key).([]any)
			if slices.ContainsFunc(fields, func(f any) bool { return strings.HasPrefix(fmt.Sprint(f), "w:") }) {
				return ""
			}
		}
		return "no resume waits"
	})
}

// await gives a trace as soon as it has these leaves, and fails if it never comes to have them and no others. Operations
// of the store are counted elsewhere.
func (w *world) await(t *testing.T, id string, leaves []string) (x *traced) {
	t.Helper()
	slices.Sort(leaves)
	eventually(t, arrival, func() string {
		if x = w.fetch(t, id); x == nil {
			return "there is no trace " + id
		}
		return cmp.Diff(leaves, x.leaves())
	})
	return x
}

// checkAttributes looks at spans of each kind.
func checkAttributes(t *testing.T, w *world, x *traced) {
	t.Helper()
	chats := x.named("chat scripted-1")
	for _, row := range []struct {
		span *span
		kind string
		want map[string]string
	}{
		{x.one("turn"), "server", map[string]string{
			"http.request.method": "POST", "url.path": "/v1/chat/completions", "http.response.status_code": "200", "mcp_via_llm.client": "default",
			"mcp_via_llm.stop_reason": "client_tool_calls", "mcp_via_llm.segments": "3", "mcp_via_llm.mcp_calls": "3", "mcp_via_llm.background_calls": "1",
			"mcp_via_llm.client_calls": "1", "mcp_via_llm.input_tokens": "450", "mcp_via_llm.tools.injected": "4", "w3c.tracestate": "browser=1",
		}},
		{chats[1], "client", map[string]string{
			"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "scripted-1", "gen_ai.response.model": "scripted-1",
			"gen_ai.request.temperature": "0.5", "gen_ai.request.max_tokens": "99", "gen_ai.request.stream": "true", "gen_ai.response.id": "chatcmpl-2",
			"gen_ai.response.finish_reasons": `["tool_calls"]`, "gen_ai.usage.input_tokens": "150", "gen_ai.usage.output_tokens": "30",
			"gen_ai.usage.cache_read.input_tokens": "64", "server.address": "127.0.0.1", "openai.response.system_fingerprint": "fp_scripted",
		}},
		{x.one("execute_tool shop__refuse"), "internal", map[string]string{
			"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "shop__refuse", "gen_ai.tool.call.id": "c3", "gen_ai.tool.type": "function",
			"error.type": "tool_error", "otel.status_code": "ERROR",
		}},
		{x.one("tools/call refuse"), "client", map[string]string{
			"mcp.method.name": "tools/call", "gen_ai.tool.name": "refuse", "gen_ai.operation.name": "execute_tool", "mcp.protocol.version": "2026-07-28",
			"network.transport": "tcp", "network.protocol.name": "http", "server.address": "127.0.0.1", "error.type": "tool_error", "otel.status_code": "ERROR",
		}},
		{x.one("tools/call add_numbers"), "client", map[string]string{"network.transport": "pipe", "mcp.method.name": "tools/call"}},
	} {
		if row.span.kind != row.kind {
			t.Errorf("%s is of kind %s", row.span.name, row.span.kind)
		}
		for name, want := range row.want {
			if got := row.span.tags[name]; got != want {
				t.Errorf("%s: %s = %q, want %q", row.span.name, name, got, want)
			}
		}
	}
	for _, s := range append(x.named("tools/call look"), x.named("tools/call add_numbers")...) {
		if s.tags["jsonrpc.request.id"] == "" {
			t.Errorf("%s has no jsonrpc.request.id", s.name)
		}
	}
	for _, s := range x.spans {
		for name, value := range s.tags {
			if strings.Contains(value, "bread") || strings.Contains(value, "test-key") {
				t.Errorf("%s tells what was said: %s = %s", s.name, name, value)
			}
		}
	}
	if n := len(x.storeSpans()); n < 8 || x.storeSpans()[0].tags["db.system.name"] != "redis" {
		t.Errorf("%d operations of the store", n)
	}
}

// checkLinks asserts that the call in the background, the segment that asked for it and the resume lead to each other.
func checkLinks(t *testing.T, first, resume *traced) {
	t.Helper()
	order, chats := first.one("execute_tool shop__order"), first.named("chat scripted-1")
	if want := []string{chats[2].id, resume.one("turn").id}; !slices.Equal(order.links, want) {
		t.Errorf("the call in the background has links %v, want the third segment and the resume: %v", order.links, want)
	}
	if want := []string{first.one("turn").id, order.id}; !slices.Equal(resume.one("turn").links, want) {
		t.Errorf("the resume has links %v, want the mixed turn and the call: %v", resume.one("turn").links, want)
	}
}

// checkHops asserts that the model's provider and the MCP server were told of their place in the trace.
func (w *world) checkHops(t *testing.T, first *traced) {
	t.Helper()
	within := "00-" + firstTrace + "-"
	for i, r := range w.LLM.Requests()[:3] {
		if got := r.Header.Get("Traceparent"); !strings.HasPrefix(got, within) {
			t.Errorf("segment %d reached the provider with traceparent %q", i+1, got)
		}
	}
	for _, tool := range []string{"look", "order"} {
		client := first.one("tools/call " + tool)
		if want := within + client.id + "-01"; w.shop.meta[tool] != want {
			t.Errorf("_meta of %s has traceparent %q, want %q", tool, w.shop.meta[tool], want)
		}
		if got := w.shop.headers[tool]; !strings.HasPrefix(got, within) { // Envoy's own span is between
			t.Errorf("the request of %s had traceparent %q", tool, got)
		}
	}
}
