package mcp

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/mcp-via-llm/mcp-via-llm/mcp/credential"
)

const (
	// maxMessage bounds one JSON-RPC message from a server, in bytes.
	maxMessage = 32 << 20
	// maxErrorBody bounds what is read of an HTTP error answer.
	maxErrorBody = 64 << 10
	maxRedirects = 3
	// streamRetries is how often the SDK may reopen a standing stream that
	// brought nothing. Its default of 5 ends the session, with the calls in it,
	// behind a proxy that cuts idle streams; from about 57 on the SDK's back-off
	// computation overflows and panics.
	streamRetries = 40

	headerSession = "Mcp-Session-Id"
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
	probe  time.Duration     // for requests that a server may leave without an answer
	onEnd  func(listen bool) // a standing stream ended

	ctx    context.Context
	cut    context.CancelFunc
	last   atomic.Int32 // status of the last POST, 0 if it was a success
	opened atomic.Bool  // the session is made
}

func (c *conn) newWire(onEnd func(listen bool)) (*wire, error) {
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
		probe: c.cfg.ConnectTimeout / 2, onEnd: onEnd,
	}
	w.ctx, w.cut = context.WithCancel(context.Background())
	client := &http.Client{Transport: w, CheckRedirect: w.redirect}
	if c.cfg.Transport == "sse" {
		w.Transport = captureTransport{&sdk.SSEClientTransport{Endpoint: c.cfg.URL, HTTPClient: client, MaxEventSize: maxMessage}}
	} else {
		w.Transport = &sdk.StreamableClientTransport{
			Endpoint: c.cfg.URL, HTTPClient: client, MaxEventSize: maxMessage, MaxRetries: streamRetries,
		}
	}
	return w, nil
}

// captureTransport gives its connections captures.
type captureTransport struct{ sdk.Transport }

func (t captureTransport) Connect(ctx context.Context) (sdk.Connection, error) {
	conn, err := t.Transport.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &captureConn{Connection: conn}, nil
}

func (w *wire) abort() {
	w.cut()
	w.base.CloseIdleConnections()
}

func (w *wire) wait() { w.base.CloseIdleConnections() }

func (w *wire) failure() error {
	if code := int(w.last.Load()); code != 0 {
		return &statusError{code}
	}
	return nil
}

// redirect allows a redirect only to the same host, without losing TLS, and only
// if it repeats the request: anything else would carry credentials away or turn
// a call into a GET.
func (w *wire) redirect(req *http.Request, via []*http.Request) error {
	switch {
	case len(via) > maxRedirects:
		return errRedirects
	case !w.sameOrigin(req.URL):
		return errOtherOrigin
	case req.Method != via[0].Method:
		return errRedirectKind
	}
	return nil
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
	ctx, cancel := context.WithCancel(req.Context())
	disarm := context.AfterFunc(w.ctx, cancel)
	done := func() { disarm(); cancel() }
	if ex.method == methodDiscover || ex.standing && !w.opened.Load() {
		// Connect waits for these, and heeds its context for none of them.
		timer := time.AfterFunc(w.probe, cancel)
		if ex.standing {
			defer timer.Stop()
		} else { // the answer counts too
			done = func() { timer.Stop(); disarm(); cancel() }
		}
	}
	resp, err := w.next.RoundTrip(w.prepare(req.Clone(ctx)))
	if ex.method == methodCancelled && ex.call != nil {
		ex.call.cancelled()
	}
	if err != nil {
		done()
		if unsigned := (*credential.Error)(nil); ex.cp != nil && errors.As(err, &unsigned) {
			ex.cp.unsent()
		}
		aborted := w.ctx.Err() != nil
		switch {
		case ex.standing && ex.get && (aborted || !w.opened.Load()):
			return noStream(req), nil
		case aborted:
			return nil, errAborted
		}
		return nil, err
	}
	resp.Request = req
	resp.Body = &wireBody{ReadCloser: resp.Body, done: done}
	if err := w.inspect(ex, resp); err != nil {
		resp.Body.Close()
		return nil, err
	}
	return resp, nil
}

// prepare adds the configured and the forwarded headers.
func (w *wire) prepare(out *http.Request) *http.Request {
	for name, values := range w.header {
		out.Header[name] = values
	}
	return out
}

// exchange is what matters of a request, to judge its answer by.
type exchange struct {
	get       bool
	standing  bool     // its answer is a stream that is meant to stay open
	id        string   // of the JSON-RPC request that it answers, as raw JSON; "" for none
	method    string   // of the JSON-RPC message
	inSession bool     // it named a session
	cp        *capture // takes the answer, if somebody wants it
	call      *capture // of the call that a notification is about
}

func (w *wire) exchange(req *http.Request) exchange {
	_, streamable := w.Transport.(*sdk.StreamableClientTransport)
	ex := exchange{get: req.Method == http.MethodGet, cp: captureOf(req.Context())}
	if req.Method == http.MethodPost && req.GetBody != nil {
		if body, err := req.GetBody(); err == nil {
			raw, _ := io.ReadAll(body) // of memory; it does not fail
			msg := gjson.GetManyBytes(raw, "id", "method")
			ex.id, ex.method = msg[0].Raw, msg[1].String()
		}
		ex.inSession = req.Header.Get(headerSession) != ""
	}
	if streamable {
		ex.standing = ex.get || ex.method == methodListen
	} else {
		ex.id = "" // in 2024-11-05 the GET is the connection itself, and brings all answers
	}
	switch {
	case ex.cp == nil:
	case ex.method == methodCancelled:
		ex.cp, ex.call = nil, ex.cp
	default:
		ex.cp.begin()
	}
	return ex
}

// noStream answers that there is no standing stream, in the place of a server
// that did not answer. The SDK would repeat the request, and neither Connect nor
// Close return meanwhile.
func noStream(req *http.Request) *http.Response {
	return &http.Response{
		StatusCode: http.StatusMethodNotAllowed, Header: http.Header{},
		Body: http.NoBody, Request: req, ProtoMajor: 1, ProtoMinor: 1,
	}
}
