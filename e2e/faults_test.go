package e2e

import (
	"compress/gzip"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/mcp-via-llm/mcp-via-llm/e2e/llm"
	"github.com/mcp-via-llm/mcp-via-llm/e2e/rig"
)

// faultRig has small limits and a profile for each fault, chosen by the header x-test-route.
func faultRig(t *testing.T, v variant) *rig.Rig {
	t.Helper()
	_, url := bench(t)
	return start(t, v, setup{
		config: fmt.Sprintf(`
servers:
  calc:  {command: [%q], optional: false}
  bench: {url: %q, optional: false, tool_timeout: 500ms}
clients:
  default: {servers: [calc, bench], keepalive: 200ms}
  hasty:   {servers: [calc, bench], keepalive: 200ms, loop_timeout: 1s}
  capped:  {servers: [calc, bench], max_iterations: 2}
max_request_bytes: 100000
max_response_bytes: 20000
`, addServer, url),
		edit: withRoutes(testRoute{name: "hasty", filter: true, client: "hasty"}, testRoute{name: "capped", filter: true, client: "capped"}),
	})
}

// TestFaults goes through what can go wrong within a turn, on one running rig.
func TestFaults(t *testing.T) {
	on(t, all(), func(t *testing.T, v variant) {
		r := faultRig(t, v)
		for _, c := range []struct {
			name string
			run  func(*testing.T, *rig.Rig)
		}{
			{"invalid bodies", invalidBodies},
			{"request too large", requestTooLarge},
			{"tool faults go to the model", toolFaults},
			{"response too large", responseTooLarge},
			{"first segment fails", firstSegmentFails},
			{"second segment fails", secondSegmentFails},
			{"second segment is cut", secondSegmentCut},
			{"loop timeout", loopTimeout},
			{"iteration cap", iterationCap},
			{"compressed answer", compressedAnswer},
			{"compressed request", compressedRequest},
		} {
			t.Run(c.name, func(t *testing.T) { c.run(t, r) })
		}
	})
}

func invalidBodies(t *testing.T, r *rig.Rig) {
	for _, body := range []string{``, `{`, `[]`, `{"model":"m"}`, `{"messages":3}`, `{"model":"m","messages":[]`, `not json`} {
		r.LLM.Use(llm.Sequence())
		got := post(t, r, body)
		c := parse(t, got.body)
		if got.status != 400 || c.code() != "invalid_body" || c.Error.Type != "invalid_request_error" {
			t.Errorf("%q: status %d, body %s", body, got.status, got.body)
		}
		if n := len(r.LLM.Requests()); n != 0 {
			t.Errorf("%q: the LLM was called", body)
		}
	}
}

func requestTooLarge(t *testing.T, r *rig.Rig) {
	r.LLM.Use(llm.Sequence())
	got := post(t, r, ask(false, strings.Repeat("x", 200_000)))
	if got.status != 413 || parse(t, got.body).code() != "request_too_large" || len(r.LLM.Requests()) != 0 {
		t.Errorf("status %d, body %s, %d requests at the LLM", got.status, got.body, len(r.LLM.Requests()))
	}
}

// toolFaults asserts that each failing call becomes a tool message, and the turn goes on.
func toolFaults(t *testing.T, r *rig.Rig) {
	calls := []llm.ToolCall{
		llm.Call("c0", "bench__fail", `{"text":"disk is full"}`),
		llm.Call("c1", "bench__slow", `{"seconds":20}`),
		llm.Call("c2", "calc__add_numbers", `{"a":"five","b":7}`),
		llm.Call("c3", "calc__add_numbers", `{"a":5,`),
		llm.Call("c4", "bench__ecko", `{"text":"hi"}`),
		llm.Call("c5", "calc__add_numbers", `{"a":5,"b":7}`),
	}
	wants := []string{"disk is full", "", "", "", "bench__echo", "Result: 12"}
	for _, stream := range []bool{false, true} {
		r.LLM.Use(llm.Sequence(llm.Calls(calls...), llm.Text("Some of that failed.")))
		got := post(t, r, ask(stream, "do it all"))
		if got.status != 200 || !strings.Contains(withoutEnvelope(t, got.body, stream), "Some of that failed.") {
			t.Fatalf("status %d, body %s", got.status, got.body)
		}
		messages := r.LLM.Requests()[1].Chat.Messages
		results := messages[len(messages)-len(calls):]
		for i, want := range wants {
			if results[i].ToolCallID != calls[i].ID || results[i].Text() == "" || !strings.Contains(results[i].Text(), want) {
				t.Errorf("call %d: tool message %+v %s, want %q in it", i, results[i], results[i].Content, want)
			}
		}
	}
}

