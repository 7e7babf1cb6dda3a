package credential

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// asked answers 401 to all but tokens, with this challenge.
func asked(challenge string) func(string) (int, string) {
	good := newTokens()
	return func(authorization string) (int, string) {
		status, _ := good(authorization)
		return status, map[bool]string{true: challenge}[status == 401]
	}
}

func oauth() *OAuth { return &OAuth{Client: Client{ID: "id", Secret: "s3cret"}} }

// Where a server may say who gives tokens for it.
func TestDiscovery(t *testing.T) {
	for name, arrange := range map[string]func(p *idp, a *api) (scope string){
		"in the challenge": func(p *idp, a *api) string {
			a.documents["/elsewhere"] = fmt.Sprintf(`{"resource":"%s/mcp","authorization_servers":[%q]}`, a.URL, p.URL)
			a.good = asked(fmt.Sprintf(`Basic realm="x", Bearer scope="a b", resource_metadata="%s/elsewhere"`, a.URL))
			return "a b"
		},
		"at the path": func(p *idp, a *api) string {
			a.describe(p.URL)
			return "read" // of scopes_supported, where the challenge has none
		},
		"at the root, of the whole origin": func(p *idp, a *api) string {
			a.documents["/.well-known/oauth-protected-resource"] = fmt.Sprintf(`{"resource":%q,"authorization_servers":[%q]}`, a.URL, p.URL)
			return ""
		},
		"with a broken challenge": func(p *idp, a *api) string {
			a.describe(p.URL)
			a.good = asked(`Bearer resource_metadata=`)
			return "read"
		},
		"by OpenID Connect, under a path": func(p *idp, a *api) string {
			issuer := p.URL + "/realms/x"
			p.extra = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/realms/x/.well-known/openid-configuration" {
					w.Header().Set("Content-Type", "application/json")
					fmt.Fprintf(w, `{"issuer":%q,"token_endpoint":"%s/token"}`, issuer, p.URL)
					return
				}
				http.NotFound(w, r)
			})
			a.describe(issuer + "/")
			return "read"
		},
		"a server of 2025-03-26": func(p *idp, a *api) string {
			a.documents["/.well-known/oauth-authorization-server"] = fmt.Sprintf(`{"issuer":%q,"token_endpoint":"%s/token"}`, a.URL, p.URL)
			return ""
		},
	} {
		t.Run(name, func(t *testing.T) {
			p, a := newIDP(t), newAPI(t, newTokens())
			want := arrange(p, a)
			s := source(t, a.URL+"/mcp", &Auth{OAuth: oauth()})
			for range 2 {
				if got := call(t, s, ""); got != "200" {
					t.Fatal(got)
				}
			}
			if got := a.authorizations(); !slices.Equal(got, []string{"", "Bearer t1", "Bearer t1"}) {
				t.Errorf("%q", got)
			}
			if !slices.Equal(a.bodies, []string{"the body", "the body", "the body"}) {
				t.Errorf("%q", a.bodies)
			}
			if got := p.requests()[0].Get("scope"); got != want {
				t.Errorf("scope %q, want %q", got, want)
			}
		})
	}
}

// Documents that a client must not follow.
func TestDiscoveryRefused(t *testing.T) {
	for name, row := range map[string]struct {
		arrange func(p *idp, a *api)
		want    string
	}{
		"another resource": {func(p *idp, a *api) {
			a.documents["/.well-known/oauth-protected-resource/mcp"] = fmt.Sprintf(`{"resource":"https://evil.example.com/mcp","authorization_servers":[%q]}`, p.URL)
		}, "the server's metadata is that of another resource"},
		"another path": {func(p *idp, a *api) {
			a.documents["/.well-known/oauth-protected-resource/mcp"] = fmt.Sprintf(`{"resource":"%s/mc","authorization_servers":[%q]}`, a.URL, p.URL)
		}, "the server's metadata is that of another resource"},
		"no authorization server": {func(_ *idp, a *api) { a.describe() }, "the server's metadata names no authorization server"},
		"another issuer": {func(p *idp, a *api) {
			a.describe(p.URL)
			p.meta["issuer"] = "https://evil.example.com"
		}, "the metadata of the authorization server is that of another issuer"},
		"no metadata": {func(p *idp, a *api) {
			a.describe(p.URL)
			p.meta = nil
		}, "the authorization server at 127.0.0.1 publishes no metadata"},
		"plain http elsewhere": {func(_ *idp, a *api) { a.describe("http://idp.example.com") }, "the authorization server at idp.example.com is not https"},
		"a token endpoint in plain http": {func(p *idp, a *api) {
			a.describe(p.URL)
			p.meta["token_endpoint"] = "http://idp.example.com/token"
		}, "the token endpoint in the metadata of the authorization server at idp.example.com is not https"},
		"no token endpoint": {func(p *idp, a *api) {
			a.describe(p.URL)
			delete(p.meta, "token_endpoint")
		}, "the token endpoint in the metadata of the authorization server is no absolute URL"},
		"too large": {func(_ *idp, a *api) {
			a.documents["/.well-known/oauth-protected-resource/mcp"] = `{"resource":"` + strings.Repeat("x", maxDocument) + `"}`
		}, "the server's metadata at 127.0.0.1 is no JSON of a usual size"},
		"a redirect elsewhere": {func(p *idp, a *api) {
			a.good = asked(fmt.Sprintf(`Bearer resource_metadata="%s/away"`, p.URL))
			p.extra = http.RedirectHandler("http://other.example.com/", http.StatusFound)
		}, "the server's metadata at 127.0.0.1: answered with a redirect, which is not followed"},
	} {
		t.Run(name, func(t *testing.T) {
			p, a := newIDP(t), newAPI(t, newTokens())
			row.arrange(p, a)
			got := call(t, source(t, a.URL+"/mcp", &Auth{OAuth: oauth()}), "")
			if got != row.want || len(p.requests()) != 0 {
				t.Errorf("%q, %d token requests", got, len(p.requests()))
			}
		})
	}
}

