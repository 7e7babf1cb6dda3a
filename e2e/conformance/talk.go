package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"

	"github.com/mcp-via-llm/mcp-via-llm/e2e/llm"
)

// values are what the model writes for parameters of these names.
var values = map[string]string{"a": "5", "b": "3", "region": `"us-west1"`}

// model is the scripted LLM: it calls what the suite names, or else each function that is offered, one after the
// other, and then says that it is done.
func (s *scenario) model(r *llm.Request) llm.Step {
	var calls []llm.ToolCall
	for i, wanted := range s.context.ToolCalls {
		calls = append(calls, llm.Call(fmt.Sprintf("call_%d", i), "suite__"+wanted.Name, string(wanted.Arguments)))
	}
	if calls == nil {
		for i, tool := range r.Chat.Tools {
			if name := tool.Function.Name; name != elicit {
				calls = append(calls, llm.Call(fmt.Sprintf("call_%d", i), name, arguments(r, tool.Function)))
			}
		}
	}
	done := 0
	for _, m := range r.Chat.Messages {
		if m.Role == "tool" {
			done++
		}
	}
	if done >= len(calls) {
		return llm.Text("Done.")
	}
	return llm.Calls(calls[done])
}

// arguments makes arguments that fit a function of the suite.
func arguments(r *llm.Request, f llm.Function) string {
	var schema struct{ Properties map[string]json.RawMessage }
	_ = json.Unmarshal(f.Parameters, &schema) // the service makes no other
	out := map[string]json.RawMessage{}
	for name := range schema.Properties {
		if value, ok := values[name]; ok {
			out[name] = json.RawMessage(value)
		}
		if i := slices.Index(r.ToolNames(), "suite__json_schema_2020_12_tool"); name == "schema" && i >= 0 {
			out[name] = r.Chat.Tools[i].Function.Parameters
		}
	}
	data, err := json.Marshal(out)
	if err != nil {
		panic(err) // it has been parsed
	}
	return string(data)
}

// elicit is the function by which the service asks the application.
const elicit = "mcp_elicit"

// message is one of a completion, or of its request.
type message struct {
	Role       string         `json:"role"`
	Content    any            `json:"content"`
	ToolCalls  []llm.ToolCall `json:"tool_calls,omitempty"`
	ToolCallID string         `json:"tool_call_id,omitempty"`
}

// converse is the application: it asks, and confirms what the server wants to know.
func (s *scenario) converse(ctx context.Context, url string) error {
	messages := []message{{Role: "user", Content: "Use everything that you have."}}
	for range 20 {
		answer, err := complete(ctx, url, messages)
		if err != nil {
			return err
		}
		messages = append(messages, answer)
		if len(answer.ToolCalls) == 0 {
			return nil
		}
		for _, call := range answer.ToolCalls {
			if call.Function.Name != elicit {
				return fmt.Errorf("the application is asked to run %s", call.Function.Name)
			}
			messages = append(messages, message{Role: "tool", ToolCallID: call.ID, Content: confirm(call)})
		}
	}
	return errors.New("the conversation does not end")
}

// confirm accepts a question. What has a default is left to it.
func confirm(call llm.ToolCall) string {
	var question struct {
		Schema struct {
			Properties map[string]map[string]json.RawMessage
		} `json:"requested_schema"`
	}
	_ = json.Unmarshal([]byte(call.Function.Arguments), &question) // an empty answer will say what is wrong
	content := map[string]any{}
	for name, property := range question.Schema.Properties {
		if property["default"] == nil && string(property["type"]) == `"boolean"` {
			content[name] = true
		}
	}
	data, err := json.Marshal(map[string]any{"action": "accept", "content": content})
	if err != nil {
		panic(err) // booleans
	}
	return string(data)
}

func complete(ctx context.Context, url string, messages []message) (message, error) {
	body, err := json.Marshal(map[string]any{"model": "scripted", "messages": messages})
	if err != nil {
		return message{}, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return message{}, err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return message{}, err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		return message{}, err
	}
	fmt.Fprintf(os.Stderr, "%s %s\n", response.Status, data)
	var completion struct {
		Choices []struct{ Message message }
	}
	if err := json.Unmarshal(data, &completion); err != nil || len(completion.Choices) == 0 {
		return message{}, fmt.Errorf("no completion: %s %s", response.Status, data)
	}
	return completion.Choices[0].Message, nil
}
