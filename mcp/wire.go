package mcp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcp-via-llm/mcp-via-llm/mcp/credential"
)

const (
	// maxMessage bounds one JSON-RPC message from a server, in bytes. It has room for
	// the pictures that a result may bring; of text the model gets far less anyway.
	maxMessage = 16 << 20
	// maxErrorBody bounds what is read of an HTTP error answer.
	maxErrorBody = 64 << 10
	maxRedirects = 3
	// streamRetries is how often the SDK may reopen a standing stream that
	// brought nothing. Its default of 5 ends the session, with the calls in it,
	// behind a proxy that cuts idle streams; from about 57 on the SDK's back-off
	// computation overflows and panics.
	streamRetries = 40

	headerSession = "Mcp-Session-Id"
	headerVersion = "Mcp-Protocol-Version"
)

var (
	errAborted      = errors.New("connection closed")
	errOtherOrigin  = errors.New("refused to leave the configured server")
	errRedirects    = errors.New("too many redirects")
	errRedirectKind = errors.New("redirect would change the request")
)

// wire is the HTTP side of one connection: both the SDK's transport and the
// RoundTripper under it. It adds the server's headers, keeps them from any other
// host, bounds what is read, and feeds captures.
type wire struct {
	sdk.Transport
	base   *credential.Pool
	next   http.RoundTripper // over base, with the caller's credential
	origin *url.URL
	header http.Header
	trace  func(context.Context, http.Header) // puts the context of a trace into a request
	probe  time.Duration                      // for requests that a server may leave without an answer
	onEnd  func(listen bool)                  // a standing stream ended
	to     listener
	sse    bool // the transport of 2024-11-05
	client *http.Client

	ctx     context.Context
	cut     context.CancelFunc
	last    atomic.Pointer[statusError] // of the last POST, nil if it was a success
	pending sync.Map                    // raw id to *capture, of requests on their way
	version string                      // that was agreed on; set before opened
	opened  atomic.Bool                 // the session is made
	// unreached is why server/discover did not arrive, if so.
	unreached atomic.Pointer[net.OpError]
}

func (c *conn) newWire(s *session, sse bool) (*wire, error) {
	origin, err := url.Parse(c.cfg.URL)
	if err != nil {
		return nil, errors.New("invalid url") // url.Parse quotes it, and it may hold a secret
	}
	base, err := c.source.NewPool()
	if err != nil {
		return nil, err
	}
	header := http.Header{}
	for name, value := range c.cfg.Headers {
		header.Set(name, value)
	}
	for name, values := range c.caller.forwarded {
		header[name] = values
	}
	w := &wire{
		base: base, next: c.signer.RoundTripper(base), origin: origin, header: header,
		trace: c.host.tracing.header, probe: c.cfg.ConnectTimeout / 2, sse: sse, to: s,
		onEnd: func(listen bool) {
			if listen {
				s.deaf.Store(true)
			}
			c.doubt(s)
		},
	}
	w.ctx, w.cut = context.WithCancel(context.Background())
	w.client = &http.Client{Transport: w, CheckRedirect: w.redirect}
	if sse {
		w.Transport = captureTransport{&sdk.SSEClientTransport{Endpoint: c.cfg.URL, HTTPClient: w.client, MaxEventSize: -1}, s}
	} else {
		w.Transport = &sdk.StreamableClientTransport{
			Endpoint: c.cfg.URL, HTTPClient: w.client, MaxEventSize: -1, MaxRetries: streamRetries,
		}
	}
	return w, nil
}

// captureTransport gives its connections captures.
type captureTransport struct {
	sdk.Transport
	to listener
}

func (t captureTransport) Connect(ctx context.Context) (sdk.Connection, error) {
	conn, err := t.Transport.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &captureConn{Connection: conn, to: t.to}, nil
}

func (w *wire) abort() {
	w.cut()
	w.base.CloseIdleConnections()
}

func (w *wire) wait() { w.base.CloseIdleConnections() }

func (w *wire) failure() error {
	if last := w.last.Load(); last != nil {
		return last
	}
	return nil
}

