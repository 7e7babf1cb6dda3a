// Package mcpserver holds the MCP servers of the tests and the demo, made with the MCP Go SDK, and a recorder of each
// JSON-RPC message that passes on their wire.
package mcpserver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// Message is one JSON-RPC message on the wire, as the recorder writes it: one JSON object a line.
type Message struct {
	Time     time.Time       `json:"time"`
	Received bool            `json:"received"` // by the server; false: sent by it
	JSON     json.RawMessage `json:"json"`
}

// Method is the JSON-RPC method, empty for responses.
func (m Message) Method() string {
	var head struct {
		Method string `json:"method"`
	}
	if json.Unmarshal(m.JSON, &head) != nil {
		return ""
	}
	return head.Method
}

// Recorder writes messages to w. A nil Recorder records nothing.
type Recorder struct {
	mu sync.Mutex
	w  io.Writer
}

// NewRecorder returns a recorder that writes to w, one line a message.
func NewRecorder(w io.Writer) *Recorder { return &Recorder{w: w} }

// ReadMessages reads what a recorder wrote to a file. A line still being written is left out.
func ReadMessages(path string) ([]Message, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return ParseMessages(data)
}

// ParseMessages reads what a recorder wrote. A line still being written is left out.
func ParseMessages(data []byte) ([]Message, error) {
	var messages []Message
	for {
		line, rest, whole := bytes.Cut(data, []byte("\n"))
		if !whole {
			return messages, nil
		}
		var m Message
		if err := json.Unmarshal(line, &m); err != nil {
			return nil, fmt.Errorf("recorded message %d: %w", len(messages)+1, err)
		}
		messages = append(messages, m)
		data = rest
	}
}

func (r *Recorder) add(received bool, message []byte) {
	if r == nil || !json.Valid(message) {
		return
	}
	line, err := json.Marshal(Message{Time: time.Now(), Received: received, JSON: message})
	if err != nil {
		return // the parts are valid JSON already
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.w.Write(append(line, '\n'))
}

// lines is a writer that records each whole line that passes and is JSON: the framing of the stdio transport (MCP,
// Transports, stdio: messages are delimited by newlines), and of the data in server-sent events.
type lines struct {
	recorder *Recorder
	received bool
	mu       sync.Mutex
	partial  []byte
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.partial = append(l.partial, p...)
	for {
		line, rest, whole := bytes.Cut(l.partial, []byte("\n"))
		if !whole {
			return len(p), nil
		}
		l.recorder.add(l.received, bytes.TrimSpace(bytes.TrimPrefix(line, []byte("data: "))))
		l.partial = rest
	}
}
