package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcp-via-llm/mcp-via-llm/mcp/credential"

	"github.com/mcp-via-llm/mcp-via-llm/excerpt"
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

// request is what goes to a server for the model.
type request struct {
	as         string // the name that the model knows
	name       string // the server's own
	readOnly   bool   // it changes nothing
	repeatable bool   // a second run does no harm
	// send sends it on a session, with that _meta and the answers to what the
	// server asked in the round before.
	send func(ctx context.Context, s *session, meta sdk.Meta, given answers) (any, error)
}

// answers are what the next round of a request brings (2026-07-28, "Multi
// Round-Trip Requests"); empty in the first.
type answers struct {
	responses sdk.InputResponseMap
	state     string // to be echoed
}

func (e *entry) request(args json.RawMessage) *request {
	return &request{
		as: e.Name, name: e.tool.name, readOnly: e.tool.readOnly, repeatable: e.tool.repeatable,
		send: func(ctx context.Context, s *session, meta sdk.Meta, given answers) (any, error) {
			return e.tool.send(ctx, s, args, meta, given)
		},
	}
}

// send sends the request that a call is. Where arguments belong into headers too, calls go
// through the SDK, which puts them there, and looks at the tool's schema anew each time:
// the tool may have other headers by now than when t was listed. Reads go past the SDK's
// cache, which has no bound.
func (t *tool) send(ctx context.Context, s *session, args json.RawMessage, meta sdk.Meta, given answers) (any, error) {
	switch t.kind {
	case KindResource, KindTemplate:
		uri, err := t.address(args)
		if err != nil {
			return nil, err
		}
		return s.request(context.WithValue(ctx, listedKey{}, t.uri), "resources/read", &sdk.ReadResourceParams{
			Meta: meta, URI: uri, InputResponses: given.responses, RequestState: given.state,
		})
	case KindPrompt:
		return s.request(ctx, "prompts/get", &sdk.GetPromptParams{
			Meta: meta, Name: t.name, Arguments: stringArguments(args), InputResponses: given.responses, RequestState: given.state,
		})
	}
	params := &sdk.CallToolParams{Meta: meta, Name: t.name, Arguments: args, InputResponses: given.responses, RequestState: given.state}
	if s.binds.Load() {
		return s.cs.CallTool(ctx, params)
	}
	return s.request(ctx, "tools/call", params)
}

// call runs a request and returns the raw JSON of its result.
//
// A request goes out twice at most, and only if the first cannot have taken effect
// (404 to a request with a session id: the server did not know the session, unless
// that is the tool's own error; or it never left) or if the server says that repeating
// it does no harm.
func (c *conn) call(ctx context.Context, what *request) ([]byte, error) {
	c.touch()
	c.running.Add(1)
	defer c.running.Add(-1)
	defer c.touch()
	run := c.begin(ctx, what)
	defer run.end()
	for {
		run.got = answer{}
		s, err := c.awaitSession(run.ctx, run.last)
		if err != nil {
			return nil, c.describe(run, err)
		}
		err = s.call(run)
		if run.got.result != nil {
			s.resulted.Store(time.Now().UnixNano())
			if !asksForInput(run.got.result) {
				return run.got.result, nil
			}
			if run.given, err = s.giveInput(run, run.got.result); err != nil {
				run.got = answer{}
				return nil, c.describe(run, err)
			}
			run.last, run.afresh = nil, false
			continue
		}
		if bad := (*errArguments)(nil); errors.As(err, &bad) {
			return nil, err // nothing was sent
		}
		if !c.again(run, s, err) {
			return nil, c.describe(run, err)
		}
	}
}

// again judges a request that had no result on a session, and says whether it goes out
// once more.
func (c *conn) again(run *running, s *session, err error) bool {
	got := &run.got
	if run.timedOut() {
		c.doubt(s) // slow, or stuck for good
	}
	if c.own.has(run.what.name, *got, run.afresh) {
		got.lost = false
	}
	if !got.lost && s.accuses(*got) {
		c.doubt(s)
	}
	broken := (got.rpc == nil || got.lost) && run.ctx.Err() == nil
	if broken {
		switch {
		case got.lost:
			s.forgotten()
		case !got.sent:
			s.kill(plainError(s.calls, s.tr, err))
		}
		c.doubt(s)
	}
	harmless := got.lost || !got.sent || run.what.repeatable
	if !broken || run.last != nil || !harmless {
		return false
	}
	run.last, run.afresh = s, got.lost
	return true
}

