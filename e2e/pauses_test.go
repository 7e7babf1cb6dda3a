package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/mcp-via-llm/mcp-via-llm/e2e/llm"
	"github.com/mcp-via-llm/mcp-via-llm/e2e/mcpserver"
	"github.com/mcp-via-llm/mcp-via-llm/e2e/rig"
)

// heard is one answer that an application gets.
type heard struct {
	Text   string   `json:"text"`
	Finish string   `json:"finish"`
	Calls  []string `json:"calls"`
}

// chats runs a conversation with the official OpenAI SDKs, unmodified, streamed and not, one after the other. answer is
// what the application has for calls of mcp_elicit.
func chats(t *testing.T, r *rig.Rig, answer string, messages []string, check func(t *testing.T, all []heard)) {
	scripts := filepath.Join(tools.Root(), "e2e", "sdk")
	sdks := map[string][]string{
		"python": {tools.Python(), filepath.Join(scripts, "chat.py")},
		"node":   {"node", filepath.Join(scripts, "chat.mjs"), tools.NodeModules()},
	}
	for name, command := range sdks {
		for _, how := range []string{"stream", "whole"} {
			t.Run(name+" "+how, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), sdkLimit)
				defer cancel()
				arguments := append(command[1:len(command):len(command)], r.URL+"/v1", how, "test-model", answer)
				out, err := exec.CommandContext(ctx, command[0], append(arguments, messages...)...).Output()
				if exit, ok := err.(*exec.ExitError); ok {
					t.Fatalf("%v: %s", err, exit.Stderr)
				} else if err != nil {
					t.Fatal(err)
				}
				var all []heard
				for line := range strings.Lines(string(out)) {
					var one heard
					if err := json.Unmarshal([]byte(line), &one); err != nil {
						t.Fatalf("%v: %s", err, line)
					}
					all = append(all, one)
				}
				check(t, all)
			})
		}
	}
}

