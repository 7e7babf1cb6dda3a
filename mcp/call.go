package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Outcomes of a call, as in [Result] and [CallEvent].
const (
	OutcomeOK               = "ok"
	OutcomeToolError        = "tool_error"        // the tool, or its server, answered with an error
	OutcomeInvalidArguments = "invalid_arguments" // not sent: they do not fit the schema
	OutcomeUnknownTool      = "unknown_tool"
	OutcomeTimeout          = "timeout"
	OutcomeCancelled        = "cancelled"   // the caller's context ended
	OutcomeUnavailable      = "unavailable" // not sent: the server is away
	OutcomeFailed           = "failed"      // sent, and no proper answer came
)

// callError is a call without a result.
type callError struct {
	outcome string
	message string // for the model
}

func (e *callError) Error() string { return e.message }

// retryPause is the pause before a call that may be repeated goes out again on
// the same session.
const retryPause = 200 * time.Millisecond

// call runs a tool, which the model knows as as, and returns the raw JSON of its
// result.
//
// A call goes out twice at most, and only if the first cannot have taken effect
// (404 to a request with a session id: the server did not know the session; or
// it never left) or if the server says that repeating it does no harm.
func (c *conn) call(ctx context.Context, as string, t *tool, args json.RawMessage) ([]byte, error) {
	c.touch()
	c.running.Add(1)
	defer c.running.Add(-1)
	defer c.touch()
	ctx, cancel := context.WithTimeout(ctx, c.cfg.ToolTimeout)
	defer cancel()
	var last *session
	for {
		s, err := c.awaitSession(ctx, last)
		if err != nil {
			return nil, c.describe(ctx, as, t, answer{}, err)
		}
		got, err := s.call(ctx, t.name, args)
		if got.result != nil {
			return got.result, nil
		}
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			nudge(c.suspect) // slow, or stuck for good
		}
		broken := got.rpc == nil && ctx.Err() == nil
		if broken {
			if got.lost || !got.sent {
				s.kill(plainError(s.calls, s.tr, err))
			}
			nudge(c.suspect)
		}
		harmless := got.lost || !got.sent || t.repeatable
		if !broken || last != nil || !harmless {
			return nil, c.describe(ctx, as, t, got, err)
		}
		last = s
	}
}

// awaitSession returns a session to call on. While the connection is coming back
// it waits; when the server is away it fails at once. After a failure on the
// session last it gives that one time to be found dead.
func (c *conn) awaitSession(ctx context.Context, last *session) (*session, error) {
	if last != nil {
		timer := time.NewTimer(retryPause)
		defer timer.Stop()
		select {
		case <-last.dead:
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	for {
		st := c.current.Load()
		switch {
		case st.session != nil && !isClosed(st.session.dead):
			return st.session, nil
		case st.phase == phaseUnavailable:
			return nil, &callError{OutcomeUnavailable, fmt.Sprintf(
				"MCP server %q is not available now (%v). Its tools cannot be used; go on without them or try again later.", c.cfg.Name, st.err)}
		}
		select {
		case <-st.next:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func isClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// call sends one tools/call. Without a result, the answer tells what came
// instead, and err what the SDK made of it.
func (s *session) call(ctx context.Context, name string, args json.RawMessage) (answer, error) {
	if !s.enter() {
		return answer{}, errEnded
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.calls, cancel)()
	ctx, cp := withCapture(ctx)
	defer s.leave(ctx, cp)
	res, err := s.cs.CallTool(ctx, &sdk.CallToolParams{Name: name, Arguments: args})
	got := cp.answer()
	if got.result == nil && err == nil {
		// The answer came on another stream than that of its request.
		got.result, err = json.Marshal(res)
	}
	return got, err
}

// describe tells the model why there is no result.
func (c *conn) describe(ctx context.Context, as string, t *tool, got answer, err error) error {
	var already *callError
	const unknown = "It may or may not have taken effect."
	switch {
	case errors.As(err, &already):
		return already
	// Before the server's error, which may be its answer to the cancellation.
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return &callError{OutcomeTimeout, fmt.Sprintf("%s did not answer in time and was cancelled. %s", as, unknown)}
	case ctx.Err() != nil:
		return &callError{OutcomeCancelled, fmt.Sprintf("%s was cancelled. %s", as, unknown)}
	case got.rpc != nil:
		return &callError{OutcomeToolError, fmt.Sprintf("%s failed: server error: %s (code %d)",
			as, cutText(got.rpc.Message, maxErrorText), got.rpc.Code)}
	case got.odd != "":
		return &callError{OutcomeFailed, fmt.Sprintf("%s failed: %s. %s", as, got.odd, unknown)}
	case got.status != 0:
		text := fmt.Sprintf("%s failed: MCP server %q answered with %v.", as, c.cfg.Name, &statusError{got.status})
		// RFC 9110, 15.6: a 5xx is a server that failed, or a gateway that did not
		// hear from it, not a request that was refused.
		if got.status >= 500 && !t.readOnly {
			text += " " + unknown
		}
		return &callError{OutcomeFailed, text}
	}
	return &callError{OutcomeFailed, fmt.Sprintf("%s failed: the connection to MCP server %q broke during the call. %s", as, c.cfg.Name, unknown)}
}
