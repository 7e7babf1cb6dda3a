package mcp

import (
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/mcp-via-llm/mcp-via-llm/mcp/credential"
)

// issuer is an authorization server. It numbers the tokens that it gives, and
// names the caller in those that it exchanges.
type issuer struct {
	*httptest.Server
	mu   sync.Mutex
	n    int
	down bool
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	p := &issuer{}
	p.Server = httptest.NewServer(p)
	t.Cleanup(p.Close)
	return p
}

func (p *issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if p.down {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	p.n++
	fmt.Fprintf(w, `{"access_token":"t%d%s","token_type":"Bearer","expires_in":3600}`, p.n, r.FormValue("subject_token"))
}

func (p *issuer) fail(down bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = down
}

func (p *issuer) auth() *credential.Auth {
	return &credential.Auth{Header: "Authorization", Scheme: "Bearer", OAuth: &credential.OAuth{
		Client: credential.Client{ID: "id", Secret: "s3cret"}, TokenURL: p.URL,
	}}
}

// wants refuses requests without one of the tokens.
func (f *front) wants(good ...string) {
	f.on(func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
		for _, token := range good {
			if r.Header.Get("Authorization") == "Bearer "+token {
				return false
			}
		}
		http.Error(w, "who are you?", http.StatusUnauthorized)
		return true
	})
}

// A call that is refused because the token is not good any more goes out again,
// and runs once.
func TestTokenIsRenewedInACall(t *testing.T) {
	for _, kind := range []string{stateful, stateless, plainSSE} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			box := newToolbox()
			f := box.serve(t, kind)
			f.wants("t1")
			cfg := config("box", kind, f)
			cfg.Auth = newIssuer(t).auth()
			h := newTestHost(t, cfg)
			b := toolsOf(t, h, "box").Bind(nil)
			for i, good := range []string{"t1", "t2", "t3"} {
				f.wants(good)
				if res := b.Call(t.Context(), "box__add_numbers", `{"a":1,"b":2}`); res.Text != "3" {
					t.Errorf("%+v, %+v", res, h.Status())
				}
				if n, _ := box.called("add_numbers"); n != i+1 {
					t.Errorf("%d calls", n)
				}
			}
		})
	}
}

// Without a token nothing goes to the server; the model is told that, without the
// reason that is for the operator, and all is well when there is one again.
func TestNoToken(t *testing.T) {
	t.Parallel()
	var log buffer
	box := newToolbox()
	f := box.serve(t, stateful)
	f.wants("t1")
	p := newIssuer(t)
	p.fail(true)
	cfg := config("box", stateful, f)
	cfg.Auth = p.auth()
	h := startHost(t, Options{Servers: []Server{cfg}, Log: logTo(&log)})
	if got := toolsOf(t, h, "box").Unavailable(); len(got) != 1 {
		t.Error("connected without a token")
	}
	if st := h.Status()[0]; st.Error != "the token endpoint at 127.0.0.1 answered HTTP 503" {
		t.Errorf("%+v", st)
	}
	p.fail(false)
	var b *Binding
	eventually(t, "connected", func() bool {
		ts := toolsOf(t, h, "box")
		b = ts.Bind(nil)
		return len(ts.Unavailable()) == 0
	})
	p.fail(true)
	f.wants("t2")
	res := b.Call(t.Context(), "box__add_numbers", `{"a":1,"b":2}`)
	if res.Outcome != OutcomeUnavailable || !strings.Contains(res.Text, "could not get a credential") || strings.Contains(res.Text, "127.0.0.1") {
		t.Errorf("%+v", res)
	}
	p.fail(false)
	eventually(t, "called", func() bool { return b.Call(t.Context(), "box__add_numbers", `{"a":1,"b":2}`).Text == "3" })
	if n, _ := box.called("add_numbers"); n != 1 {
		t.Errorf("%d calls", n)
	}
	if strings.Contains(log.String(), "s3cret") || strings.Contains(log.String(), "t1") || strings.Contains(log.String(), "://") {
		t.Errorf("in the log:\n%s", log.String())
	}
}

// Each caller goes to the server with a token that was exchanged for its own, on
// connections of its own. The caller's token never goes there.
func TestTokenExchange(t *testing.T) {
	for _, kind := range []string{stateful, stateless, plainSSE} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			f := newToolbox().serve(t, kind)
			p := newIssuer(t)
			cfg := config("box", kind, f)
			cfg.Required, cfg.ForwardHeaders = true, []string{"x-tenant"}
			cfg.Auth = &credential.Auth{Header: "Authorization", Scheme: "Bearer", Exchange: &credential.Exchange{TokenURL: p.URL, SubjectHeader: "x-user-token"}}
			h := newTestHost(t, cfg)
			if !h.Ready() {
				t.Error("waits for a caller to be ready")
			}
			if got := toolsOf(t, h, "box").Unavailable(); len(got) != 1 {
				t.Error("nobody has tools")
			}
			anonymous := http.Header{"X-Tenant": {"acme"}}
			if got := h.Toolset(t.Context(), Query{Servers: []string{"box"}, Header: anonymous}).Unavailable(); len(got) != 1 {
				t.Error("nobody at a tenant has tools")
			}
			if n := len(f.requests()); n != 0 {
				t.Errorf("%d requests on behalf of nobody", n)
			}
			var group sync.WaitGroup
			for _, name := range []string{"ann", "bob"} {
				header := user(name)
				header.Set("X-Tenant", "acme")
				b := toolsFor(t, h, header).Bind(nil)
				for range 10 {
					group.Go(func() {
						if res := b.Call(t.Context(), "box__add_numbers", `{"a":1,"b":2}`); res.Text != "3" {
							t.Errorf("%s: %+v", name, res)
						}
					})
				}
			}
			group.Wait()
			if p.n != 2 {
				t.Errorf("%d tokens for two callers", p.n)
			}
			oneCaller(t, f, "t1ann", "t2bob")
		})
	}
}

