package main

import (
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/mcp-via-llm/mcp-via-llm/loop"
)

// direct sends requests of the mode without Envoy to the provider: /v1 becomes
// the path of the base URL, as Envoy's routes have it.
type direct struct {
	base *url.URL
	next http.RoundTripper
}

// directTransport asks for no compression of its own: what client and provider
// agree on goes through.
var directTransport = func() http.RoundTripper {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.DisableCompression = true
	t.MaxIdleConnsPerHost = 64
	t.IdleConnTimeout = 50 * time.Second
	return t
}()

// RoundTrip implements http.RoundTripper.
func (d *direct) RoundTrip(r *http.Request) (*http.Response, error) {
	out := r.Clone(r.Context())
	if rest, ok := strings.CutPrefix(r.URL.EscapedPath(), "/v1/"); ok {
		out.URL = d.base.JoinPath(rest)
		out.URL.RawQuery = r.URL.RawQuery
	}
	out.URL.Scheme, out.URL.Host, out.Host = d.base.Scheme, d.base.Host, d.base.Host
	for _, name := range loop.Headers {
		out.Header.Del(name)
	}
	return d.next.RoundTrip(out)
}
