package main

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
)

func TestDirectPaths(t *testing.T) {
	for _, row := range []struct{ base, path, want string }{
		{"https://h/v1", "/v1/chat/completions?a=b", "https://h/v1/chat/completions?a=b"},
		{"https://h/v1/", "/v1/models/", "https://h/v1/models/"},
		{"http://h:1", "/v1/models", "http://h:1/models"},
		{"http://h/api/v3", "/v1/models/org%2Fname", "http://h/api/v3/models/org%2Fname"},
		{"http://h/v1", "/metrics", "http://h/metrics"},
	} {
		base, err := url.Parse(row.base)
		if err != nil {
			t.Fatal(err)
		}
		var got *http.Request
		d := &direct{base: base, next: roundTripper(func(r *http.Request) (*http.Response, error) {
			got = r
			return nil, http.ErrServerClosed
		})}
		request := httptest.NewRequest(http.MethodGet, row.path, nil)
		request.Header.Set("X-Mcp-Session", "s")
		d.RoundTrip(request) //nolint:errcheck,bodyclose // there is no response
		if got.URL.String() != row.want || got.Host != base.Host || got.Header.Get("X-Mcp-Session") != "" {
			t.Errorf("%s under %s: %s, host %s, headers %v", row.path, row.base, got.URL, got.Host, got.Header)
		}
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A name is ours by its server, whatever the server's name is cleaned to.
func TestOwns(t *testing.T) {
	ts := &toolset{servers: []string{"files", "Größe x"}}
	for name, want := range map[string]bool{
		"files__read": true, "files__": true, "filesx__read": false, "read": false, "files_read": false,
		"Gr__e_x__y": true, "mcp_resource__files__a": true, "mcp_prompt__files__a": true, "": false,
	} {
		if got := ts.Owns(name); got != want {
			t.Errorf("Owns(%q) = %v", name, got)
		}
	}
}
