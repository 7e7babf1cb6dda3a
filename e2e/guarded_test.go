package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// guarded is an MCP server with one tool, whoami, that lets in who has a good credential, and records every request.
type guarded struct {
	*httptest.Server
	good func(http.Header) bool
	idp  string // who gives tokens, for its metadata

	mu   sync.Mutex
	seen []arrival
}

// arrival is a request to a guarded server, with the session that its answer named.
type arrival struct {
	from    string // the TCP connection
	header  http.Header
	target  string
	session string
}

func newGuarded(t *testing.T, good func(http.Header) bool) *guarded {
	t.Helper()
	g := &guarded{good: good}
	server := mcp.NewServer(&mcp.Implementation{Name: "guarded", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "whoami"}, func(_ context.Context, r *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
		who := "you are " + r.Extra.Header.Get("X-Caller")
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: who}}}, nil, nil
	})
	inner := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil)
	g.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/.well-known/") {
			g.describe(w, r)
			return
		}
		here := arrival{from: r.RemoteAddr, header: r.Header.Clone(), target: r.RequestURI, session: r.Header.Get("Mcp-Session-Id")}
		allowed := g.good(r.Header)
		if allowed {
			r.Header.Set("X-Caller", strings.TrimPrefix(r.Header.Get("Authorization")+r.Header.Get("X-Pat"), "Bearer "))
			defer func() { g.record(here) }()
			inner.ServeHTTP(&sessionWriter{w, &here.session}, r)
			return
		}
		g.record(here)
		w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer resource_metadata="%s/.well-known/oauth-protected-resource/mcp", scope="tools"`, g.URL))
		w.WriteHeader(http.StatusUnauthorized)
	}))
	t.Cleanup(g.Close)
	t.Cleanup(g.CloseClientConnections)
	return g
}

func (g *guarded) describe(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/.well-known/oauth-protected-resource/mcp" {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"resource": g.URL + "/mcp", "authorization_servers": []string{g.idp}})
}

func (g *guarded) record(a arrival) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.seen = append(g.seen, a)
}

func (g *guarded) arrivals() []arrival {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]arrival(nil), g.seen...)
}

// sessionWriter notes the session that an answer names.
type sessionWriter struct {
	http.ResponseWriter
	session *string
}

func (w *sessionWriter) WriteHeader(status int) {
	if id := w.Header().Get("Mcp-Session-Id"); id != "" {
		*w.session = id
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *sessionWriter) Flush() { http.NewResponseController(w.ResponseWriter).Flush() }

// bearer lets in tokens that begin like this.
func bearer(prefix string) func(http.Header) bool {
	return func(h http.Header) bool { return strings.HasPrefix(h.Get("Authorization"), "Bearer "+prefix) }
}

// idp is an authorization server: client credentials give m2m-…, an exchange of the token of NAME gives for-NAME.
type idp struct {
	*httptest.Server
	mu    sync.Mutex
	forms []map[string]string
}

func newIDP(t *testing.T) *idp {
	t.Helper()
	p := &idp{}
	p.Server = httptest.NewServer(p)
	t.Cleanup(p.Close)
	return p
}

func (p *idp) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if r.URL.Path == "/.well-known/oauth-authorization-server" {
		_ = json.NewEncoder(w).Encode(map[string]any{"issuer": p.URL, "token_endpoint": p.URL + "/token"})
		return
	}
	id, secret, _ := r.BasicAuth()
	subject := r.FormValue("subject_token")
	p.mu.Lock()
	p.forms = append(p.forms, map[string]string{"grant": r.FormValue("grant_type"), "client": id + ":" + secret, "subject": subject,
		"audience": r.FormValue("audience"), "resource": r.FormValue("resource"), "scope": r.FormValue("scope")})
	n := len(p.forms)
	p.mu.Unlock()
	token := fmt.Sprintf("m2m-%d", n)
	if subject != "" {
		token = "for-" + strings.TrimPrefix(subject, "token-of-")
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"access_token": token, "token_type": "Bearer", "expires_in": 3600})
}

func (p *idp) requests() []map[string]string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]map[string]string(nil), p.forms...)
}
