package mcp

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"
)

// reapTimeout is how long to wait for the exit status of a child that has ended.
const reapTimeout = 200 * time.Millisecond

// stdioTransport speaks newline-delimited JSON-RPC with a child process. The
// SDK's own CommandTransport ends at the first line of the server that is not
// JSON, inherits the whole environment and leaves grandchildren behind.
type stdioTransport struct {
	child *child
	conn  *stdioConn
	to    listener
}

func newStdioTransport(cfg *Server, log *slog.Logger, to listener) (*stdioTransport, error) {
	p, err := startChild(cfg, log)
	if err != nil {
		return nil, err
	}
	conn := &stdioConn{
		child: p, log: log, probe: cfg.ConnectTimeout / 4 * 3,
		incoming: make(chan jsonrpc.Message), eof: make(chan struct{}),
		known: make(chan struct{}), closed: make(chan struct{}),
	}
	p.group.Go(conn.readAll)
	return &stdioTransport{p, conn, to}, nil
}

// Connect implements [sdk.Transport].
func (t *stdioTransport) Connect(context.Context) (sdk.Connection, error) {
	return &captureConn{Connection: t.conn, to: t.to}, nil
}

func (t *stdioTransport) abort() {
	t.conn.Close()
	t.child.kill()
}

func (t *stdioTransport) wait() { t.child.wait() }

func (t *stdioTransport) failure() error {
	if t.conn.oversize.Load() {
		return errMessageTooLarge
	}
	if !isClosed(t.conn.eof) && !t.conn.broken.Load() {
		return nil
	}
	timer := time.NewTimer(reapTimeout) // its pipes end a moment before a process
	defer timer.Stop()
	select {
	case <-t.child.ended:
		return t.child.endErr
	case <-timer.C:
		return nil
	}
}

// silent reports whether the server did not answer server/discover in time.
func (t *stdioTransport) silent() bool { return t.conn.silent.Load() }

// stdioConn implements [sdk.Connection].
type stdioConn struct {
	child    *child
	log      *slog.Logger
	probe    time.Duration
	writing  sync.Mutex
	incoming chan jsonrpc.Message
	eof      chan struct{} // closed after the last message
	oversize atomic.Bool
	broken   atomic.Bool // a write failed

	asked  sync.Once // server/discover was sent
	answer sync.Once
	known  chan struct{} // closed when the server answers anything
	silent atomic.Bool
	held   heldAnswers

	closing sync.Once
	closed  chan struct{}
}

func (c *stdioConn) SessionID() string { return "" }

func (c *stdioConn) Close() error {
	c.closing.Do(func() {
		close(c.closed)
		c.child.stop()
	})
	return nil
}

func (c *stdioConn) Read(ctx context.Context) (jsonrpc.Message, error) {
	select {
	case msg := <-c.incoming:
		return msg, nil
	case <-c.eof:
		return nil, io.EOF
	case <-c.closed:
		return nil, io.EOF
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (c *stdioConn) Write(_ context.Context, msg jsonrpc.Message) error {
	data, err := jsonrpc.EncodeMessage(msg)
	if err != nil {
		return err
	}
	c.writing.Lock()
	_ = c.child.stdin.SetWriteDeadline(time.Now().Add(writeTimeout))
	_, err = c.child.stdin.Write(append(data, '\n'))
	c.writing.Unlock()
	if err != nil {
		c.broken.Store(true)
		c.child.kill() // half a message may be in the pipe
		return err
	}
	if req, ok := msg.(*jsonrpc.Request); ok && req.Method == methodDiscover {
		c.asked.Do(func() { c.child.group.Go(func() { c.giveUp(req.ID) }) })
	}
	return nil
}

// giveUp answers server/discover in the place of a server that stays silent, so
// that the SDK goes on with initialize. Servers older than 2026-07-28 may ignore
// a method that they do not know. It waits long: a newer server that is only slow
// to start takes server/discover for the beginning and refuses initialize then.
func (c *stdioConn) giveUp(id jsonrpc.ID) {
	timer := time.NewTimer(c.probe)
	defer timer.Stop()
	select {
	case <-timer.C:
		c.silent.Store(true)
		c.deliver(&jsonrpc.Response{ID: id, Error: &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "no answer"}})
	case <-c.known:
	case <-c.eof:
	case <-c.closed:
	}
}

func (c *stdioConn) deliver(msg jsonrpc.Message) bool {
	if _, ok := msg.(*jsonrpc.Response); ok {
		c.answer.Do(func() { close(c.known) })
	}
	select {
	case c.incoming <- msg:
		return true
	case <-c.eof:
		return false
	case <-c.closed:
		return false
	}
}

// readAll reads the child's stdout to its end.
func (c *stdioConn) readAll() {
	defer c.child.stdout.Close()
	defer close(c.eof)
	defer c.held.end()
	lines := bufio.NewReaderSize(c.child.stdout, 64<<10)
	for {
		line, over, err := readLine(lines, maxMessage)
		msgs, sure := c.messages(line)
		if over != nil {
			id, ok := over.answers()
			if !ok || errors.Is(err, errMessageTooLarge) {
				c.oversize.Store(true)
				c.child.kill()
				return
			}
			c.log.Warn("dropped an answer of the server that is over the size limit", "limit", maxMessage)
			msgs, sure = []jsonrpc.Message{&jsonrpc.Response{ID: id, Error: errMessageTooLarge}}, 1
		}
		for i, msg := range msgs {
			answer, ok := msg.(*jsonrpc.Response)
			if ok && i >= sure {
				c.held.hold(answer, c.deliver)
				continue
			}
			if ok {
				c.held.clean(answer.ID)
			}
			if !c.deliver(msg) {
				return
			}
		}
		if err != nil {
			if !errors.Is(err, io.EOF) && !errors.Is(err, os.ErrClosed) {
				c.log.Debug("reading stdout", "error", err)
			}
			return
		}
	}
}

// messages decodes a line. Servers print other things on stdout too (a banner,
// a log line, even one in JSON), sometimes on the line of a message; these are dropped.
// The first sure of the messages have no other text in front.
func (c *stdioConn) messages(line []byte) (msgs []jsonrpc.Message, sure int) {
	line = flat(plain(line))
	if len(line) == 0 {
		return nil, 0
	}
	if (line[0] == '{' || line[0] == '[') && validJSON(line) {
		for _, part := range messages(line) {
			if msg := message(part); msg != nil {
				msgs = append(msgs, msg)
			}
		}
		sure = len(msgs)
	} else if bytes.Contains(line, []byte(`"jsonrpc"`)) {
		var broken []byte
		msgs, sure, broken = buried(line)
		if id, ok := endsOf(broken).answers(); ok { // python writes NaN, for one
			c.log.Warn("an answer of the server is broken JSON")
			msgs = append(msgs, &jsonrpc.Response{ID: id, Error: errBrokenJSON})
			sure = len(msgs) // broken is nil behind other text
		}
	}
	if msgs == nil {
		c.log.Debug("dropped a line of stdout that is no MCP message", "bytes", len(line))
	}
	return msgs, sure
}

// message decodes a message, nil if it is none. A server's log may be JSON too: without
// the version that all messages have, only an answer with an id is one.
func message(part gjson.Result) jsonrpc.Message {
	version := part.Get("jsonrpc").String() == "2.0"
	switch {
	case !part.IsObject():
	case isAnswer(part) && (version || answerID(part) != nobodys):
		return response(part)
	case version && part.Get("method").Type == gjson.String:
		if msg, err := jsonrpc.DecodeMessage(requestAs(part)); err == nil {
			return msg
		}
	}
	return nil
}
