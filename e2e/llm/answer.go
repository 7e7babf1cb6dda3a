package llm

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// ToolCall is one tool call of an assistant message, in the form of the API reference.
type ToolCall struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

// Call makes a tool call. Arguments are the exact JSON text that the model writes.
func Call(id, name, arguments string) ToolCall {
	call := ToolCall{ID: id, Type: "function"}
	call.Function.Name, call.Function.Arguments = name, arguments
	return call
}

// Answer is what the model says in one segment: text, then tool calls. It is sent as one object or as a stream, as
// the request asks.
type Answer struct {
	Text   string
	Calls  []ToolCall
	Finish string        // finish_reason; "" is "tool_calls" with calls and "stop" without
	Prompt int           // usage.prompt_tokens
	Cached int           // of these, what came from the prompt cache; 0 is not told
	Output int           // usage.completion_tokens
	Pace   time.Duration // before each streamed chunk
}

// Text answers with text alone.
func Text(text string) Step { return Answer{Text: text, Prompt: 10, Output: 5}.Step() }

// Calls answers with tool calls alone.
func Calls(calls ...ToolCall) Step { return Answer{Calls: calls, Prompt: 10, Output: 5}.Step() }

// Step plays the answer.
func (a Answer) Step() Step {
	return func(w http.ResponseWriter, r *Request) {
		if !r.Chat.Stream {
			Raw(http.StatusOK, nil, a.Object(r))(w, r)
			return
		}
		SSE(a.Chunks(r)...)(w, r)
	}
}

func (a Answer) finish() string {
	if a.Finish != "" {
		return a.Finish
	}
	if len(a.Calls) > 0 {
		return "tool_calls"
	}
	return "stop"
}

type usage struct {
	PromptTokens     int `json:"prompt_tokens"`
	CompletionTokens int `json:"completion_tokens"`
	TotalTokens      int `json:"total_tokens"`

	PromptDetails *promptDetails `json:"prompt_tokens_details,omitempty"`
}

type promptDetails struct {
	CachedTokens int `json:"cached_tokens"`
}

func (a Answer) usage() usage {
	u := usage{PromptTokens: a.Prompt, CompletionTokens: a.Output, TotalTokens: a.Prompt + a.Output}
	if a.Cached > 0 {
		u.PromptDetails = &promptDetails{a.Cached}
	}
	return u
}

// object is the whole answer or a chunk, with the members in the order in which the API sends them.
type object struct {
	ID          string   `json:"id"`
	Object      string   `json:"object"`
	Created     int64    `json:"created"`
	Model       string   `json:"model"`
	Choices     []choice `json:"choices"`
	Usage       any      `json:"usage,omitempty"`
	Fingerprint string   `json:"system_fingerprint"`
}

type choice struct {
	Index    int     `json:"index"`
	Message  any     `json:"message,omitempty"`
	Delta    any     `json:"delta,omitempty"`
	Logprobs any     `json:"logprobs"`
	Finish   *string `json:"finish_reason"`
}

// said is a whole message, or the first delta of a stream.
type said struct {
	Role      string     `json:"role"`
	Content   *string    `json:"content"`
	ToolCalls []ToolCall `json:"tool_calls,omitempty"`
	Refusal   *string    `json:"refusal"`
}

type textDelta struct {
	Content string `json:"content"`
}

type callsDelta struct {
	ToolCalls []callDelta `json:"tool_calls"`
}

type callDelta struct {
	Index    int    `json:"index"`
	ID       string `json:"id,omitempty"`
	Type     string `json:"type,omitempty"`
	Function struct {
		Name      string `json:"name,omitempty"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

func (a Answer) head(r *Request, kind string) object {
	return object{
		ID: fmt.Sprintf("chatcmpl-%d", r.Number), Object: kind, Created: 1_700_000_000 + int64(r.Number),
		Model: r.Chat.Model, Choices: []choice{}, Fingerprint: "fp_scripted",
	}
}

// Object is the body of the non-streamed answer.
func (a Answer) Object(r *Request) string {
	message := said{Role: "assistant", Content: &a.Text, ToolCalls: a.Calls}
	if a.Text == "" && len(a.Calls) > 0 {
		message.Content = nil
	}
	finish := a.finish()
	whole := a.head(r, "chat.completion")
	whole.Choices = append(whole.Choices, choice{Message: message, Finish: &finish})
	whole.Usage = a.usage()
	return encode(whole)
}

// Chunks is the streamed answer: the role, the text word by word, each call's head and its arguments in pieces, the
// finish reason, usage where the request asks for it, [DONE].
func (a Answer) Chunks(r *Request) []Chunk {
	var chunks []Chunk
	head := a.head(r, "chat.completion.chunk")
	if r.Chat.StreamOptions.IncludeUsage {
		head.Usage = json.RawMessage("null") // what the API sends on every chunk before the last
	}
	event := func(delta any, finish *string) {
		chunk := head
		chunk.Choices = []choice{{Delta: delta, Finish: finish}}
		chunks = append(chunks, Chunk{After: a.Pace, Bytes: "data: " + encode(chunk) + "\n\n"})
	}
	first := said{Role: "assistant", Content: new(string)}
	if len(a.Calls) > 0 && a.Text == "" {
		first.Content = nil
	}
	event(first, nil)
	for _, piece := range strings.SplitAfter(a.Text, " ") {
		if piece != "" {
			event(textDelta{piece}, nil)
		}
	}
	for index, call := range a.Calls {
		begin := callDelta{Index: index, ID: call.ID, Type: call.Type}
		begin.Function.Name = call.Function.Name
		event(callsDelta{[]callDelta{begin}}, nil)
		for _, piece := range pieces(call.Function.Arguments, 4) {
			next := callDelta{Index: index}
			next.Function.Arguments = piece
			event(callsDelta{[]callDelta{next}}, nil)
		}
	}
	finish := a.finish()
	event(struct{}{}, &finish)
	if r.Chat.StreamOptions.IncludeUsage {
		last := head
		last.Usage = a.usage()
		chunks = append(chunks, Chunk{Bytes: "data: " + encode(last) + "\n\n"})
	}
	return append(chunks, Chunk{Bytes: "data: [DONE]\n\n"})
}

func pieces(s string, runes int) []string {
	var out []string
	for all := []rune(s); len(all) > 0; {
		n := min(runes, len(all))
		out = append(out, string(all[:n]))
		all = all[n:]
	}
	return out
}

func encode(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // only plain values of this package get here
	}
	return string(data)
}