// redirect allows a redirect only to the same host, without losing TLS, and only
// if it repeats the request: anything else would carry credentials away or turn
// a call into a GET.
func (w *wire) redirect(req *http.Request, via []*http.Request) error {
	var why error
	switch {
	case len(via) > maxRedirects:
		why = errRedirects
	case !w.sameOrigin(req.URL):
		why = errOtherOrigin
	case req.Method != via[0].Method:
		why = errRedirectKind
	default:
		return nil
	}
	status := &statusError{code: req.Response.StatusCode, said: fmt.Sprintf("to %s://%s, which is not followed: %v", req.URL.Scheme, req.URL.Host, why)}
	w.last.Store(status)
	if cp := captureOf(req.Context()); cp != nil && via[0].Method == http.MethodPost {
		cp.refused(status, false)
	}
	return status
}

func (w *wire) sameOrigin(u *url.URL) bool {
	upgraded := *w.origin
	upgraded.Scheme = "https"
	return credential.SameOrigin(u, w.origin) || credential.SameOrigin(u, &upgraded)
}

// RoundTrip implements [http.RoundTripper].
func (w *wire) RoundTrip(req *http.Request) (*http.Response, error) {
	if !w.sameOrigin(req.URL) { // a 2024-11-05 server names the URL to post to
		return nil, errOtherOrigin
	}
	ex := w.exchange(req)
	ctx, begun, done := w.bound(ex, req.Context())
	defer begun()
	out := req.WithContext(ctx)
	out.Header = req.Header.Clone()
	resp, err := w.send(ex, out)
	if ex.method == methodCancelled && ex.call != nil {
		ex.call.cancelled()
	}
	if err != nil {
		done()
		return w.unanswered(ex, req, err)
	}
	resp.Request = req
	resp.Body = &wireBody{ReadCloser: resp.Body, done: done}
	if err := w.inspect(ex, resp); err != nil {
		resp.Body.Close()
		return nil, err
	}
	return resp, nil
}

// bound ends a request with the connection. begun is called when its answer has begun,
// and done when that is over.
func (w *wire) bound(ex *exchange, ctx context.Context) (_ context.Context, begun, done func()) {
	ctx, cancel := ex.ending(ctx)
	disarm := context.AfterFunc(w.ctx, cancel)
	begun, done = func() {}, func() { disarm(); cancel() }
	if ex.method == methodDiscover || ex.standing && !w.opened.Load() {
		// Connect waits for these, and heeds its context for none of them.
		timer := time.AfterFunc(w.probe, cancel)
		if ex.standing {
			begun = func() { timer.Stop() }
		} else { // the answer counts too
			done = func() { timer.Stop(); disarm(); cancel() }
		}
	}
	return ctx, begun, done
}

// unanswered is what a request ends with to which no answer came.
func (w *wire) unanswered(ex *exchange, req *http.Request, err error) (*http.Response, error) {
	if unsigned := (*credential.Error)(nil); ex.cp != nil && errors.As(err, &unsigned) {
		ex.cp.unsent()
	}
	aborted := w.ctx.Err() != nil
	if ex.method != "" {
		w.last.Store(nil) // it did not even answer
	}
	if ex.standing && w.opened.Load() && !aborted && (!ex.get || isDial(err)) {
		w.onEnd(!ex.get) // before it began: nothing else would tell that the server is away
	}
	switch {
	case ex.get && ex.cp != nil && req.Context().Err() == nil:
		ex.cp.abandon(notResumed)
	case ex.standing && ex.get && (aborted || !w.opened.Load()):
		return noStream(req), nil
	case aborted:
		return nil, errAborted
	}
	return nil, err
}

// send sends a request. After server/discover did not reach the server, initialize
// does not either: a server that comes up in between would be taken for an older one.
func (w *wire) send(ex *exchange, req *http.Request) (*http.Response, error) {
	if err := w.unreached.Load(); err != nil && ex.method == methodInitialize {
		return nil, err
	}
	resp, err := w.next.RoundTrip(w.prepare(req))
	if dial := (*net.OpError)(nil); ex.method == methodDiscover && isDial(err) && errors.As(err, &dial) {
		w.unreached.Store(dial)
	}
	return resp, err
}

// isDial reports whether the server was not reached at all.
func isDial(err error) bool {
	var dial *net.OpError
	return errors.As(err, &dial) && dial.Op == "dial"
}

// prepare adds the configured and the forwarded headers.
func (w *wire) prepare(out *http.Request) *http.Request {
	w.trace(out.Context(), out.Header)
	for name, values := range w.header {
		out.Header[name] = values
	}
	if w.sse && out.Method == http.MethodPost && w.opened.Load() {
		out.Header.Set(headerVersion, w.version) // the SDK does so on the newer transport only
	}
	return out
}
