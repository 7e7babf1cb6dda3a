package mcp

import (
	"net/http"
	"strings"
	"testing"
)

// What a server, or a gateway before it, says beside a status that is no success is for
// the operator, in one line; the model gets the status.
func TestRefusalsAreTold(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		answer    func(w http.ResponseWriter, r *http.Request)
		log, told string
	}{
		"plain text": {func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "Host not allowed:\n\tgateway (token s3cret-s3cret)", http.StatusForbidden)
		}, "HTTP 403 Forbidden: Host not allowed: gateway (token [...])", "HTTP 403 Forbidden"},
		"JSON": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusUnauthorized)
			w.Write([]byte(`{"detail":"no such tenant"}`)) //nolint:errcheck // the service is the reader
		}, `HTTP 401 Unauthorized: {"detail":"no such tenant"}`, "HTTP 401 Unauthorized"},
		"a page": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			w.WriteHeader(http.StatusBadGateway)
			w.Write([]byte("<html><style>p {}</style><h1>Bad gateway</h1><p>nginx" + strings.Repeat(" on and on", 1000))) //nolint:errcheck // as above
		}, "HTTP 502 Bad Gateway: Bad gateway nginx on and on", "HTTP 502 Bad Gateway"},
		"a redirect elsewhere": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://login.test/start?state=1", http.StatusTemporaryRedirect)
		}, "HTTP 307 Temporary Redirect: to https://login.test, which is not followed: refused to leave the configured server", "HTTP 307 Temporary Redirect"},
		"a redirect that makes a GET of it": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/login", http.StatusFound)
		}, "which is not followed: redirect would change the request", "HTTP 302 Found"},
		"a redirect to nowhere": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusFound)
			w.Write([]byte("sign in first")) //nolint:errcheck // as above
		}, "HTTP 302 Found: sign in first", "HTTP 302 Found"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScript(t)
			for _, method := range []string{"POST " + methodDiscover, "POST initialize", "GET"} {
				s.answer(method, func(w http.ResponseWriter, r *http.Request, _ heard) { tt.answer(w, r) })
			}
			cfg := config("box", stateful, s.front)
			cfg.Headers = map[string]string{"Authorization": "Bearer s3cret-s3cret"}
			h := newTestHost(t, cfg)
			h.Settle(t.Context())
			state := h.Status()[0]
			if !strings.Contains(state.Error, tt.log) || len(state.Error) > 2*maxErrorText || strings.ContainsAny(state.Error, "\n<") {
				t.Errorf("the operator sees %q, want %q", state.Error, tt.log)
			}
			if told := outward(h.servers["box"].plain.current.Load().err); told != tt.told {
				t.Errorf("the model is told %q", told)
			}
		})
	}
}

// Of a call the status alone is told to anybody: what comes with it may quote arguments.
func TestRefusedCalls(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		answer func(w http.ResponseWriter, r *http.Request)
		told   string
	}{
		"plain text": {func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "bad value hunter2", http.StatusUnprocessableEntity)
		},
			`box__pure failed: MCP server "box" answered with HTTP 422 Unprocessable Entity.`},
		"a redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://login.test/?a=hunter2", http.StatusSeeOther)
		}, `box__pure failed: MCP server "box" answered with HTTP 303 See Other.`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScript(t)
			s.answer("POST tools/call", func(w http.ResponseWriter, r *http.Request, _ heard) { tt.answer(w, r) })
			b := toolsOf(t, newTestHost(t, config("box", stateful, s.front)), "box").Bind(nil)
			for range 2 { // nor does it end the session
				if res := b.Call(t.Context(), "box__pure", ""); res.Text != tt.told {
					t.Errorf("%+v", res)
				}
			}
		})
	}
}
