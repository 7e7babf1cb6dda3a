package kind

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidwall/gjson"
)

// plan is what the scripted LLM is asked to do; see parts/llm.go.
type plan struct {
	Nonce string     `json:"nonce"`
	Calls [][]string `json:"calls,omitempty"`
	MS    int        `json:"ms,omitempty"`
	Pace  int        `json:"pace,omitempty"`
}

var nonces atomic.Int64

func nonce() string { return fmt.Sprintf("n%d-%d", nonces.Add(1), time.Now().UnixMilli()) }

// conversation is a client's side of one conversation.
type conversation struct {
	url      string // of the API, without /chat/completions
	headers  map[string]string
	stream   bool
	messages []any
	tries    int
}

func talk(p plan) *conversation {
	text, err := json.Marshal(p)
	if err != nil {
		panic(err) // strings and ints
	}
	return &conversation{url: address.envoy + "/v1", messages: []any{map[string]any{"role": "user", "content": string(text)}}}
}

// answer is what a client makes of a response.
type answer struct {
	err    error
	status int
	body   string
	text   string
	calls  []gjson.Result // of the client's own function
	finish string
	extra  gjson.Result
}

func (a answer) String() string { return fmt.Sprintf("%d %v %.2000s", a.status, a.err, a.body) }

// done says that the model had its last word, about these results.
func (a answer) done(results ...string) bool {
	ok := a.err == nil && a.status == http.StatusOK && a.finish == "stop" && strings.HasPrefix(a.text, "done ")
	for _, r := range results {
		ok = ok && strings.Contains(a.text, r)
	}
	return ok
}

// send sends the conversation as it stands, and waits for two minutes at most. Like the official SDKs it says how often
// it did so before.
func (c *conversation) send(ctx context.Context) answer {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	body, err := json.Marshal(map[string]any{"model": "scripted", "messages": c.messages, "stream": c.stream,
		"tools": []any{map[string]any{"type": "function", "function": map[string]any{"name": "book_table"}}}})
	if err != nil {
		return answer{err: err}
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+"/chat/completions", bytes.NewReader(body))
	if err != nil {
		return answer{err: err}
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer alice")
	request.Header.Set("X-Stainless-Retry-Count", fmt.Sprint(c.tries))
	for name, value := range c.headers {
		request.Header.Set(name, value)
		if name == "Host" {
			request.Host = value
		}
	}
	c.tries++
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return answer{err: err}
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	a := answer{err: err, status: response.StatusCode, body: string(text)}
	a.read(c.stream && response.StatusCode == http.StatusOK)
	return a
}

func (a *answer) read(stream bool) {
	if !stream {
		a.take(gjson.Parse(a.body), "message")
		return
	}
	ended := false
	for line := range strings.Lines(a.body) {
		data, ok := strings.CutPrefix(strings.TrimSpace(line), "data: ")
		if ended = ended || data == "[DONE]"; ok && data != "[DONE]" {
			a.take(gjson.Parse(data), "delta")
		}
	}
	if !ended && a.err == nil {
		a.err = fmt.Errorf("the stream was cut")
	}
}

func (a *answer) take(object gjson.Result, part string) {
	choice := object.Get("choices.0")
	a.text += choice.Get(part + ".content").String()
	for _, call := range choice.Get(part + ".tool_calls").Array() {
		if call.Get("function.name").String() != "" {
			a.calls = append(a.calls, call)
		}
	}
	if finish := choice.Get("finish_reason").String(); finish != "" {
		a.finish = finish
	}
	if extra := object.Get("extensions.mcp_via_llm"); extra.Exists() {
		a.extra = extra
	}
	if fault := object.Get("error"); fault.Exists() && a.err == nil {
		a.err = fmt.Errorf("%s", fault.Raw)
	}
}

// resume adds the model's calls of the client's function, with their results.
func (c *conversation) resume(a answer) {
	var calls, results []any
	for _, call := range a.calls {
		calls = append(calls, map[string]any{"id": call.Get("id").String(), "type": "function",
			"function": map[string]any{"name": call.Get("function.name").String(), "arguments": arguments(a, call)}})
		results = append(results, map[string]any{"role": "tool", "tool_call_id": call.Get("id").String(), "content": "booked"})
	}
	message := map[string]any{"role": "assistant", "content": nil, "tool_calls": calls}
	if a.text != "" {
		message["content"] = a.text
	}
	c.messages = append(append(c.messages, message), results...)
	c.tries = 0
}

// arguments joins the pieces of a streamed call's arguments.
func arguments(a answer, call gjson.Result) string {
	whole := call.Get("function.arguments").String()
	for line := range strings.Lines(a.body) {
		data, ok := strings.CutPrefix(line, "data: ")
		if !ok {
			continue
		}
		for _, piece := range gjson.Get(data, "choices.0.delta.tool_calls").Array() {
			if piece.Get("function.name").String() == "" && piece.Get("index").Int() == call.Get("index").Int() {
				whole += piece.Get("function.arguments").String()
			}
		}
	}
	return whole
}

// must gives the answer, which must be one.
func (c *conversation) must(t *testing.T) answer {
	t.Helper()
	a := c.send(t.Context())
	if a.err != nil || a.status != http.StatusOK {
		t.Fatal(a)
	}
	return a
}

// get reads a page of one of the parts.
func get(t *testing.T, url string) gjson.Result {
	t.Helper()
	client := http.Client{Timeout: 30 * time.Second}
	response, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%s: %d %v %s", url, response.StatusCode, err, text)
	}
	return gjson.ParseBytes(text)
}

// did tells how often the shop did something.
func did(t *testing.T, what, nonce string) int64 {
	return get(t, address.shop+"/did").Get(strings.ReplaceAll(what+" "+nonce, ".", `\.`)).Int()
}

// eventually polls until a condition holds.
func eventually(t *testing.T, limit time.Duration, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(limit); !condition(); time.Sleep(200 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", limit, what)
		}
	}
}
