package llm

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// Request is one request as it arrived, and what became of it.
type Request struct {
	Number        int // from 1, in order of arrival
	Method        string
	Path          string // with the query, as sent
	Host          string
	Header        http.Header
	Body          []byte
	ContentLength int64 // -1 when the body came chunked
	At            time.Time
	Chat          Chat // Body, where it was one JSON value

	ctx     context.Context
	mu      sync.Mutex
	aborted time.Time
	done    bool
	ended   chan struct{} // closed when the answer is complete or the caller has gone
}

// Chat is the part of a chat completion request that scripts look at.
type Chat struct {
	Model         string          `json:"model"`
	Messages      []Message       `json:"messages"`
	Stream        bool            `json:"stream"`
	StreamOptions streamOptions   `json:"stream_options"`
	ToolChoice    json.RawMessage `json:"tool_choice"`
	Tools         []struct {
		Type     string   `json:"type"`
		Function Function `json:"function"`
	} `json:"tools"`
	Err error `json:"-"` // why Body is not exactly one JSON value
}

// Function is one function offered to the model.
type Function struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

// Message is one message of the conversation.
type Message struct {
	Role       string          `json:"role"`
	Content    json.RawMessage `json:"content"`
	ToolCallID string          `json:"tool_call_id"`
	ToolCalls  []ToolCall      `json:"tool_calls"`
}

// Text is the content where it is a string, else the empty string.
func (m Message) Text() string {
	var text string
	if json.Unmarshal(m.Content, &text) != nil {
		return ""
	}
	return text
}

// ToolNames lists the functions offered, in the order of the request.
func (r *Request) ToolNames() []string {
	names := []string{}
	for _, tool := range r.Chat.Tools {
		names = append(names, tool.Function.Name)
	}
	return names
}

// Aborted tells when the caller went away before the answer was complete.
func (r *Request) Aborted() (time.Time, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.aborted, !r.aborted.IsZero()
}

// WaitAborted returns when the caller went away, or an error if the answer ended well or ctx ended first.
func (r *Request) WaitAborted(ctx context.Context) (time.Time, error) {
	select {
	case <-r.ended:
	case <-ctx.Done():
		return time.Time{}, fmt.Errorf("request %d still waits for its answer: %w", r.Number, ctx.Err())
	}
	at, aborted := r.Aborted()
	if !aborted {
		return at, fmt.Errorf("request %d was answered in full", r.Number)
	}
	return at, nil
}

func (r *Request) parse() {
	r.Chat.Err = json.Unmarshal(r.Body, &r.Chat)
}

// end records how the request ended. The first of several tells.
func (r *Request) end(aborted bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.done {
		return
	}
	r.done = true
	if aborted {
		r.aborted = time.Now()
	}
	close(r.ended)
}
