package sessions_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/mcp-via-llm/mcp-via-llm/e2e/llm"
)

// answer is what a client makes of a response.
type answer struct {
	err       error // of the connection, or an answer that was cut
	status    int
	header    http.Header
	body      string
	text      string
	calls     []llm.ToolCall
	finish    string
	extension gjson.Result
	code      string // of an error
	begun     time.Time
}

func (a answer) String() string { return fmt.Sprintf("%d %v %s", a.status, a.err, a.body) }

// complete says that it is a whole answer.
func (a answer) complete() bool {
	return a.err == nil && a.status == http.StatusOK && a.code == "" && a.finish != ""
}

// conversation is a client's side of one conversation.
type conversation struct {
	w        *world
	id       string
	plan     plan
	stream   bool
	who      string   // whose key
	headers  []string // more of them, "name: value"
	user     string
	messages []any
	tries    int      // of the conversation as it stands
	ends     []string // how attempts ended, for showing after a failure
}

func (w *world) talk(p plan, stream bool) *conversation {
	text, err := json.Marshal(p)
	if err != nil {
		panic(err) // strings and ints
	}
	return &conversation{w: w, id: fmt.Sprintf("%s-%d", p.Nonce, w.conversations.Add(1)), plan: p, stream: stream, who: "alice", messages: []any{message("user", string(text))}}
}

func message(role, text string) map[string]any { return map[string]any{"role": role, "content": text} }

func (c *conversation) body() string {
	all := map[string]any{"model": "m", "messages": c.messages, "stream": c.stream,
		"tools": []any{map[string]any{"type": "function", "function": map[string]any{"name": "book_table"}}}}
	if c.user != "" {
		all["user"] = c.user
	}
	body, err := json.Marshal(all)
	if err != nil {
		panic(err) // strings, bools and lists of them
	}
	return string(body)
}

// send sends the conversation as it stands, once. As the official SDKs do, it says how often it did so before.
func (c *conversation) send(ctx context.Context) answer {
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.w.URL+"/v1/chat/completions", strings.NewReader(c.body()))
	if err != nil {
		return answer{err: err}
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+c.who)
	r.Header.Set(conversationHeader, c.id)
	r.Header.Set("X-Stainless-Retry-Count", fmt.Sprint(c.tries))
	c.tries++
	for _, h := range c.headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return answer{err: err}
	}
	defer response.Body.Close()
	a := answer{status: response.StatusCode, header: response.Header, begun: time.Now()}
	data, err := io.ReadAll(response.Body)
	a.body, a.err = string(data), err
	a.read(c.stream && response.StatusCode == http.StatusOK)
	return a
}

// read takes the body apart.
func (a *answer) read(stream bool) {
	if !stream {
		a.code = gjson.Get(a.body, "error.code").String()
		a.take(a.body, "message")
		return
	}
	done := false
	for line := range strings.Lines(a.body) {
		data, isData := strings.CutPrefix(strings.TrimSpace(line), "data: ")
		switch {
		case data == "[DONE]":
			done = true
		case isData:
			if e := gjson.Get(data, "error"); e.IsObject() {
				a.code = "error event " + e.Get("code").String()
			}
			a.take(data, "delta")
		}
	}
	if !done && a.code == "" && a.err == nil {
		a.err = io.ErrUnexpectedEOF
	}
}

func (a *answer) take(data, name string) {
	choice := gjson.Get(data, "choices.0")
	a.text += choice.Get(name + ".content").String()
	for i, c := range choice.Get(name + ".tool_calls").Array() {
		if c.Get("index").Exists() {
			i = int(c.Get("index").Int())
		}
		for len(a.calls) <= i {
			a.calls = append(a.calls, llm.Call("", "", ""))
		}
		a.calls[i].ID += c.Get("id").String()
		a.calls[i].Function.Name += c.Get("function.name").String()
		a.calls[i].Function.Arguments += c.Get("function.arguments").String()
	}
	if f := choice.Get("finish_reason").String(); f != "" {
		a.finish = f
	}
	if e := gjson.Get(data, "extensions.mcp_via_llm"); e.Exists() {
		a.extension = e
	}
}

// take adds an answer to the conversation, and the results of its calls.
func (c *conversation) take(a answer) {
	c.tries = 0
	said := message("assistant", a.text)
	if len(a.calls) > 0 {
		said["tool_calls"] = a.calls
		if a.text == "" {
			said["content"] = nil
		}
	}
	c.messages = append(c.messages, said)
	for _, call := range a.calls {
		result := message("tool", "booked "+c.plan.Nonce)
		result["tool_call_id"] = call.ID
		c.messages = append(c.messages, result)
	}
}

// must sends the conversation, takes the answer, and fails the test if there is none.
func (c *conversation) must(t *testing.T) answer {
	t.Helper()
	a := c.send(t.Context())
	if !a.complete() {
		t.Fatalf("%s: %v", c.plan.Nonce, a)
	}
	c.take(a)
	return a
}
