package mcp

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcp-via-llm/mcp-via-llm/excerpt"
)

// 2025-11-25, "Session Management", has a server answer 404 in a session that it does
// not know any more. Many answer with whatever JSON-RPC error their SDK has for a
// request before initialize, often with status 200 and without a word of sessions. What
// shows is that a request without parameters, which worked, fails now.

// accusePause is the least time between two looks at a server for errors of calls,
// which a model can bring about as fast as it likes.
const accusePause = 5 * time.Second

// errDisowned ends a session in which the server refuses to list its tools as it did
// before.
type errDisowned struct{ rpc *jsonrpc.Error }

func (e *errDisowned) Error() string {
	return fmt.Sprintf("the server refuses requests in this session now: server error %d: %s", e.rpc.Code, excerpt.Head(e.rpc.Message, maxErrorText))
}

func (e *errDisowned) Unwrap() error { return e.rpc }

// ofArguments is how servers name what is wrong in the arguments of a call.
var ofArguments = regexp.MustCompile(`(?i)\bargument|\bpropert|\bfield|\bschema|\bvalidation`)

// maxOwn bounds how many answers a connection keeps in mind, see ownErrors.
const maxOwn = 1000

// ownErrors keeps in mind which errors of calls are the tool's own, although they come
// as if the server did not know the session.
type ownErrors struct {
	mu    sync.Mutex
	known map[ownError]bool
}

type ownError struct {
	name   string // of the tool
	status int
	code   int64
	named  bool // it names a session
}

// has reports whether an answer by which the session seems lost is such an error: one
// that came in a session that was made for the call is.
func (o *ownErrors) has(name string, got answer, afresh bool) bool {
	if !got.lost || got.rpc == nil {
		return false
	}
	e := ownError{name, got.status, got.rpc.Code, namesSession(got.rpc.Message)}
	o.mu.Lock()
	defer o.mu.Unlock()
	if afresh {
		if o.known == nil || len(o.known) >= maxOwn {
			o.known = map[ownError]bool{}
		}
		o.known[e] = true
	}
	return o.known[e]
}

// forget is for a server that has changed, or does lose sessions.
func (o *ownErrors) forget() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.known = nil
}

// ofLostSessions are the codes of errors in a session that the server does not know.
var ofLostSessions = []int64{
	jsonrpc.CodeInvalidRequest, jsonrpc.CodeMethodNotFound, sdk.CodeHeaderMismatch, sdk.CodeUnsupportedProtocolVersion,
	-32002, // that of "Server not initialized" in the Language Server Protocol, which many took over
}

// accuses reports whether the error of a call may be that of a server which does not
// know the session, and is worth a look.
func (s *session) accuses(got answer) bool {
	if got.rpc == nil {
		return false
	}
	switch code := got.rpc.Code; {
	case namesSession(got.rpc.Message):
	case code == jsonrpc.CodeInvalidParams:
		if ofArguments.MatchString(got.rpc.Message) {
			return false
		}
	case slices.Contains(ofLostSessions, code):
	case got.status < 400:
		return false
	}
	return s.accuse()
}

// accuse notes that something speaks against the session, and reports whether that is
// worth a look: not so soon after another one.
func (s *session) accuse() bool {
	now := time.Now()
	if before := s.accused.Swap(now.UnixNano()); before > 0 && now.Sub(time.Unix(0, before)) < accusePause {
		s.accused.Store(before)
		return false
	}
	return true
}

// refusesRevision reports whether an error is about the revision of MCP: a session that
// has agreed on one never gets it, unless another server is there now.
func refusesRevision(rpc *jsonrpc.Error) bool {
	return rpc.Code == sdk.CodeUnsupportedProtocolVersion || rpc.Code == sdk.CodeHeaderMismatch || aboutVersions.MatchString(rpc.Message)
}

// disowned notes that the server refused to list its tools, and reports whether that
// ends the session: when it does so twice, and no call shows the session to be alive.
// Where the list did not work from the beginning, calls must speak against the session,
// and a new one is tried rarely.
func (k *keeper) disowned(err error) *errDisowned {
	rpc := (*jsonrpc.Error)(nil)
	if !errors.As(err, &rpc) {
		return nil
	}
	if k.refused++; k.refused == 1 {
		k.refusedAt = time.Now()
	}
	s := k.session
	resulted, accused := s.resulted.Load(), s.accused.Load()
	switch {
	case refusesRevision(rpc):
	case k.refused == 1, resulted > max(k.refusedAt.UnixNano(), accused), s.unlisted && (accused == 0 || s.age() < refreshInterval):
		return nil
	}
	return &errDisowned{rpc}
}

// prove asks a server without tools for something else that it gave before in the session.
func (s *session) prove(ctx context.Context) error {
	of := listings[s.proof.Load()]
	if of.params == nil {
		return nil
	}
	_, err := s.page(ctx, of, "", true)
	return err
}