// toolsFor is what a caller gets of the server box, however long it takes to
// connect on a busy machine.
func toolsFor(t *testing.T, h *Host, header http.Header) *Toolset {
	t.Helper()
	var ts *Toolset
	eventually(t, "the caller's tools", func() bool {
		ts = h.Toolset(t.Context(), Query{Servers: []string{"box"}, Header: header})
		return len(ts.Unavailable()) == 0
	})
	return ts
}

func (f *front) requests() []*http.Request {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]*http.Request(nil), f.seen...)
}

// oneCaller checks that each session and each TCP connection was used with one of
// the tokens only, and both tokens were.
func oneCaller(t *testing.T, f *front, tokens ...string) {
	t.Helper()
	owners, used := map[string]string{}, map[string]bool{}
	for _, r := range f.requests() {
		token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		used[token] = true
		if r.Header.Get("X-User-Token") != "" || r.Header.Get("X-Tenant") != "acme" {
			t.Errorf("%v", r.Header)
		}
		for _, id := range []string{r.RemoteAddr, r.Header.Get(headerSession) + r.URL.Query().Get("sessionid")} {
			if owner, known := owners[id]; id != "" && known && owner != token {
				t.Errorf("%s used by %q and %q", id, owner, token)
			}
			owners[id] = token
		}
	}
	for _, token := range tokens {
		if !used[token] || len(used) != len(tokens) {
			t.Errorf("used %v, want %q", used, tokens)
		}
	}
}

// What the model is told of a server that is away gives nothing away.
func TestOutward(t *testing.T) {
	t.Parallel()
	free := httptest.NewServer(nil)
	free.Close()
	secure := httptest.NewTLSServer(nil)
	t.Cleanup(secure.Close)
	refusing := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w, `{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"see http://internal"}}`)
	}))
	if got := outward(&net.OpError{Op: "dial", Err: &net.DNSError{Name: "s3cret", IsNotFound: true}}); got != "its name does not resolve" {
		t.Error(got)
	}
	for name, row := range map[string]struct {
		cfg  Server
		want string
	}{
		"refused":     {Server{URL: free.URL + "/?key=s3cret"}, "connection refused"},
		"certificate": {Server{URL: strings.Replace(secure.URL, "https://", "https://user:s3cret@", 1)}, "its certificate is not accepted"},
		"status":      {Server{URL: refusing.URL}, "HTTP 403 Forbidden"},
		"program":     {Server{Command: []string{"/nonexistent/s3cret"}}, "it could not be started"},
		"file":        {Server{URL: free.URL, Auth: &credential.Auth{TokenFile: "/nonexistent/s3cret"}}, "the gateway could not get a credential for it"},
		"metadata":    {Server{URL: "http://169.254.169.254/s3cret"}, "it does not work with the gateway now"},
	} {
		t.Run(name, func(t *testing.T) {
			row.cfg.Name, row.cfg.ConnectTimeout = "away", soon
			h := newTestHost(t, row.cfg)
			h.Settle(t.Context())
			got := outward(h.servers["away"].plain.current.Load().err)
			if got != row.want {
				t.Errorf("%q, want %q", got, row.want)
			}
			host, _ := url.Parse(row.cfg.URL)
			if strings.Contains(got, "s3cret") || strings.Contains(got, "//") || host.Port() != "" && strings.Contains(got, host.Port()) {
				t.Errorf("%q tells too much", got)
			}
		})
	}
}

// A server with a private certificate is reached by its CA alone, with HTTP/2.
func TestPrivateCA(t *testing.T) {
	t.Parallel()
	box := newToolbox()
	var protocols sync.Map
	inner := box.handler(stateful)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		protocols.Store(r.Proto, true)
		inner.ServeHTTP(w, r)
	}))
	server.EnableHTTP2 = true
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(func() {
		box.endSessions()
		server.CloseClientConnections()
		server.Close()
	})
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	trusted := Server{Name: "trusted", URL: server.URL, ConnectTimeout: soon, TLS: &credential.TLS{CA: ca, ServerName: "example.com"}}
	h := newTestHost(t, trusted, Server{Name: "unknown", URL: server.URL, ConnectTimeout: soon})
	h.Settle(t.Context())
	ts := toolsOf(t, h, "trusted", "unknown")
	if got := ts.Unavailable(); len(got) != 1 || got[0] != "unknown" {
		t.Errorf("%q, %+v", got, h.Status())
	}
	if res := ts.Bind(nil).Call(t.Context(), "trusted__add_numbers", `{"a":1,"b":2}`); res.Text != "3" {
		t.Errorf("%+v", res)
	}
	if _, old := protocols.Load("HTTP/1.1"); old {
		t.Error("HTTP/1.1 was spoken")
	}
}

// A server that refuses the token of a file is asked again as soon as the file holds
// another, and not only when it is its turn.
func TestTokenFileIsMended(t *testing.T) {
	t.Parallel()
	f := newToolbox().serve(t, stateful)
	f.wants("t2")
	file := filepath.Join(t.TempDir(), "token")
	write := func(token string) {
		if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("t1")
	cfg := config("box", stateful, f)
	cfg.Auth = &credential.Auth{Header: "Authorization", Scheme: "Bearer", TokenFile: file}
	h := newTestHost(t, cfg)
	if got := toolsOf(t, h, "box").Unavailable(); len(got) != 1 {
		t.Error("connected with the wrong token")
	}
	write("t2")
	eventually(t, "connected", func() bool { return h.Status()[0].State == "connected" })
}
