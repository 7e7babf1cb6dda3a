package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-via-llm/mcp-via-llm/e2e/llm"
)

// withFunctions is a request whose client has two functions of its own; one has the name of an MCP tool.
func withFunctions(stream bool) string {
	return fmt.Sprintf(`{"model":"test-model","stream":%v,"tools":[`+
		`{"type":"function","function":{"name":"book_table","parameters":{"type":"object","properties":{"people":{"type":"integer"}}}}},`+
		`{"type":"function","function":{"name":"calc__add_numbers","parameters":{"type":"object"}}}],`+
		`"messages":[{"role":"user","content":"Book a table for all of us."}]}`, stream)
}

// TestClientFunctions asserts that the client's own functions stay first and keep their names, that their calls reach
// the client as if there were no others, and that MCP calls beside them are run and not shown.
func TestClientFunctions(t *testing.T) {
	on(t, all(), func(t *testing.T, v variant) {
		r := start(t, v, setup{config: addConfig("")})
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprintf("stream %v", stream), func(t *testing.T) {
				r.LLM.Use(func(request *llm.Request) llm.Step {
					names := request.ToolNames()
					if request.Number == 1 {
						return llm.Answer{Text: "Let me count.", Calls: []llm.ToolCall{llm.Call("m1", names[len(names)-1], `{"a":2,"b":2}`)}}.Step()
					}
					return llm.Answer{Text: "Four.", Calls: []llm.ToolCall{llm.Call("c1", "book_table", `{"people": 4}`)}}.Step()
				})
				got := post(t, r, withFunctions(stream))
				text, finish, calls, ext := clientView(t, got.body, stream)
				if got.status != 200 || text != "Let me count.\n\nFour." || finish != "tool_calls" || ext.StopReason != "client_tool_calls" {
					t.Errorf("status %d, text %q, finish %q, extensions %+v", got.status, text, finish, ext)
				}
				if want := []string{`0 c1 book_table {"people": 4}`}; !slices.Equal(calls, want) {
					t.Errorf("the client sees the calls %q, want %q", calls, want)
				}
				names := r.LLM.Requests()[0].ToolNames()
				if len(names) != 3 || names[0] != "book_table" || names[1] != "calc__add_numbers" || !strings.HasPrefix(names[2], "calc__add_") || names[2] == names[1] {
					t.Errorf("the LLM got the functions %q", names)
				}
				messages := r.LLM.Requests()[1].Chat.Messages
				if last := messages[len(messages)-1]; last.Role != "tool" || last.Text() != "Result: 4" {
					t.Errorf("the model got %+v", last)
				}
			})
		}
	})
}

// clientView is what an application assembles: text, finish reason, and the calls as "index id name arguments".
func clientView(t *testing.T, body string, stream bool) (text, finish string, calls []string, ext extension) {
	t.Helper()
	if !stream {
		c := parse(t, body)
		for i, raw := range c.Choices[0].Message.ToolCalls {
			call := decodeCall(t, raw)
			calls = append(calls, fmt.Sprintf("%d %s %s %s", i, call.ID, call.Function.Name, call.Function.Arguments))
		}
		return c.text(), *c.Choices[0].FinishReason, calls, c.extension(t)
	}
	s := parseStream(t, body)
	byIndex := map[int]*toolCallDelta{}
	for line := range strings.Lines(body) {
		data, isData := strings.CutPrefix(strings.TrimSpace(line), "data: {")
		if !isData {
			continue
		}
		for _, choice := range parse(t, "{"+data).Choices {
			for _, raw := range choice.Delta.ToolCalls {
				call := decodeCall(t, raw)
				if whole := byIndex[call.Index]; whole != nil {
					whole.Function.Arguments += call.Function.Arguments
				} else {
					byIndex[call.Index] = &call
				}
			}
		}
	}
	for _, call := range byIndex {
		calls = append(calls, fmt.Sprintf("%d %s %s %s", call.Index, call.ID, call.Function.Name, call.Function.Arguments))
	}
	slices.Sort(calls)
	return s.text, strings.Join(s.finishes, ","), calls, s.last.extension(t)
}

type toolCallDelta struct {
	Index    int    `json:"index"`
	ID       string `json:"id"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

func decodeCall(t *testing.T, raw json.RawMessage) toolCallDelta {
	t.Helper()
	var call toolCallDelta
	if err := json.Unmarshal(raw, &call); err != nil {
		t.Fatal(err)
	}
	return call
}
