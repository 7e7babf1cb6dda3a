package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
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
	hear   func(incoming) bool
	sse    bool // the transport of 2024-11-05
	client *http.Client

	ctx     context.Context
	cut     context.CancelFunc
	last    atomic.Pointer[statusError] // of the last POST, nil if it was a success
	pending sync.Map                    // raw id to *capture, of requests on their way
	version string                      // that was agreed on; set before opened
	opened  atomic.Bool                 // the session is made
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
		trace: c.host.tracing.header, probe: c.cfg.ConnectTimeout / 2, sse: sse, hear: s.hear,
		onEnd: func(listen bool) {
			if listen {
				s.deaf.Store(true)
			}
			nudge(c.suspect)
		},
	}
	w.ctx, w.cut = context.WithCancel(context.Background())
	w.client = &http.Client{Transport: w, CheckRedirect: w.redirect}
	if sse {
		w.Transport = captureTransport{&sdk.SSEClientTransport{Endpoint: c.cfg.URL, HTTPClient: w.client, MaxEventSize: -1}, s.hear}
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
	hear func(incoming) bool
}

func (t captureTransport) Connect(ctx context.Context) (sdk.Connection, error) {
	conn, err := t.Transport.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &captureConn{Connection: conn, hear: t.hear}, nil
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
		if ex.method != "" {
			w.last.Store(nil) // it did not even answer
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
	w.trace(out.Context(), out.Header)
	for name, values := range w.header {
		out.Header[name] = values
	}
	if w.sse && out.Method == http.MethodPost && w.opened.Load() {
		out.Header.Set(headerVersion, w.version) // the SDK does so on the newer transport only
	}
	return out
}

// exchange is what matters of a request, to judge its answer by.
type exchange struct {
	get       bool
	standing  bool        // its answer is a stream that is meant to stay open
	id        string      // of the JSON-RPC request that it answers, as raw JSON; "" for none
	method    string      // of the JSON-RPC message
	inSession bool        // it named a session
	header    http.Header // that say which session and revision it is of
	cp        *capture    // takes the answer, if somebody wants it
	call      *capture    // of the call that a notification is about
}

func (w *wire) exchange(req *http.Request) exchange {
	ex := exchange{get: req.Method == http.MethodGet, cp: captureOf(req.Context()), header: http.Header{}}
	for _, name := range []string{headerSession, headerVersion} {
		if value := req.Header.Get(name); value != "" {
			ex.header.Set(name, value)
		}
	}
	ex.inSession = ex.header.Get(headerSession) != "" && !ex.get
	if req.Method == http.MethodPost && req.GetBody != nil {
		if body, err := req.GetBody(); err == nil {
			raw, _ := io.ReadAll(body) // of memory; it does not fail
			msg := gjson.GetManyBytes(raw, "id", "method")
			if ex.method = msg[1].String(); ex.method != "" {
				ex.id = msg[0].Raw
			}
		}
	}
	if w.sse {
		ex.id = ""                                // the GET is the connection itself, and brings all answers
		ex.inSession = !ex.get && w.opened.Load() // its URL names the session
	} else {
		ex.standing = ex.get && ex.cp == nil || ex.method == methodListen
	}
	switch {
	case ex.cp == nil:
	case ex.method == methodCancelled:
		ex.cp, ex.call = nil, ex.cp
	default:
		ex.cp.begin(ex.id)
		if ex.id != "" {
			w.pending.Store(ex.id, ex.cp)
			ex.cp.onAnswer(func() { w.pending.Delete(ex.id) })
		}
	}
	return ex
}

// replyTo gives what answers a request of the server that came on the stream of ex.
func (w *wire) replyTo(ex exchange, id string) func(context.Context, json.RawMessage, *jsonrpc.Error) error {
	return func(ctx context.Context, result json.RawMessage, refusal *jsonrpc.Error) error {
		answer := struct {
			Version string          `json:"jsonrpc"`
			ID      json.RawMessage `json:"id"`
			Result  json.RawMessage `json:"result,omitempty"`
			Error   *jsonrpc.Error  `json:"error,omitempty"`
		}{"2.0", json.RawMessage(id), result, refusal}
		body, err := json.Marshal(answer)
		if err != nil {
			return err
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.origin.String(), bytes.NewReader(body))
		if err != nil {
			return err
		}
		req.Header = ex.header.Clone()
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		resp, err := w.client.Do(req)
		if err != nil {
			return err
		}
		resp.Body.Close()
		if resp.StatusCode >= 300 {
			return &statusError{code: resp.StatusCode}
		}
		return nil
	}
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