func withoutEnvelope(t *testing.T, body string, stream bool) string {
	t.Helper()
	if stream {
		return parseStream(t, body).text
	}
	return parse(t, body).text()
}

func responseTooLarge(t *testing.T, r *rig.Rig) {
	long := llm.Answer{Text: strings.Repeat("much too long ", 5_000)}.Step()
	r.LLM.Use(llm.Always(long))
	got := post(t, r, ask(false, "talk"))
	if got.status != 502 || parse(t, got.body).code() != "response_too_large" {
		t.Errorf("status %d, body %.300s", got.status, got.body)
	}
	got = post(t, r, ask(true, "talk"))
	if code := parseStream(t, got.body).last.code(); got.status != 200 || code != "response_too_large" || len(got.body) > 40_000 {
		t.Errorf("streamed: status %d, code %q, %d bytes", got.status, code, len(got.body))
	}
	if strings.Contains(got.body, "[DONE]") {
		t.Error("a stream that ends in an error says [DONE]")
	}
}

const tooMany = `{"error": {"message": "slow down \u2026", "type": "rate_limit_error", "param": null, "code": "rate_limit"}}`

func tooManyStep() llm.Step {
	return llm.Raw(http.StatusTooManyRequests, http.Header{"Retry-After": {"7"}, "X-Ratelimit-Remaining": {"0"}}, tooMany)
}

func firstSegmentFails(t *testing.T, r *rig.Rig) {
	for _, stream := range []bool{false, true} {
		r.LLM.Use(llm.Always(tooManyStep()))
		got := post(t, r, ask(stream, "hi"))
		if got.status != 429 || got.body != tooMany || got.header.Get("Retry-After") != "7" {
			t.Errorf("stream %v: status %d, headers %v, body %s", stream, got.status, got.header, got.body)
		}
		r.LLM.Use(llm.Always(llm.Gzip(tooManyStep())))
		got = post(t, r, ask(stream, "hi"))
		if body := plainBody(t, got); got.status != 429 || body != tooMany {
			t.Errorf("stream %v, gzip: status %d, headers %v, body %q", stream, got.status, got.header, body)
		}
	}
}

func secondSegmentFails(t *testing.T, r *rig.Rig) {
	script := func() llm.Brain {
		return llm.Sequence(llm.Calls(llm.Call("c", "calc__add_numbers", `{"a":1,"b":2}`)), tooManyStep())
	}
	r.LLM.Use(script())
	got := post(t, r, ask(false, "add"))
	if got.status != 429 || parse(t, got.body).code() != "rate_limit" {
		t.Errorf("status %d, body %s", got.status, got.body)
	}
	r.LLM.Use(script())
	got = post(t, r, ask(true, "add"))
	checkErrorEvent(t, got, "rate_limit")
}

func checkErrorEvent(t *testing.T, got answer, code string) {
	t.Helper()
	s := parseStream(t, got.body)
	if got.status != 200 || strings.Count(got.body, `"error":`) != 1 || s.last.Error == nil || s.last.code() != code || s.done != 0 {
		t.Errorf("status %d, want one error event with code %q and no [DONE]; body %s", got.status, code, got.body)
	}
}

