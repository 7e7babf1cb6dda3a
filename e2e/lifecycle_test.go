package e2e

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mcp-via-llm/mcp-via-llm/e2e/llm"
	"github.com/mcp-via-llm/mcp-via-llm/e2e/mcpserver"
	"github.com/mcp-via-llm/mcp-via-llm/e2e/rig"
)

// TestLifecycle follows one question through both protocols: discovery, the three translations (schema, call, result)
// and the final answer, each message as it is on the wire.
func TestLifecycle(t *testing.T) {
	on(t, all(), func(t *testing.T, v variant) {
		wire := filepath.Join(t.TempDir(), "mcp.jsonl")
		checkLifecycle(t, v, wire, fmt.Sprintf("command: [%q, -record, %q]", addServer, wire))
	})
}

// TestLifecycleHTTP does the same with the server at a URL, reached through Envoy: without sessions, as revision
// 2026-07-28 has it, and with them.
func TestLifecycleHTTP(t *testing.T) {
	for _, stateless := range []bool{true, false} {
		t.Run(fmt.Sprintf("stateless %v", stateless), func(t *testing.T) {
			on(t, current(), func(t *testing.T, v variant) {
				wire := filepath.Join(t.TempDir(), "mcp.jsonl")
				free, err := rig.FreePorts(1)
				if err != nil {
					t.Fatal(err)
				}
				server, err := rig.StartProcess("addserver", nil, addServer, "-http", free[0], fmt.Sprintf("-stateless=%v", stateless), "-record", wire)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() {
					if err := server.Stop(turnLimit); err != nil {
						t.Error(err)
					}
				})
				checkLifecycle(t, v, wire, fmt.Sprintf("url: %q", "http://"+free[0]))
			})
		})
	}
}

func checkLifecycle(t *testing.T, v variant, wire, server string) {
	t.Helper()
	r := start(t, v, setup{brain: llm.Calculator, config: "servers:\n  calc: {" + server + ", optional: false}\n"})
	got := post(t, r, `{"model":"test-model","messages":[{"role":"user","content":"What is 5 plus 7?"}]}`)
	if got.status != 200 || parse(t, got.body).text() != "5 plus 7 is 12." {
		t.Fatalf("status %d, body %s", got.status, got.body)
	}
	want := extension{
		Iterations: 2, ToolsCalled: []string{"calc__add_numbers"}, PromptTokens: 58 + 96, CompletionTokens: 18 + 9,
		StopReason: "answer", ServersUnavailable: []string{},
	}
	if diff := cmp.Diff(want, parse(t, got.body).extension(t)); diff != "" {
		t.Errorf("extensions (-want +got):\n%s", diff)
	}
	checkMCPWire(t, wire)
	checkLLMWire(t, r.LLM.Requests())
}

// checkMCPWire asserts the messages at the MCP server.
func checkMCPWire(t *testing.T, file string) {
	t.Helper()
	messages, err := mcpserver.ReadMessages(file)
	if err != nil {
		t.Fatal(err)
	}
	var methods []string
	for _, m := range messages {
		if m.Received {
			methods = append(methods, m.Method())
		}
	}
	if len(methods) == 0 || methods[0] != "server/discover" && methods[0] != "initialize" {
		t.Errorf("the server got %q, want discovery or initialization first", methods)
	}
	if list, call := slices.Index(methods, "tools/list"), slices.Index(methods, "tools/call"); list < 0 || call < list {
		t.Errorf("the server got %q, want tools/list before tools/call", methods)
	}
	tools := result(t, messages, "tools/list")
	wantJSON(t, "the listed tools", pick(t, tools, "tools", "0", "inputSchema", "properties"), `{"a":{"type":"number"},"b":{"type":"number"}}`)
	call := params(t, messages, "tools/call")
	wantJSON(t, "the called name", pick(t, call, "name"), `"add_numbers"`)
	wantJSON(t, "the call's arguments", pick(t, call, "arguments"), `{"a":5,"b":7}`)
	wantJSON(t, "the call's result", pick(t, result(t, messages, "tools/call"), "content"), `[{"type":"text","text":"Result: 12"}]`)
}

// checkLLMWire asserts the two requests at the LLM.
func checkLLMWire(t *testing.T, requests []*llm.Request) {
	t.Helper()
	if len(requests) != 2 {
		t.Fatalf("the LLM got %d requests, want 2", len(requests))
	}
	for _, request := range requests {
		if request.Path != "/v1/chat/completions" || request.Header.Get("Authorization") != "Bearer test-key" {
			t.Errorf("segment %d went to %s with authorization %q", request.Number, request.Path, request.Header.Get("Authorization"))
		}
		wantJSON(t, "the function's name", pick(t, request.Body, "tools", "0", "function", "name"), `"calc__add_numbers"`)
		wantJSON(t, "the function's type", pick(t, request.Body, "tools", "0", "type"), `"function"`)
		wantJSON(t, "the function's description", pick(t, request.Body, "tools", "0", "function", "description"), `"Adds two numbers"`)
		parameters := pick(t, request.Body, "tools", "0", "function", "parameters")
		wantJSON(t, "the parameters", pick(t, parameters, "properties"), `{"a":{"type":"number"},"b":{"type":"number"}}`)
		wantJSON(t, "the required parameters", pick(t, parameters, "required"), `["a","b"]`)
	}
	const question = `{"role":"user","content":"What is 5 plus 7?"}`
	wantJSON(t, "the first segment's messages", pick(t, requests[0].Body, "messages"), `[`+question+`]`)
	messages := pick(t, requests[1].Body, "messages")
	wantJSON(t, "the second segment's question", pick(t, messages, "0"), question)
	wantJSON(t, "the model's own calls", pick(t, messages, "1", "tool_calls"),
		`[{"id":"call_add","type":"function","function":{"name":"calc__add_numbers","arguments":"{\"a\":5,\"b\":7}"}}]`)
	wantJSON(t, "the tool message", pick(t, messages, "2"), `{"role":"tool","tool_call_id":"call_add","content":"Result: 12"}`)
}

// params returns the params of the first message with this method that the server got.
func params(t *testing.T, messages []mcpserver.Message, method string) []byte {
	t.Helper()
	return pick(t, first(t, messages, method), "params")
}

// result returns what the server answered to the first message with this method.
func result(t *testing.T, messages []mcpserver.Message, method string) []byte {
	t.Helper()
	id := string(pick(t, first(t, messages, method), "id"))
	for _, m := range messages {
		var response struct{ ID, Result json.RawMessage }
		if !m.Received && json.Unmarshal(m.JSON, &response) == nil && string(response.ID) == id {
			return response.Result
		}
	}
	t.Fatalf("the server did not answer %s", method)
	return nil
}

func first(t *testing.T, messages []mcpserver.Message, method string) []byte {
	t.Helper()
	for _, m := range messages {
		if m.Received && m.Method() == method {
			return m.JSON
		}
	}
	t.Fatalf("the server got no %s", method)
	return nil
}
