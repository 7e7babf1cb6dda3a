package main

import (
	"net/http"
	"testing"
)

// TestWhatStrangersReach asserts that scrapes and probes are served under any name,
// and everything else on the admin listener under trusted ones alone.
func TestWhatStrangersReach(t *testing.T) {
	base, _ := provider(t, "calc__add", "{}")
	s := start(t, writeConfig(t, serveConfig(base, "")))
	for path, open := range map[string]bool{
		"/metrics": true, "/healthz": true, "/readyz": true, "/": false, "/debug/": false, "/debug/servers": false, "/debug/servers.json": false, "/debug/turns.json": false,
		"/debug/sessions?client=a/b": false, "/debug/sessions.json?client=a/b": false, "/debug/pprof/": false, "/debug/static/style.css": false, "/nothing": false,
	} {
		for _, host := range []string{"evil.example", "localhost", ""} {
			request, err := http.NewRequest(http.MethodGet, s.admin+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			request.Host = host
			response, err := http.DefaultTransport.RoundTrip(request)
			if err != nil {
				t.Fatal(err)
			}
			response.Body.Close() //nolint:errcheck // not read
			if refused := response.StatusCode == http.StatusMisdirectedRequest; refused != (host == "evil.example" && !open) {
				t.Errorf("%s as %q: %s", path, host, response.Status)
			}
		}
	}
}