func secondSegmentCut(t *testing.T, r *rig.Rig) {
	half := llm.Chunk{Bytes: `data: {"id":"x","choices":[{"index":0,"delta":{"role":"assistant","content":"The sum"}}]}` + "\n\n"}
	r.LLM.Use(llm.Sequence(llm.Calls(llm.Call("c", "calc__add_numbers", `{"a":1,"b":2}`)), llm.Cut(half)))
	got := post(t, r, ask(true, "add"))
	s := parseStream(t, got.body)
	if got.status != 200 || s.last.Error == nil || s.done != 0 || len(s.finishes) != 0 {
		t.Errorf("status %d, want an error event and no end of the answer; body %s", got.status, got.body)
	}
}

func loopTimeout(t *testing.T, r *rig.Rig) {
	script := func() llm.Brain {
		return llm.Sequence(llm.Calls(llm.Call("c", "calc__add_numbers", `{"a":1,"b":2}`)), llm.Hang())
	}
	r.LLM.Use(script())
	got := post(t, r, ask(false, "add"), "x-test-route: hasty")
	if got.status != 504 || parse(t, got.body).code() != "loop_timeout" {
		t.Errorf("status %d, body %s", got.status, got.body)
	}
	r.LLM.Use(script())
	got = post(t, r, ask(true, "add"), "x-test-route: hasty")
	checkErrorEvent(t, got, "loop_timeout")
	for _, request := range r.LLM.Requests()[1:] {
		if _, err := request.WaitAborted(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

func iterationCap(t *testing.T, r *rig.Rig) {
	call := llm.Calls(llm.Call("c", "calc__add_numbers", `{"a":1,"b":2}`))
	for _, stream := range []bool{false, true} {
		r.LLM.Use(func(request *llm.Request) llm.Step {
			if string(request.Chat.ToolChoice) == `"none"` {
				return llm.Text("I stop here.")
			}
			return call
		})
		got := post(t, r, ask(stream, "add for ever"), "x-test-route: capped")
		text, ext := "", extension{}
		if stream {
			s := parseStream(t, got.body)
			text, ext = s.text, s.last.extension(t)
		} else {
			c := parse(t, got.body)
			text, ext = c.text(), c.extension(t)
		}
		if text != "I stop here." || ext.StopReason != "max_iterations" || len(ext.ToolsCalled) != 2 {
			t.Errorf("stream %v: text %q, extensions %+v", stream, text, ext)
		}
	}
}

// compressedAnswer asserts that tool calls in a gzip'd answer are seen, whatever was asked for.
func compressedAnswer(t *testing.T, r *rig.Rig) {
	for _, stream := range []bool{false, true} {
		r.LLM.Use(llm.Sequence(
			llm.Gzip(llm.Calls(llm.Call("c", "calc__add_numbers", `{"a":1,"b":2}`))),
			llm.Gzip(llm.Text("It is 3.")),
		))
		got := post(t, r, ask(stream, "add"), "Accept-Encoding: gzip")
		if text := withoutEnvelope(t, plainBody(t, got), stream); got.status != 200 || text != "It is 3." {
			t.Errorf("stream %v: status %d, headers %v, text %q", stream, got.status, got.header, text)
		}
	}
}

// compressedRequest asserts that a gzip'd request is decoded or refused as such, and never taken for broken JSON.
func compressedRequest(t *testing.T, r *rig.Rig) {
	r.LLM.Use(llm.Always(llm.Text("hello")))
	var packed strings.Builder
	writer := gzip.NewWriter(&packed)
	if _, err := writer.Write([]byte(ask(false, "hi"))); err != nil {
		t.Fatal(err)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	got := post(t, r, packed.String(), "Content-Encoding: gzip")
	switch requests := r.LLM.Requests(); {
	case got.status == 415 && len(requests) == 0:
		if parse(t, got.body).Error == nil {
			t.Errorf("body %s", got.body)
		}
	case got.status == 200 && len(requests) == 1 && requests[0].Header.Get("Content-Encoding") == "":
	default:
		t.Errorf("status %d, body %s, %d requests at the LLM", got.status, got.body, len(requests))
	}
}