// A client's proof goes to the authorization server that it belongs to, whatever
// the server says later, or the operator has said before.
func TestProofIsBoundToItsIssuer(t *testing.T) {
	p, evil := newIDP(t), newIDP(t)
	a := newAPI(t, newTokens())
	a.describe(p.URL)
	s := source(t, a.URL+"/mcp", &Auth{OAuth: oauth()})
	if got := call(t, s, ""); got != "200" {
		t.Fatal(got)
	}
	a.describe(evil.URL)
	a.good = only("t2")
	if got := call(t, s, ""); !strings.Contains(got, "names another authorization server than before") {
		t.Error(got)
	}
	a.describe(evil.URL, p.URL+"/") // also, but not only
	s = source(t, a.URL+"/mcp", &Auth{OAuth: &OAuth{Client: Client{ID: "id", Secret: "s3cret"}, Issuer: p.URL}})
	if got := call(t, s, ""); got != "200" {
		t.Error(got)
	}
	if n := len(evil.requests()); n != 0 {
		t.Errorf("%d requests for a token there", n)
	}
}

// A token that the server takes no more is replaced once; one that never helps
// does not make a loop.
func TestRefusedTokenIsReplaced(t *testing.T) {
	p, a := newIDP(t), newAPI(t, newTokens())
	a.describe(p.URL)
	s := source(t, a.URL+"/mcp", &Auth{OAuth: oauth()})
	call(t, s, "")
	a.good = only("t2")
	if got := call(t, s, ""); got != "200" || len(p.requests()) != 2 {
		t.Errorf("%s, %d token requests", got, len(p.requests()))
	}
	a.good = func(string) (int, string) { return 401, "" }
	before := len(a.authorizations())
	if got := call(t, s, ""); got != "401" || len(p.requests()) != 3 || len(a.authorizations()) != before+2 {
		t.Errorf("%s, %d token requests", got, len(p.requests()))
	}
}

// A server that wants a larger scope gets it, once a request, unless the operator
// has said what is enough.
func TestStepUp(t *testing.T) {
	p, a := newIDP(t), newAPI(t, nil)
	a.describe(p.URL)
	a.good = func(got string) (int, string) {
		switch got {
		case "":
			return 401, `Bearer scope="read"`
		case "Bearer t1":
			return 403, `Bearer error="insufficient_scope", scope="write"`
		}
		return 200, ""
	}
	s := source(t, a.URL+"/mcp", &Auth{OAuth: oauth()})
	if got := call(t, s, ""); got != "200" {
		t.Error(got)
	}
	if got := p.requests(); len(got) != 2 || got[0].Get("scope") != "read" || got[1].Get("scope") != "read write" {
		t.Errorf("%v", got)
	}
	a.good = func(got string) (int, string) { return 403, `Bearer error="insufficient_scope", scope="admin"` }
	before := len(a.authorizations())
	if got := call(t, s, ""); got != "403" || len(a.authorizations()) != before+2 {
		t.Errorf("%s after %d", got, len(a.authorizations())-before)
	}
	fixed := oauth()
	fixed.Scopes, fixed.TokenURL = []string{"read"}, p.URL+"/token"
	before = len(p.requests())
	if got := call(t, source(t, a.URL+"/mcp", &Auth{OAuth: fixed}), ""); got != "403" || len(p.requests()) != before+1 {
		t.Errorf("%s, %d token requests", got, len(p.requests())-before)
	}
}

// The way in which a client proves itself follows the metadata.
func TestMethod(t *testing.T) {
	for _, row := range []struct {
		conf      Client
		supported []string
		want      string
	}{
		{Client{}, nil, MethodBasic},
		{Client{}, []string{"client_secret_post"}, MethodPost},
		{Client{}, []string{"client_secret_post", "client_secret_basic"}, MethodBasic},
		{Client{Method: MethodPost}, []string{"client_secret_basic"}, MethodPost},
		{Client{KeyFile: "k"}, []string{"client_secret_post"}, MethodPrivateKeyJWT},
	} {
		if got := row.conf.method(row.supported); got != row.want {
			t.Errorf("%+v with %q: %s, want %s", row.conf, row.supported, got, row.want)
		}
	}
}
