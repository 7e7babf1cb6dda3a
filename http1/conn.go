package http1

import (
	"bufio"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// inlineBody is how long a body may be that is written before the answer is looked
	// for, in bytes.
	inlineBody    = 64 << 10
	maxInterim    = 5 // answers of status 1xx before the one that counts, as net/http has it
	defaultHeader = 10 << 20
	// writeTime is how long the end of writing may come after the end of the answer.
	writeTime = 50 * time.Millisecond
)

// conn is a connection, used by one request at a time.
type conn struct {
	net.Conn
	transport *Transport
	address   string
	raw       syscall.RawConn
	reader    *bufio.Reader
	left      int64       // bytes that may be read now
	timer     *time.Timer // closes it when it was idle for long
	untie     func() bool // of the request's context, whose end closes it
	written   chan error  // has what came of writing the request
}

func (t *Transport) dial(ctx context.Context, at *url.URL) (*conn, error) {
	raw, err := t.next.DialContext(ctx, "tcp", net.JoinHostPort(at.Hostname(), cmp.Or(at.Port(), "80")))
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: raw, transport: t, address: at.Host, written: make(chan error, 1)}
	c.reader = bufio.NewReaderSize(c, cmp.Or(t.next.ReadBufferSize, 4<<10))
	if socket, ok := raw.(syscall.Conn); ok {
		if c.raw, err = socket.SyscallConn(); err != nil {
			_ = raw.Close()
			return nil, err
		}
	}
	return c, nil
}

// Read bounds what is read of a header.
func (c *conn) Read(p []byte) (int, error) {
	if c.left <= 0 {
		return 0, errHeader
	}
	n, err := c.Conn.Read(p[:min(int64(len(p)), c.left)])
	c.left -= int64(n)
	return n, err
}

// quiet reports whether the other side has neither closed an idle connection nor said
// anything.
func (c *conn) quiet() (is bool) {
	if c.raw == nil {
		return false
	}
	err := c.raw.Read(func(fd uintptr) bool {
		var one [1]byte
		_, _, err := syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		is = errors.Is(err, syscall.EAGAIN)
		return true
	})
	return is && err == nil
}

// trip writes a request and reads the head of its answer. Who refuses a large body may
// answer before it is there.
func (c *conn) trip(r *http.Request) (*http.Response, error) {
	if r.Body == nil || r.Body == http.NoBody || r.ContentLength > 0 && r.ContentLength <= inlineBody {
		c.written <- c.write(r)
	} else {
		go func() { c.written <- c.write(r) }()
	}
	for range maxInterim + 1 {
		c.left = cmp.Or(c.transport.next.MaxResponseHeaderBytes, defaultHeader)
		resp, err := http.ReadResponse(c.reader, r)
		if err != nil {
			return nil, c.failure(err)
		}
		if resp.StatusCode >= http.StatusOK || resp.StatusCode == http.StatusSwitchingProtocols {
			c.left = math.MaxInt64
			return resp, nil
		}
	}
	return nil, errInterim
}

// writers are used as long as a request is written. Most fit one, and go out at once.
var writers = sync.Pool{New: func() any { return bufio.NewWriterSize(nil, 16<<10) }}

// write writes a request. If that fails because of the body, no answer can come.
func (c *conn) write(r *http.Request) error {
	w := writers.Get().(*bufio.Writer)
	w.Reset(c.Conn)
	err := r.Write(w)
	if err == nil {
		err = w.Flush()
	}
	w.Reset(nil)
	writers.Put(w)
	if broken := (*net.OpError)(nil); err != nil && !errors.As(err, &broken) {
		_ = c.Close()
	}
	return err
}

// failure is why no answer came: it may be the request.
func (c *conn) failure(err error) error {
	select {
	case first := <-c.written:
		return cmp.Or(first, err)
	default:
		return err
	}
}

// wrote reports whether the request is written, as it should be when its answer is whole.
func (c *conn) wrote() bool {
	select {
	case err := <-c.written:
		return err == nil
	default:
	}
	timer := time.NewTimer(writeTime)
	defer timer.Stop()
	select {
	case err := <-c.written:
		return err == nil
	case <-timer.C:
		return false
	}
}

// end is the end of a request; keep says that its answer was read to the end.
func (c *conn) end(keep bool) {
	defer c.transport.leave()
	keep = keep && c.wrote()
	if c.untie() && keep && c.reader.Buffered() == 0 {
		c.transport.put(c)
		return
	}
	_ = c.Close()
}

// body gives its connection back when it is read to the end.
type body struct {
	from io.Reader
	conn *conn
	ctx  context.Context
	keep bool
	over atomic.Bool
	err  error // of all further reads
}

func (b *body) Read(p []byte) (int, error) {
	if b.over.Load() {
		return 0, cmp.Or(b.err, http.ErrBodyReadAfterClose)
	}
	n, err := b.from.Read(p)
	if err != nil {
		whole := errors.Is(err, io.EOF)
		if !whole {
			err = caused(b.ctx, err)
		}
		b.err = err
		b.end(b.keep && whole)
	}
	return n, err
}

// Close may come while a read waits.
func (b *body) Close() error {
	b.end(false)
	return nil
}

func (b *body) end(keep bool) {
	if !b.over.Swap(true) {
		b.conn.end(keep)
	}
}

// unzip has an answer in gzip unpacked.
func unzip(resp *http.Response) {
	if !strings.EqualFold(resp.Header.Get("Content-Encoding"), "gzip") {
		return
	}
	resp.Body = &zipped{ReadCloser: resp.Body}
	resp.Header.Del("Content-Encoding")
	resp.Header.Del("Content-Length")
	resp.ContentLength, resp.Uncompressed = -1, true
}

type zipped struct {
	io.ReadCloser
	reader *gzip.Reader
	err    error
}

func (z *zipped) Read(p []byte) (int, error) {
	if z.reader == nil && z.err == nil {
		z.reader, z.err = gzip.NewReader(z.ReadCloser)
	}
	if z.err != nil {
		return 0, z.err
	}
	return z.reader.Read(p)
}
