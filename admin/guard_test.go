package admin

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func guarded(own string, edit func(*http.Request)) int {
	r := httptest.NewRequest("GET", "/debug/servers", nil)
	r.Host = "127.0.0.1:9003"
	edit(r)
	w := httptest.NewRecorder()
	Guard(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }), own).ServeHTTP(w, r)
	return w.Code
}

// TestNamesOfTheListener asserts that the pages are there under all names that only
// the operator can give, and under no other (DNS rebinding).
func TestNamesOfTheListener(t *testing.T) {
	for host, served := range map[string]bool{
		"127.0.0.1:9003": true, "localhost": true, "LOCALHOST:80": true, "localhost.:9003": true, "app.localhost": true, "[::1]:9003": true, "[::1]": true, "[fe80::1%25eth0]:9003": true,
		"10.1.2.3:9003": true, "mcp": true, "mcp:9003": true, "mcp.apps.svc": true, "mcp.apps.svc.cluster.local:9003": true, "mcp.apps.svc.cluster.local.": true, "": true,
		"Admin.corp.example:9003": true, "other.corp.example": false,
		"evil.example": false, "evil.example:9003": false, "127.0.0.1.evil.example": false, "localhost.evil.example": false, "a.svc.evil.example": false, "svc.cluster.local.evil.example:9003": false,
		"127.0.0.1.nip.io": false, "rebind.evil.example.": false, "mcp.apps": false, "xsvc.cluster.local": false, "127.0.0.1:9003.evil.example": false,
	} {
		code := guarded("admin.corp.example:9003", func(r *http.Request) { r.Host = host })
		if want := map[bool]int{true: http.StatusNoContent, false: http.StatusMisdirectedRequest}[served]; code != want {
			t.Errorf("%q: %d, want %d", host, code, want)
		}
	}
}

// TestRefusalsForPrograms asserts that a program gets JSON, as everywhere, and people
// a text.
func TestRefusalsForPrograms(t *testing.T) {
	for accept, want := range map[string]string{"": "application/json", "text/html": "text/plain; charset=utf-8"} {
		r := httptest.NewRequest("GET", "http://evil.example/debug/servers", nil)
		r.Header.Set("Accept", accept)
		w := httptest.NewRecorder()
		Guard(http.NotFoundHandler(), "").ServeHTTP(w, r)
		if w.Code != http.StatusMisdirectedRequest || w.Header().Get("Content-Type") != want {
			t.Errorf("%q: %d %v", accept, w.Code, w.Header())
		}
	}
}

// TestOtherSites asserts that pages of other sites can link here, and no more.
func TestOtherSites(t *testing.T) {
	for _, row := range []struct {
		method, path string
		header       string // NAME VALUE pairs
		served       bool
	}{
		{"GET", "/debug/servers", "", true}, // a program
		{"GET", "/debug/servers", "Sec-Fetch-Site none Sec-Fetch-Mode navigate Sec-Fetch-Dest document", true},
		{"GET", "/debug/turns.json", "Sec-Fetch-Site same-origin Sec-Fetch-Mode cors Sec-Fetch-Dest empty", true},
		{"GET", "/debug/turns/1", "Sec-Fetch-Site cross-site Sec-Fetch-Mode navigate Sec-Fetch-Dest document", true}, // a link in a dashboard
		{"GET", "/debug/turns/1", "Sec-Fetch-Site cross-site Sec-Fetch-Mode navigate Sec-Fetch-Dest iframe", false},
		{"GET", "/debug/turns.json", "Sec-Fetch-Site cross-site Sec-Fetch-Mode no-cors Sec-Fetch-Dest script", false},
		{"GET", "/debug/turns.json", "Sec-Fetch-Site same-site Sec-Fetch-Mode cors Sec-Fetch-Dest empty", false}, // another port
		{"GET", "/debug/turns.json", "Sec-Fetch-Site made-up", false},
		{"DELETE", "/debug/sessions", "Sec-Fetch-Site cross-site Sec-Fetch-Mode navigate Sec-Fetch-Dest document", false},
		{"GET", "/debug/pprof/profile", "Sec-Fetch-Site cross-site Sec-Fetch-Mode navigate Sec-Fetch-Dest document", false},
		{"GET", "/debug/servers", "Origin http://127.0.0.1:9003", true},
		{"DELETE", "/debug/sessions", "Origin http://evil.example", false},
		{"GET", "/debug/servers", "Origin null", false},
		{"GET", "/debug/servers", "Origin http://127.0.0.1:3000", false},
	} {
		code := guarded("", func(r *http.Request) {
			r.Method, r.URL.Path = row.method, row.path
			words := strings.Fields(row.header)
			for i := 0; i+1 < len(words); i += 2 {
				r.Header.Set(words[i], words[i+1])
			}
		})
		if want := map[bool]int{true: http.StatusNoContent, false: http.StatusForbidden}[row.served]; code != want {
			t.Errorf("%s %s with %q: %d, want %d", row.method, row.path, row.header, code, want)
		}
	}
}

// TestHTMLOrJSON asserts that all addresses answer alike: HTML to who asks for it,
// JSON to everybody else, and with .json always that.
func TestHTMLOrJSON(t *testing.T) {
	s := source(mixed)
	for _, path := range []string{"/debug/", "/debug/overview", "/debug/servers", "/debug/catalog", "/debug/turns", "/debug/turns/running", "/debug/turns/1", "/debug/turns/99", "/debug/catalog?client=nobody"} {
		for accept, html := range map[string]bool{
			"":                 false,
			"*/*":              false,
			"application/json": false,
			"image/png":        false,
			"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8": true,
			"Text/HTML":                              true,
			"application/json;q=0.5, text/html":      true,
			"application/json, text/html;q=0.9":      false,
			"application/json, text/html":            false,
			"text/html;q=0":                          false,
			"application/json, text/plain, */*":      false,
			"text/html, */*":                         true,
			"nonsense;;, text/html; charset=\"utf-8": false,
		} {
			w := request(s, path, accept)
			if path == "/debug/turns/running" { // for programs alone
				html = false
			}
			if got := strings.HasPrefix(w.Header().Get("Content-Type"), "text/html"); got != html {
				t.Errorf("%s with %q is %s", path, accept, w.Header().Get("Content-Type"))
			}
			base, query, _ := strings.Cut(path, "?")
			if base == "/debug/" {
				base += "overview"
			}
			again := request(s, base+".json?"+query, accept)
			if again.Header().Get("Content-Type") != "application/json" || again.Code != w.Code || again.Header().Get("Vary") != "" {
				t.Errorf("%s.json with %q is %d %v", base, accept, again.Code, again.Header())
			}
			if !html && again.Body.String() != w.Body.String() {
				t.Errorf("%s.json is not %s", base, path)
			}
		}
	}
}