// shown is a request's history, a line a message: role, text, names of calls.
func shown(r *llm.Request) string {
	var lines []string
	for _, m := range r.Chat.Messages {
		line := m.Role + ": " + m.Text()
		for _, c := range m.ToolCalls {
			line += "(" + c.Function.Name + ")"
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

var tag = regexp.MustCompile(`\(question [A-Z2-7]{12}\)$`)

// TestApproval asserts that an application that knows nothing of approval has its user asked, and that the model sees
// neither the question nor the answer.
func TestApproval(t *testing.T) {
	on(t, current(), func(t *testing.T, v variant) {
		r := start(t, v, setup{brain: llm.Calculator, config: addConfig("clients: {default: {approve: [\"calc__*\"]}}\n")})
		chats(t, r, "", []string{"What is 5 plus 7?", "Yes.", "What is 1 plus 2?", "no"}, func(t *testing.T, all []heard) {
			question := "May I run this tool?\n\n1. `calc__add_numbers`\n\n```json\n{\n  \"a\": %d,\n  \"b\": %d\n}\n```\n\n" +
				"Please answer **yes** or **no**, alone in one message. (As yes count also: y, yes please, yes to all, ok, okay, approve, approved, approve all, allow, allow all, " +
				"confirm, confirmed, go ahead, ja, ja bitte, oui, si, sí, sì, sim, да, はい, 是.) Anything else counts as no. The question is open for 10m. "
			for i := range all {
				all[i].Text = tag.ReplaceAllString(all[i].Text, "")
			}
			want := []heard{
				{fmt.Sprintf(question, 5, 7), "stop", []string{}}, {"5 plus 7 is 12.", "stop", []string{}},
				{fmt.Sprintf(question, 1, 2), "stop", []string{}}, {"The tool could not add: The user denied this call. It was not run.", "stop", []string{}},
			}
			if diff := cmp.Diff(want, all); diff != "" {
				t.Errorf("the application sees (-want +got):\n%s", diff)
			}
			requests := r.LLM.Requests()
			history := "user: What is 5 plus 7?\nassistant: (calc__add_numbers)\ntool: Result: 12\nassistant: 5 plus 7 is 12.\n" +
				"user: What is 1 plus 2?\nassistant: (calc__add_numbers)\ntool: The user denied this call. It was not run."
			if got := shown(requests[len(requests)-1]); got != history {
				t.Errorf("the model saw\n%s", got)
			}
		})
	})
}

// everythingConfig is the reference server "everything", which asks back, for a client that lets it.
func everythingConfig() string {
	return fmt.Sprintf(`
servers:
  everything: {command: [%s], connect_timeout: 60s, optional: false, elicitation: true, sampling: true}
clients:
  default: {resources: false, prompts: false, elicitation: client, sampling: {max_requests: 2, max_tokens: 50}, images: user_message, keepalive: 1s}
`, quoted(tools.NodeServer("everything")))
}

// caller calls a tool for the last message of the user's, says "sampled" where it is asked beside a conversation, and
// closes with "Done." when there is a result.
func caller(tool, arguments string) llm.Brain {
	return func(r *llm.Request) llm.Step {
		messages := r.Chat.Messages
		switch last := messages[len(messages)-1]; {
		case len(r.ToolNames()) == 0:
			return llm.Text("sampled")
		case last.Role == "user" && !strings.HasPrefix(string(last.Content), "["):
			return llm.Calls(llm.Call("c1", tool, arguments))
		}
		return llm.Text("Done.")
	}
}

// TestElicitation asserts that a server's question reaches an application as a call of a function, and the
// application's answer the server.
func TestElicitation(t *testing.T) {
	on(t, current(), func(t *testing.T, v variant) {
		r := start(t, v, setup{brain: caller("everything__trigger-elicitation-request", "{}"), config: everythingConfig()})
		for answer, result := range map[string]string{
			`{"action":"accept","content":{"name":"Ann Example","check":true}}`: "Ann Example",
			"I do not know mcp_elicit": "cancel",
		} {
			chats(t, r, answer, []string{"Ask me."}, func(t *testing.T, all []heard) {
				want := []heard{{"", "tool_calls", []string{"mcp_elicit"}}, {"Done.", "stop", []string{}}}
				if diff := cmp.Diff(want, all); diff != "" {
					t.Errorf("the application sees (-want +got):\n%s", diff)
				}
				requests := r.LLM.Requests()
				got := shown(requests[len(requests)-1])
				if !strings.HasPrefix(got, "user: Ask me.\nassistant: (everything__trigger-elicitation-request)\ntool: ") || !strings.Contains(got, result) || strings.Contains(got, "mcp_elicit") {
					t.Errorf("the model saw\n%s", got)
				}
			})
		}
	})
}

// hotel is an MCP server with a tool that asks the guest's name: as revision 2026-07-28 has it, with a result that
// requires input, or by a request of its own.
func hotel(t *testing.T, stateless bool) string {
	t.Helper()
	server := mcp.NewServer(&mcp.Implementation{Name: "hotel", Version: "1"}, nil)
	question := &mcp.ElicitParams{Message: "Your name?", RequestedSchema: map[string]any{
		"type": "object", "properties": map[string]any{"name": map[string]any{"type": "string"}}, "required": []string{"name"},
	}}
	mcp.AddTool(server, &mcp.Tool{Name: "book"}, func(ctx context.Context, r *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
		answer, ok := r.Params.InputResponses["guest"].(*mcp.ElicitResult)
		switch {
		case !ok && stateless:
			return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"guest": question}}, nil, nil
		case !ok:
			var err error
			if answer, err = r.Session.Elicit(ctx, question); err != nil {
				return nil, nil, err
			}
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprint(answer.Action, " ", answer.Content["name"])}}}, nil, nil
	})
	listener := httptest.NewServer(mcpserver.HTTP(server, stateless, nil))
	t.Cleanup(listener.Close)
	t.Cleanup(listener.CloseClientConnections)
	return listener.URL
}

// TestElicitationBesideTheClient asserts that a server may ask, in either revision, while the client is at a call of its
// own: the client has that call first, and the question when it is back.
func TestElicitationBesideTheClient(t *testing.T) {
	on(t, current(), func(t *testing.T, v variant) {
		for name, stateless := range map[string]bool{"2026-07-28": true, "2025-11-25": false} {
			t.Run(name, func(t *testing.T) {
				r := start(t, v, setup{config: fmt.Sprintf("servers: {hotel: {url: %q, optional: false, elicitation: true}}\nclients: {default: {elicitation: client}}\n", hotel(t, stateless))})
				for _, stream := range []bool{true, false} {
					r.LLM.Use(llm.Sequence(llm.Calls(llm.Call("c1", "hotel__book", "{}"), llm.Call("c2", "pay", "{}")), llm.Text("Booked.")))
					messages := []any{map[string]any{"role": "user", "content": fmt.Sprintf("Book (%d)", asked.Add(1))}}
					turn := func() (text string, calls []llm.ToolCall) {
						body, err := json.Marshal(map[string]any{"model": "test-model", "stream": stream, "messages": messages,
							"tools": []any{map[string]any{"type": "function", "function": map[string]any{"name": "pay"}}}})
						if err != nil {
							t.Fatal(err)
						}
						got := post(t, r, string(body))
						chunks, part := []string{got.body}, "message"
						if stream {
							chunks, part = strings.Split(got.body, "\ndata: "), "delta"
						}
						for _, c := range chunks {
							said := gjson.Get(strings.TrimPrefix(c, "data: "), "choices.0."+part)
							text += said.Get("content").String()
							for _, call := range said.Get("tool_calls").Array() { // whole in one chunk, here
								calls = append(calls, llm.Call(call.Get("id").String(), call.Get("function.name").String(), call.Get("function.arguments").String()))
							}
						}
						if got.status != 200 {
							t.Fatalf("status %d, body %s", got.status, got.body)
						}
						messages = append(messages, map[string]any{"role": "assistant", "content": text, "tool_calls": calls})
						return text, calls
					}
					answerWith := func(calls []llm.ToolCall, content string) {
						for _, c := range calls {
							messages = append(messages, map[string]any{"role": "tool", "tool_call_id": c.ID, "content": content})
						}
					}
					_, calls := turn()
					if len(calls) != 1 || calls[0].Function.Name != "pay" {
						t.Fatalf("stream %v: first came %v", stream, calls)
					}
					answerWith(calls, "paid")
					_, calls = turn()
					if len(calls) != 1 || calls[0].Function.Name != "mcp_elicit" || !strings.Contains(calls[0].Function.Arguments, `"server":"hotel","message":"Your name?"`) {
						t.Fatalf("stream %v: then came %v", stream, calls)
					}
					answerWith(calls, `{"action":"accept","content":{"name":"Ann"}}`)
					text, calls := turn()
					if text != "Booked." || len(calls) != 0 {
						t.Errorf("stream %v: at last came %q %v", stream, text, calls)
					}
					requests := r.LLM.Requests()
					if got := shown(requests[len(requests)-1]); !strings.HasSuffix(got, "\nassistant: (hotel__book)(pay)\ntool: accept Ann\ntool: paid") {
						t.Errorf("stream %v: the model saw\n%s", stream, got)
					}
				}
			})
		}
	})
}

