package mcp

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"
)

// capture takes the answer to one request off the wire, before the SDK decodes
// it: integers over 2^53 and the key order of schemas do not survive that, and
// one content block of an unknown type fails the whole result. It travels in
// the request's context, which reaches both kinds of transport.
type capture struct {
	mu     sync.Mutex
	result []byte         // raw JSON of the result, nil if there was none
	rpc    *jsonrpc.Error // the server's own error
	sent   bool           // the request left, or began to
	status int            // HTTP status, if it was an error
	lost   bool           // answered 404 to a request with a session id
	odd    string         // what was wrong with an answer that is no MCP
	forget func()

	tell sync.Once
	told chan struct{} // closed when notifications/cancelled for the request is out
}

type captureKey struct{}

func withCapture(ctx context.Context) (context.Context, *capture) {
	cp := &capture{forget: func() {}, told: make(chan struct{})}
	return context.WithValue(ctx, captureKey{}, cp), cp
}

func captureOf(ctx context.Context) *capture {
	cp, _ := ctx.Value(captureKey{}).(*capture)
	return cp
}

// cancelled notes that the server was told of the cancellation. The SDK sends
// that notification in the background, with the values of the call's context.
func (cp *capture) cancelled() { cp.tell.Do(func() { close(cp.told) }) }

// take looks at one JSON-RPC message from the answer to the captured request.
func (cp *capture) take(message []byte) {
	parsed := gjson.ParseBytes(message)
	if parsed.Get("method").Exists() {
		return // a request or notification of the server
	}
	cp.mu.Lock()
	defer cp.mu.Unlock()
	if result := parsed.Get("result"); result.Exists() {
		cp.result = []byte(result.Raw)
	} else if e := parsed.Get("error"); e.IsObject() {
		cp.rpc = &jsonrpc.Error{Code: e.Get("code").Int(), Message: e.Get("message").String()}
	}
}

// begin notes that the request goes out, perhaps again after a redirect.
func (cp *capture) begin() {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	cp.sent, cp.status, cp.lost, cp.odd = true, 0, false, ""
}

// unsent notes that the server has not accepted the request, or never saw it.
func (cp *capture) unsent() {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	cp.sent = false
}

func (cp *capture) isOdd(problem string) {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	cp.odd = problem
}

func (cp *capture) refused(status int, lost bool) {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	cp.status, cp.lost = status, lost
}

// answer is what a capture took.
type answer struct {
	result []byte
	rpc    *jsonrpc.Error
	sent   bool
	status int
	lost   bool
	odd    string
}

// answer returns what was taken. The request must be over.
func (cp *capture) answer() answer {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	cp.forget()
	return answer{cp.result, cp.rpc, cp.sent, cp.status, cp.lost, cp.odd}
}

// captureConn serves captures on transports where every answer arrives on one
// stream: stdio and 2024-11-05. (The SDK wants its own connection type for
// Streamable HTTP; there the RoundTripper does it.)
type captureConn struct {
	sdk.Connection
	pending sync.Map // jsonrpc.ID to *capture
}

func (c *captureConn) Write(ctx context.Context, msg jsonrpc.Message) error {
	req, ok := msg.(*jsonrpc.Request)
	if cp := captureOf(ctx); ok && cp != nil {
		if req.Method == methodCancelled {
			defer cp.cancelled()
		} else if req.IsCall() {
			id := req.ID
			c.pending.Store(id, cp)
			cp.begin()
			cp.mu.Lock()
			cp.forget = func() { c.pending.Delete(id) }
			cp.mu.Unlock()
		}
	}
	return c.Connection.Write(ctx, msg)
}

func (c *captureConn) Read(ctx context.Context) (jsonrpc.Message, error) {
	msg, err := c.Connection.Read(ctx)
	if resp, ok := msg.(*jsonrpc.Response); ok && err == nil {
		if cp, ok := c.pending.Load(resp.ID); ok {
			cp := cp.(*capture)
			cp.mu.Lock()
			cp.result = resp.Result
			errors.As(resp.Error, &cp.rpc)
			cp.mu.Unlock()
		}
	}
	return msg, err
}

// captureStream passes an event stream through and takes the messages in it.
type captureStream struct {
	io.ReadCloser
	cp   *capture
	line []byte // the unfinished line
	data []byte // the data of the unfinished event
}

func (s *captureStream) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	for rest := p[:n]; len(rest) > 0; {
		end := bytes.IndexByte(rest, '\n')
		if end < 0 {
			s.line = append(s.line, rest...)
			break
		}
		s.endLine(append(s.line, rest[:end]...))
		s.line, rest = s.line[:0], rest[end+1:]
	}
	if err != nil {
		s.endLine(s.line)
		s.endLine(nil)
	}
	return n, err
}

func (s *captureStream) endLine(line []byte) {
	line = bytes.TrimSuffix(line, []byte("\r"))
	if len(line) == 0 {
		if len(s.data) > 0 {
			s.cp.take(s.data)
		}
		s.data = nil
		return
	}
	if data, ok := bytes.CutPrefix(line, []byte("data:")); ok {
		if s.data != nil {
			s.data = append(s.data, '\n')
		}
		s.data = append(s.data, bytes.TrimSpace(data)...)
	}
}
