package extproc

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
)

// Transport returns the round tripper for handlers that run on a Server. It
// finds the exchange in the request's context. The first round trip releases
// the client's request onto Envoy's own route, changed as the outbound request
// is; method, path, authority and the other routing fields stay the client's.
// Later ones, and all of an exchange whose answer has begun, go to the loop
// listener. A request outside an exchange is an error.
func Transport() http.RoundTripper { return transport{} }

type transport struct{}

var errNoExchange = errors.New("extproc: the request's context does not come from an exchange")

// RoundTrip implements http.RoundTripper.
func (transport) RoundTrip(r *http.Request) (*http.Response, error) {
	x, ok := r.Context().Value(exchangeKey).(*exchange)
	if !ok {
		closeBody(r)
		return nil, errNoExchange
	}
	return x.trip(r)
}

// trip holds the route's lock until the release is done or has failed, so that
// an answer that begins in another goroutine comes clearly before or after it.
func (x *exchange) trip(r *http.Request) (*http.Response, error) {
	if ctx := r.Context(); ctx.Err() != nil {
		closeBody(r)
		return nil, context.Cause(ctx)
	}
	x.route.Lock()
	if x.released || x.begun {
		x.route.Unlock()
		return x.loopTrip(r)
	}
	failed, err := x.release(r)
	if x.released = err == nil; x.released {
		x.inbound = nil // a turn may stay open for long
	}
	x.route.Unlock()
	if err != nil {
		closeBody(r)
		return nil, err
	}
	return x.awaitResponse(r, failed)
}

func closeBody(r *http.Request) {
	if r.Body != nil {
		_ = r.Body.Close()
	}
}

// newResponse is what the upstream said, in net/http's terms.
func newResponse(o output, body *pipe) *http.Response {
	header := o.header.Clone()
	resp := &http.Response{
		Status:        strconv.Itoa(o.status) + " " + http.StatusText(o.status),
		StatusCode:    o.status,
		Proto:         "HTTP/1.1",
		ProtoMajor:    1,
		ProtoMinor:    1,
		Header:        header,
		ContentLength: contentLength(header),
	}
	if te := header["Transfer-Encoding"]; len(te) > 0 {
		resp.TransferEncoding = te
		delete(header, "Transfer-Encoding")
	}
	resp.Trailer = announcedTrailer(header)
	body.onEOF = func(trailer http.Header) {
		if resp.Trailer == nil {
			resp.Trailer = http.Header{}
		}
		for key, values := range trailer {
			resp.Trailer[key] = values
		}
	}
	if o.bare {
		body.finish(nil)
		resp.ContentLength = max(resp.ContentLength, 0)
	}
	return resp
}

// announcedTrailer takes the Trailer field out of h and makes the map that
// net/http makes of it.
func announcedTrailer(h http.Header) http.Header {
	var trailer http.Header
	for _, list := range h["Trailer"] {
		for name := range strings.SplitSeq(list, ",") {
			if key := http.CanonicalHeaderKey(strings.TrimSpace(name)); key != "" {
				if trailer == nil {
					trailer = http.Header{}
				}
				trailer[key] = nil
			}
		}
	}
	delete(h, "Trailer")
	return trailer
}

// tripBody is a response body that also ends with its round trip's context, as
// net/http's does.
type tripBody struct {
	*pipe
	stop func() bool
	once sync.Once
}

func newTripBody(ctx context.Context, p *pipe) *tripBody {
	b := &tripBody{pipe: p}
	b.stop = context.AfterFunc(ctx, func() { p.fail(context.Cause(ctx)) })
	return b
}

func (b *tripBody) Close() error {
	b.once.Do(func() { b.stop() })
	return b.pipe.Close()
}

var _ io.ReadCloser = (*tripBody)(nil)

// loopURL is where a later round trip goes: the loop listener, with the
// client's own path.
func loopURL(base *url.URL, path string) (*url.URL, error) {
	u, err := url.ParseRequestURI(path)
	if err != nil {
		return nil, err
	}
	u.Scheme, u.Host, u.User = base.Scheme, base.Host, nil
	return u, nil
}