// TestServersThatAskTheModel asserts that a server's request is answered by the model of the turn, on its account.
func TestServersThatAskTheModel(t *testing.T) {
	on(t, all(), func(t *testing.T, v variant) {
		r := start(t, v, setup{brain: caller("everything__trigger-sampling-request", `{"prompt":"What is up?","maxTokens":20}`), config: everythingConfig()})
		for _, stream := range []bool{false, true} {
			before := len(r.LLM.Requests())
			got := post(t, r, ask(stream, "Sample."))
			requests := r.LLM.Requests()[before:]
			if got.status != 200 || len(requests) != 3 {
				t.Fatalf("stream %v: status %d, %d requests, body %s", stream, got.status, len(requests), got.body)
			}
			var aside map[string]any
			if err := json.Unmarshal(requests[1].Body, &aside); err != nil {
				t.Fatal(err)
			}
			if aside["stream"] != nil || aside["max_completion_tokens"] != 20.0 || aside["model"] != "test-model" || requests[1].Header.Get("Authorization") != "Bearer test-key" || !strings.Contains(shown(requests[1]), "What is up?") {
				t.Errorf("stream %v: the server's request is %s", stream, requests[1].Body)
			}
			if last := shown(requests[2]); !strings.Contains(last, "sampled") {
				t.Errorf("stream %v: the model saw\n%s", stream, last)
			}
		}
	})
}

// TestImagesAreShown asserts that a model that sees images gets those of tools after the results.
func TestImagesAreShown(t *testing.T) {
	on(t, current()[:1], func(t *testing.T, v variant) {
		r := start(t, v, setup{brain: caller("everything__get-tiny-image", "{}"), config: everythingConfig()})
		if got := post(t, r, ask(false, "Draw.")); got.status != 200 || parse(t, got.body).text() != "Done." {
			t.Fatalf("status %d, body %s", got.status, got.body)
		}
		messages := r.LLM.Requests()[1].Chat.Messages
		last := messages[len(messages)-1]
		var parts []struct {
			Image struct {
				URL string `json:"url"`
			} `json:"image_url"`
		}
		if err := json.Unmarshal(last.Content, &parts); err != nil || last.Role != "user" || len(parts) != 2 || !strings.HasPrefix(parts[1].Image.URL, "data:image/png;base64,iVBOR") {
			t.Errorf("%v: the model saw %.300s", err, last.Content)
		}
		if result := messages[len(messages)-2]; result.Role != "tool" || strings.Contains(result.Text(), "iVBOR") || !strings.Contains(result.Text(), "[image image/png") {
			t.Errorf("the result is %.300s", result.Content)
		}
	})
}

// TestProgressIsTold asserts that keep-alives tell of a server's progress.
func TestProgressIsTold(t *testing.T) {
	on(t, current(), func(t *testing.T, v variant) {
		r := start(t, v, setup{brain: caller("everything__trigger-long-running-operation", `{"duration":4,"steps":4}`), config: everythingConfig()})
		got := post(t, r, ask(true, "Take your time."))
		if s := parseStream(t, got.body); s.text != "Done." || !strings.Contains(got.body, "\n: keep-alive everything__trigger-long-running-operation ") || !regexp.MustCompile(`operation [1-4]/4\n`).MatchString(got.body) {
			t.Errorf("the stream is\n%s", got.body)
		}
	})
}
