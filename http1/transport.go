// Package http1 speaks HTTP/1.1 in the goroutine that asks. net/http's transport has two
// goroutines more for each connection: both must be woken for each request, and hold
// memory as long as an answer is awaited.
package http1

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"sync"
	"time"
)

// Transport is an http.RoundTripper. It heeds of net/http's settings those that [Over]
// names, and no others.
type Transport struct {
	next  *http.Transport
	slots chan struct{} // taken by requests; nil: any number

	mu   sync.Mutex
	idle map[string][]*conn // by address; those used last come last
}

// Over gives a transport with the settings of next, which gets what is not plain
// HTTP/1.1 without a proxy. Settings are DialContext, which must be set, Proxy,
// DisableCompression, DisableKeepAlives, MaxIdleConnsPerHost, MaxConnsPerHost (of all
// hosts here; idle connections do not count), IdleConnTimeout, MaxResponseHeaderBytes
// and ReadBufferSize.
func Over(next *http.Transport) *Transport {
	t := &Transport{next: next, idle: map[string][]*conn{}}
	if next.MaxConnsPerHost > 0 {
		t.slots = make(chan struct{}, next.MaxConnsPerHost)
	}
	return t
}

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme != "http" || t.next.DisableKeepAlives || t.proxied(r) {
		return t.next.RoundTrip(r)
	}
	ctx := r.Context()
	c, err := t.conn(ctx, r.URL)
	if err != nil {
		closeBody(r)
		return nil, caused(ctx, err)
	}
	c.untie = context.AfterFunc(ctx, func() { _ = c.Close() })
	sent, zipped := t.asked(r)
	resp, err := c.trip(sent)
	if err != nil {
		c.end(false)
		closeBody(r) // it may still be read
		return nil, caused(ctx, err)
	}
	resp.Request = r
	if resp.Body == http.NoBody {
		c.end(!resp.Close)
		return resp, nil
	}
	resp.Body = &body{from: resp.Body, conn: c, ctx: ctx, keep: !resp.Close}
	if zipped {
		unzip(resp)
	}
	return resp, nil
}

func (t *Transport) proxied(r *http.Request) bool {
	if t.next.Proxy == nil {
		return false
	}
	proxy, err := t.next.Proxy(r)
	return proxy != nil || err != nil
}

// asked is the request as it goes out; zipped says that an answer in gzip is to be
// unpacked, as net/http does it.
func (t *Transport) asked(r *http.Request) (out *http.Request, zipped bool) {
	if t.next.DisableCompression || r.Method == http.MethodHead || r.Header.Get("Accept-Encoding") != "" || r.Header.Get("Range") != "" {
		return r, false
	}
	out = r.WithContext(r.Context())
	if out.Header = maps.Clone(r.Header); out.Header == nil {
		out.Header = http.Header{}
	}
	out.Header["Accept-Encoding"] = []string{"gzip"}
	return out, true
}

// caused is the end of ctx, if that is why something failed.
func caused(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

func closeBody(r *http.Request) {
	if r.Body != nil {
		_ = r.Body.Close()
	}
}

// conn gives a connection that is open, as far as this side has heard.
func (t *Transport) conn(ctx context.Context, at *url.URL) (*conn, error) {
	if t.slots != nil {
		select {
		case t.slots <- struct{}{}:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	c := t.take(at.Host)
	for ; c != nil && !c.quiet(); c = t.take(at.Host) {
		_ = c.Close()
	}
	reused := c != nil
	if c == nil {
		var err error
		if c, err = t.dial(ctx, at); err != nil {
			t.leave()
			return nil, err
		}
	}
	if trace := httptrace.ContextClientTrace(ctx); trace != nil && trace.GotConn != nil {
		trace.GotConn(httptrace.GotConnInfo{Conn: c.Conn, Reused: reused, WasIdle: reused})
	}
	return c, nil
}

func (t *Transport) leave() {
	if t.slots != nil {
		<-t.slots
	}
}

// take gives an idle connection, nil if there is none.
func (t *Transport) take(address string) *conn {
	t.mu.Lock()
	defer t.mu.Unlock()
	conns := t.idle[address]
	if len(conns) == 0 {
		return nil
	}
	c := conns[len(conns)-1]
	if t.idle[address] = conns[:len(conns)-1]; c.timer != nil {
		c.timer.Stop()
	}
	return c
}

// put keeps a connection for the next request.
func (t *Transport) put(c *conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.idle[c.address]) >= max(t.next.MaxIdleConnsPerHost, http.DefaultMaxIdleConnsPerHost) {
		_ = c.Close()
		return
	}
	t.idle[c.address] = append(t.idle[c.address], c)
	switch {
	case t.next.IdleConnTimeout <= 0:
	case c.timer == nil:
		c.timer = time.AfterFunc(t.next.IdleConnTimeout, func() { t.expire(c) })
	default:
		c.timer.Reset(t.next.IdleConnTimeout)
	}
}

// expire closes a connection if it is still idle.
func (t *Transport) expire(c *conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := slices.Index(t.idle[c.address], c); i >= 0 {
		t.idle[c.address] = slices.Delete(t.idle[c.address], i, i+1)
		_ = c.Close()
	}
}

// CloseIdleConnections closes what no request uses.
func (t *Transport) CloseIdleConnections() {
	t.next.CloseIdleConnections()
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, conns := range t.idle {
		for _, c := range conns {
			if c.timer != nil {
				c.timer.Stop()
			}
			_ = c.Close()
		}
	}
	clear(t.idle)
}

var (
	errInterim = errors.New("http1: too many interim answers")
	errHeader  = errors.New("http1: the header of the answer is too large")
)

var _ io.ReadCloser = (*body)(nil)