// awaitSession returns a session to call on. While the connection is coming back
// it waits, and says so; when the server is away it fails at once. After a failure on the
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
				"MCP server %q is not available now (%s). Its tools cannot be used; go on without them or try again later.", c.cfg.Name, outward(st.err))}
		case st.phase == phaseReconnecting:
			nudge(c.wanted)
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

// call sends one request, and notes what came. Without a result, err is what the SDK
// made of it.
func (s *session) call(run *running) error {
	if !s.enter(run) {
		return errEnded
	}
	ctx, leave := s.begin(run)
	defer leave()
	res, err := run.what.send(ctx, s, s.callMeta(run), run.given)
	run.got = captureOf(ctx).peek()
	if run.got.result == nil && err == nil {
		// The answer came on another stream than that of its request.
		run.got.result, err = json.Marshal(res)
	}
	return err
}

// begin makes the context of a request that has entered; leave must follow.
func (s *session) begin(run *running) (ctx context.Context, leave func()) {
	ctx, cancel := context.WithCancel(run.ctx)
	untie := context.AfterFunc(s.calls, cancel)
	ctx, cp := withCapture(ctx)
	cp.run, cp.giveUp = run, cancel
	return ctx, func() {
		s.leave(ctx, run, cp)
		untie()
		cancel()
	}
}

// callMeta is the _meta of a request for the model.
//
//go:noinline // or it were in the frame of call, which is held while the server works
func (s *session) callMeta(run *running) sdk.Meta {
	meta := sdk.Meta{"progressToken": run.token}
	if s.logLevel != "" && s.meta != nil {
		meta[sdk.MetaKeyLogLevel] = s.logLevel // 2026-07-28: each request asks for its own
	}
	for key, value := range s.meta {
		meta[key] = value
	}
	return meta
}

// describe tells the model why there is no result.
func (c *conn) describe(run *running, err error) error {
	as, got := run.what.as, &run.got
	cause := context.Cause(run.ctx)
	var already *callError
	var unsigned *credential.Error
	unknown := " It may or may not have taken effect."
	if run.what.readOnly {
		unknown = ""
	}
	const late = "did not answer in time and was cancelled"
	switch {
	case errors.As(err, &already):
		return already
	case errors.As(err, &unsigned):
		return &callError{OutcomeUnavailable, fmt.Sprintf("%s was not called: %s.", as, outward(err))}
	// Before the server's error, which may be its answer to the cancellation.
	case errors.Is(cause, errQuiet):
		return &callError{OutcomeTimeout, fmt.Sprintf("%s %s: it showed no progress for %v (tool_timeout).%s", as, late, c.cfg.ToolTimeout, unknown)}
	case errors.Is(cause, errWhole):
		return &callError{OutcomeTimeout, fmt.Sprintf("%s %s: it still ran after %v, the longest that a call may take (tool_timeout_max).%s", as, late, c.cfg.ToolTimeoutMax, unknown)}
	case errors.Is(cause, context.DeadlineExceeded):
		return &callError{OutcomeTimeout, fmt.Sprintf("%s %s: the time of the whole request was over.%s", as, late, unknown)}
	case cause != nil:
		return &callError{OutcomeCancelled, fmt.Sprintf("%s was cancelled.%s", as, unknown)}
	case got.rpc != nil && got.rpc.Code == sdk.CodeURLElicitationRequired:
		return &callError{OutcomeToolError, fmt.Sprintf("%s failed: %s", as, needsPerson("opening a web page", ""))}
	case got.rpc != nil:
		text := fmt.Sprintf("%s failed: server error: %s", as, excerpt.Head(got.rpc.Message, maxErrorText))
		if got.rpc.Code != 0 {
			text += fmt.Sprintf(" (code %d)", got.rpc.Code)
		}
		return &callError{OutcomeToolError, text + errorData(got.rpc)}
	case got.odd != "":
		return &callError{OutcomeFailed, fmt.Sprintf("%s failed: %s.%s", as, got.odd, unknown)}
	case got.status != 0:
		text := fmt.Sprintf("%s failed: MCP server %q answered with %v.", as, c.cfg.Name, &statusError{code: got.status})
		// RFC 9110, 15.6: a 5xx is a server that failed, or a gateway that did not
		// hear from it, not a request that was refused.
		if got.status >= 500 {
			text += unknown
		}
		return &callError{OutcomeFailed, text}
	}
	return &callError{OutcomeFailed, fmt.Sprintf("%s failed: the connection to MCP server %q broke during the call.%s", as, c.cfg.Name, unknown)}
}
