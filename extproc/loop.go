package extproc

import (
	"errors"
	"net"
	"net/http"
	"strings"
	"time"
)

var errNoLoop = errors.New("extproc: no loop listener is configured (Options.LoopURL)")

// loopTrip sends a later round trip to Envoy's loop listener, with the
// client's own method, path and authority, so that it meets the same route.
func (x *exchange) loopTrip(r *http.Request) (*http.Response, error) {
	if x.server.opts.LoopURL == nil {
		closeBody(r)
		return nil, errNoLoop
	}
	u, err := loopURL(x.server.opts.LoopURL(), x.path)
	if err != nil {
		closeBody(r)
		return nil, err
	}
	out := r.WithContext(r.Context()) // a shallow copy: RoundTrip must not change r
	out.URL, out.Host, out.Method = u, x.host, x.method
	out.RequestURI = ""
	out.Trailer, out.TransferEncoding, out.Close = nil, nil, false
	out.Header = r.Header.Clone()
	if out.Header == nil {
		out.Header = http.Header{}
	}
	x.server.strip(out.Header)
	stripHop(out.Header)
	out.Header[markerKey] = []string{newMarker(x.server.opts.Secret)}
	if _, ok := out.Header["User-Agent"]; !ok {
		out.Header["User-Agent"] = nil // keeps net/http from adding its own
	}
	return x.server.opts.Loop.RoundTrip(out)
}

// stripHop removes what belongs to the client's connection or to Envoy itself.
func stripHop(h http.Header) {
	for _, list := range h["Connection"] {
		for name := range strings.SplitSeq(list, ",") {
			h.Del(strings.TrimSpace(name))
		}
	}
	for key := range h {
		if protected(key) || key == "Content-Length" || key == "Expect" {
			delete(h, key)
		}
	}
}

// newLoopTransport has pools for many turns at once on one listener, follows
// no proxy settings and leaves bodies as they are. There is no time limit of
// its own: a model may think for minutes; the round trip's context decides.
func newLoopTransport() *http.Transport {
	return &http.Transport{
		DialContext:           (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		DisableCompression:    true,
		MaxIdleConns:          1024,
		MaxIdleConnsPerHost:   256,
		IdleConnTimeout:       90 * time.Second,
		ExpectContinueTimeout: time.Second,
	}
}
