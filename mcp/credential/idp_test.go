package credential

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// idp is an authorization server. Its tokens are t1, t2, …
type idp struct {
	*httptest.Server
	mu      sync.Mutex
	forms   []url.Values
	headers []http.Header
	answer  func(n int, form url.Values) (status int, body string) // of the nth request, from 1
	meta    map[string]any
	extra   http.Handler // other paths
}

func newIDP(t *testing.T) *idp {
	t.Helper()
	p := &idp{}
	p.Server = httptest.NewServer(p)
	t.Cleanup(p.Close)
	p.meta = map[string]any{"issuer": p.URL, "token_endpoint": p.URL + "/token"}
	return p
}

func (p *idp) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == "/.well-known/oauth-authorization-server" && p.meta != nil:
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(p.meta)
	case r.URL.Path == "/token":
		_ = r.ParseForm()
		p.mu.Lock()
		p.forms, p.headers = append(p.forms, r.PostForm), append(p.headers, r.Header)
		n, answer := len(p.forms), p.answer
		p.mu.Unlock()
		status, body := 200, fmt.Sprintf(`{"access_token":"t%d","token_type":"Bearer","expires_in":3600}`, n)
		if answer != nil {
			status, body = answer(n, r.PostForm)
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	case p.extra != nil:
		p.extra.ServeHTTP(w, r)
	default:
		http.NotFound(w, r)
	}
}

func (p *idp) requests() []url.Values {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]url.Values(nil), p.forms...)
}

// api is a protected server: it takes the tokens that are good, and says where to
// get one.
type api struct {
	*httptest.Server
	mu        sync.Mutex
	good      func(authorization string) (status int, challenge string)
	seen      []string // Authorization of each request
	bodies    []string
	documents map[string]string // path to JSON
}

func newAPI(t *testing.T, good func(string) (int, string)) *api {
	t.Helper()
	a := &api{good: good, documents: map[string]string{}}
	a.Server = httptest.NewServer(a)
	t.Cleanup(a.Close)
	return a
}

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if document, ok := a.documents[r.URL.Path]; ok {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(document))
		return
	}
	if strings.HasPrefix(r.URL.Path, "/.well-known") {
		http.NotFound(w, r)
		return
	}
	body, _ := io.ReadAll(r.Body) // what is missing of it shows in the test
	a.seen, a.bodies = append(a.seen, r.Header.Get("Authorization")), append(a.bodies, string(body))
	status, challenge := a.good(r.Header.Get("Authorization"))
	if challenge != "" {
		w.Header().Set("WWW-Authenticate", challenge)
	}
	w.WriteHeader(status)
}

// describe publishes the metadata of the resource /mcp.
func (a *api) describe(issuers ...string) {
	text, _ := json.Marshal(map[string]any{"resource": a.URL + "/mcp", "authorization_servers": issuers, "scopes_supported": []string{"read"}})
	a.documents["/.well-known/oauth-protected-resource/mcp"] = string(text)
}

func (a *api) authorizations() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]string(nil), a.seen...)
}

// only takes one token.
func only(token string) func(string) (int, string) {
	return func(got string) (int, string) {
		if got == "Bearer "+token {
			return 200, ""
		}
		return 401, `Bearer error="invalid_token"`
	}
}

// source makes a source that is closed at the end of the test.
func source(t *testing.T, server string, a *Auth) *Source {
	t.Helper()
	return sourceWith(t, Options{URL: parse(t, server), Auth: a})
}

func sourceWith(t *testing.T, o Options) *Source {
	t.Helper()
	if o.Auth != nil && o.Auth.Header == "" {
		o.Auth.Header, o.Auth.Scheme = "Authorization", "Bearer"
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	o.Context, o.Go = ctx, func(f func()) bool { group.Go(f); return true }
	t.Cleanup(func() { cancel(); group.Wait() })
	return New(o)
}

func parse(t *testing.T, raw string) *url.URL {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// call posts through a signer, and gives the status or the error.
func call(t *testing.T, s *Source, subject string) string {
	t.Helper()
	return callWith(t, s, s.For(subject))
}

func callWith(t *testing.T, s *Source, signer *Signer) string {
	t.Helper()
	pool, err := s.NewPool()
	if err != nil {
		t.Fatal(err)
	}
	defer pool.CloseIdleConnections()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL.String(), strings.NewReader("the body"))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := signer.RoundTripper(pool).RoundTrip(req)
	if err != nil {
		return err.Error()
	}
	resp.Body.Close()
	return fmt.Sprint(resp.StatusCode)
}
