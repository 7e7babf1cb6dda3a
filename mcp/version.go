package mcp

import (
	"cmp"
	"errors"
	"regexp"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"
)

// errVersion is a server that refused a revision. Most name those that they take, in the
// data of the error or in its text, which may name the refused one too.
type errVersion struct {
	error
	offered, mentioned []string
	guess              bool // the text says what it is about: if it names none, there may be one
}

func (e *errVersion) Unwrap() error { return e.error }

// withVersions adds to an error what a refusal says of revisions.
func withVersions(err error, refusal *jsonrpc.Error) error {
	if refusal == nil {
		return err
	}
	if errors.Is(err, errClosedByServer) { // the SDK takes some codes for its own
		err = errors.New(rpcText(refusal))
	}
	about := aboutVersions.MatchString(refusal.Message)
	if !about && !gjson.GetBytes(refusal.Data, "supported").Exists() {
		return err
	}
	requested := gjson.GetBytes(refusal.Data, "requested").String()
	offered := slices.DeleteFunc(revision.FindAllString(string(refusal.Data), -1), func(v string) bool { return v == requested })
	return &errVersion{err, offered, revision.FindAllString(refusal.Message, -1), about}
}

var (
	aboutVersions = regexp.MustCompile(`(?i)protocol.?version`)
	revision      = regexp.MustCompile(`\b\d{4}-\d\d-\d\d\b`)
)

// next is the newest revision with initialize that the server takes and that was not
// tried, "" if there is none. Of a server that names none it is the newest at all.
func (e *errVersion) next(tried []string) string {
	unnamed := e.guess && len(e.offered) == 0
	for _, v := range e.mentioned {
		unnamed = unnamed && slices.Contains(tried, v)
	}
	for _, v := range sdk.SupportedProtocolVersions() { // newest first
		if v <= legacyVersion && !slices.Contains(tried, v) && (unnamed || slices.Contains(e.offered, v) || slices.Contains(e.mentioned, v)) {
			return v
		}
	}
	return ""
}

// agree makes a session in a way, which is then the one to go on with. A server that
// refuses the revision is asked for another (2025-11-25, "Lifecycle: Error Handling").
func (c *conn) agree(by way) (*session, error) {
	s, err := c.dial(by)
	tried := []string{cmp.Or(by.version, legacyVersion)}
	for refused := (*errVersion)(nil); err != nil && errors.As(err, &refused) && c.ctx.Err() == nil; {
		next := refused.next(tried)
		if next == "" {
			return nil, err
		}
		by.version, tried = next, append(tried, next)
		s, err = c.dial(by)
	}
	if err == nil {
		c.way = by
	}
	return s, err
}

// learn takes from the end of a session, or the failure of its first request, how to
// reach the server next. It reports whether there is another revision to go on with: a
// server may agree on one and refuse its own choice in the header of the next request,
// or be replaced by one of another revision.
func (c *conn) learn(s *session, err error, tried ...string) bool {
	refusal := (*jsonrpc.Error)(nil)
	if status := (*statusError)(nil); errors.As(err, &status) {
		refusal = &jsonrpc.Error{Message: status.said}
	}
	errors.As(err, &refusal)
	if refusal == nil || !refusesRevision(refusal) {
		return false
	}
	c.way.version = c.firstWay().version
	if refused := (*errVersion)(nil); errors.As(withVersions(err, refusal), &refused) {
		c.way.version = cmp.Or(refused.next(append(tried, s.version())), c.way.version)
	}
	return c.way.version != ""
}
