package e2e

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mcp-via-llm/mcp-via-llm/e2e/rig"
)

// turnLimit bounds one request of a test: a turn that takes longer hangs.
const turnLimit = 30 * time.Second

// plainClient adds no Accept-Encoding and decodes nothing, so that a test sees the bytes of the wire.
var plainClient = &http.Client{Transport: &http.Transport{DisableCompression: true}}

// answer is a response as it came.
type answer struct {
	status int
	header http.Header
	body   string
}

// post sends a chat completion request and reads the whole answer. Headers are "name: value".
func post(t *testing.T, r *rig.Rig, body string, headers ...string) answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), turnLimit)
	defer cancel()
	response := open(t, ctx, r, body, headers...)
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatalf("read the answer (status %d, %d bytes so far): %v", response.StatusCode, len(data), err)
	}
	return answer{response.StatusCode, response.Header, string(data)}
}

// open sends a chat completion request and returns when the answer begins.
func open(t *testing.T, ctx context.Context, r *rig.Rig, body string, headers ...string) *http.Response {
	t.Helper()
	response, err := send(ctx, r, body, headers...)
	if err != nil {
		t.Fatal(err)
	}
	return response
}

func send(ctx context.Context, r *rig.Rig, body string, headers ...string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, r.URL+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer test-key")
	request.Header.Set("User-Agent", "e2e")
	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		request.Header.Set(name, value)
	}
	return plainClient.Do(request)
}

// completion is what tests read of a whole answer, and of a stream's chunks.
type completion struct {
	ID      string `json:"id"`
	Choices []struct {
		Message      said    `json:"message"`
		Delta        said    `json:"delta"`
		FinishReason *string `json:"finish_reason"`
	} `json:"choices"`
	Usage *struct {
		Prompt int `json:"prompt_tokens"`
		Output int `json:"completion_tokens"`
		Total  int `json:"total_tokens"`
	} `json:"usage"`
	Extensions *struct {
		MCP *extension `json:"mcp_via_llm"`
	} `json:"extensions"`
	Error *struct {
		Message string  `json:"message"`
		Type    string  `json:"type"`
		Code    *string `json:"code"`
	} `json:"error"`
}

type said struct {
	Role      string            `json:"role"`
	Content   *string           `json:"content"`
	ToolCalls []json.RawMessage `json:"tool_calls"`
}

// extension is the member that the service adds to an answer.
type extension struct {
	Iterations         int      `json:"iterations"`
	ToolsCalled        []string `json:"mcp_tools_called"`
	PromptTokens       int      `json:"total_prompt_tokens"`
	CompletionTokens   int      `json:"total_completion_tokens"`
	StopReason         string   `json:"stop_reason"`
	ServersUnavailable []string `json:"servers_unavailable"`
}

// parse reads a whole answer.
func parse(t *testing.T, body string) completion {
	t.Helper()
	var c completion
	if err := json.Unmarshal([]byte(body), &c); err != nil {
		t.Fatalf("the answer is not JSON: %v\n%s", err, body)
	}
	return c
}

func (c completion) text() string {
	if len(c.Choices) == 0 || c.Choices[0].Message.Content == nil {
		return ""
	}
	return *c.Choices[0].Message.Content
}

func (c completion) code() string {
	if c.Error == nil || c.Error.Code == nil {
		return ""
	}
	return *c.Error.Code
}

func (c completion) extension(t *testing.T) extension {
	t.Helper()
	if c.Extensions == nil || c.Extensions.MCP == nil {
		t.Fatal("the answer has no extensions.mcp_via_llm")
	}
	return *c.Extensions.MCP
}

// streamed is a stream taken apart.
type streamed struct {
	ids, roles, finishes []string
	text                 string
	toolDeltas           int
	keepalives, done     int
	usages               int
	last                 completion // the last with extensions or an error
}

// parseStream takes a stream apart, and fails on a line that is no data and no comment.
func parseStream(t *testing.T, body string) streamed {
	t.Helper()
	var s streamed
	seen := map[string]bool{}
	for _, line := range strings.Split(body, "\n") {
		data, isData := strings.CutPrefix(line, "data: ")
		switch {
		case strings.HasPrefix(line, ":"):
			s.keepalives++
		case isData && data == "[DONE]":
			s.done++
		case isData:
			c := parse(t, data)
			if c.Error == nil && !seen[c.ID] {
				seen[c.ID] = true
				s.ids = append(s.ids, c.ID)
			}
			s.take(c)
		case line != "":
			t.Errorf("an unexpected line in the stream: %q", line)
		}
	}
	return s
}

func (s *streamed) take(c completion) {
	if c.Extensions != nil || c.Error != nil {
		s.last = c
	}
	if c.Usage != nil {
		s.usages++
	}
	for _, choice := range c.Choices {
		if choice.Delta.Role != "" {
			s.roles = append(s.roles, choice.Delta.Role)
		}
		if choice.Delta.Content != nil {
			s.text += *choice.Delta.Content
		}
		s.toolDeltas += len(choice.Delta.ToolCalls)
		if choice.FinishReason != nil {
			s.finishes = append(s.finishes, *choice.FinishReason)
		}
	}
}

var asked atomic.Int64

// ask makes a request body with one user message. Each is another conversation: a request that is sent again after its
// turn broke goes on from what that turn had finished.
func ask(stream bool, question string) string {
	question = fmt.Sprintf("%s (%d)", question, asked.Add(1))
	body, err := json.Marshal(map[string]any{
		"model": "test-model", "stream": stream, "messages": []any{map[string]any{"role": "user", "content": question}},
	})
	if err != nil {
		panic(err) // strings and a bool always encode
	}
	return string(body)
}

// plainBody is the body as a client that understands gzip reads it.
func plainBody(t *testing.T, a answer) string {
	t.Helper()
	if a.header.Get("Content-Encoding") != "gzip" {
		return a.body
	}
	reader, err := gzip.NewReader(strings.NewReader(a.body))
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(reader)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
