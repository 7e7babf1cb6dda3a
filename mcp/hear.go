package mcp

import (
	"context"
	"encoding/json"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/tidwall/gjson"
)

const (
	// maxReplies bounds the answers to one server that are on their way.
	maxReplies = 64
	// replyTimeout bounds sending one.
	replyTimeout = 10 * time.Second
)

// incoming is what a server sends of itself.
type incoming struct {
	id     string // raw JSON, "" for a notification
	method string
	params json.RawMessage
	from   *running // whose stream brought it, nil if it came on a common one
	// reply sends the answer to a request.
	reply func(ctx context.Context, result json.RawMessage, refusal *jsonrpc.Error) error
}

// hear takes requests, and what concerns running calls, out of what a server
// sends, and reports whether it did: the SDK then does not see the message. The SDK
// would decode params and results into its own types, queue without a limit, and
// could not tell whose call a request belongs to.
func (s *session) hear(m incoming) bool {
	if m.id != "" {
		s.asked(m)
		return true
	}
	params := gjson.ParseBytes(m.params)
	switch m.method {
	case "notifications/progress":
		s.mu.Lock()
		run := s.runs[params.Get("progressToken").String()]
		s.mu.Unlock()
		if run != nil { // else it is late, or invented
			run.moved(params.Get("message").String(), params.Get("progress").Float(), params.Get("total").Float())
		}
		return true
	case "notifications/message":
		s.says(params)
		return true
	case methodCancelled:
		s.mu.Lock()
		withdraw := s.questions[params.Get("requestId").Raw]
		s.mu.Unlock()
		if withdraw != nil {
			withdraw()
		}
		return true
	}
	return false
}

// asked answers a request of the server, in the background.
func (s *session) asked(m incoming) {
	if m.method == methodElicit || m.method == methodSample || m.method == methodRoots {
		s.log.Debug("the server asks back", "method", m.method)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing || s.replies >= maxReplies || s.questions[m.id] != nil {
		return // it floods us, or repeats itself
	}
	s.replies++
	run := m.from
	if run == nil && len(s.runs) == 1 && !s.mayRunLocked() {
		for _, only := range s.runs {
			run = only
		}
	}
	life := s.calls
	if run != nil {
		life = run.ctx
	}
	ctx, withdraw := context.WithCancel(life)
	s.questions[m.id] = withdraw
	s.group.Go(func() {
		defer func() {
			withdraw()
			s.mu.Lock()
			s.replies--
			s.mu.Unlock()
		}()
		result, refusal := s.reply(ctx, run, m)
		s.mu.Lock()
		delete(s.questions, m.id)
		s.mu.Unlock()
		if ctx.Err() != nil && run != nil && run.ctx.Err() == nil {
			return // withdrawn
		}
		ctx, cancel := context.WithTimeout(s.calls, replyTimeout)
		defer cancel()
		if err := m.reply(ctx, result, refusal); err != nil && s.calls.Err() == nil {
			s.log.Debug("answering a request of the server", "method", m.method, "error", plainError(ctx, s.tr, err))
		}
	})
}

// answered notes an answer of the server, late or not.
func (s *session) answered(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.givenUp, id)
}

// reply is the answer to a request that came as a message of its own, as servers
// before 2026-07-28 send them.
func (s *session) reply(ctx context.Context, run *running, m incoming) (json.RawMessage, *jsonrpc.Error) {
	if m.method == "ping" {
		return json.RawMessage("{}"), nil
	}
	result, refusal := s.answerTo(ctx, run, m.method, m.params)
	if refusal != nil && refusal.Code == codeRejected && m.method == methodElicit {
		return declined(refusal.Message), nil // a server that may ask can take a no
	}
	return result, refusal
}
