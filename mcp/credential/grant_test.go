package credential

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/golang-jwt/jwt/v5"
)

func newTokens() func(string) (int, string) {
	return func(authorization string) (int, string) {
		if strings.HasPrefix(authorization, "Bearer t") {
			return 200, ""
		}
		return 401, `Bearer error="invalid_token"`
	}
}

// What goes to a token endpoint that the operator has configured.
func TestClientCredentials(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "secret"), "from a file\n")
	write(t, filepath.Join(dir, "jwt"), "a.b.c\n")
	for name, row := range map[string]struct {
		conf  OAuth
		want  url.Values
		basic string
	}{
		"basic": {OAuth{Client: Client{ID: "i d", Secret: "s:ecret"}}, url.Values{}, "i+d:s%3Aecret"},
		"post": {OAuth{Client: Client{ID: "id", Secret: "pw", Method: MethodPost}, Scopes: []string{"a", "b"}},
			url.Values{"client_id": {"id"}, "client_secret": {"pw"}, "scope": {"a b"}}, ""},
		"file": {OAuth{Client: Client{ID: "id", SecretFile: filepath.Join(dir, "secret")}}, url.Values{}, "id:from+a+file"},
		"workload": {OAuth{AssertionFile: filepath.Join(dir, "jwt"), Resource: "urn:x"},
			url.Values{"grant_type": {grantJWT}, "assertion": {"a.b.c"}, "resource": {"urn:x"}}, ""},
		"no resource": {OAuth{Client: Client{ID: "id", Secret: "pw", Method: MethodPost}, Resource: NoResource},
			url.Values{"client_id": {"id"}, "client_secret": {"pw"}, "resource": nil}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			p, a := newIDP(t), newAPI(t, newTokens())
			row.conf.TokenURL = p.URL + "/token"
			s := source(t, a.URL+"/mcp?tenant=1", &Auth{OAuth: &row.conf})
			if got := call(t, s, ""); got != "200" {
				t.Fatal(got)
			}
			if got := a.authorizations(); !slices.Equal(got, []string{"Bearer t1"}) {
				t.Errorf("%q", got) // the token is asked for before the server has to refuse
			}
			want := url.Values{"grant_type": {"client_credentials"}, "resource": {a.URL + "/mcp"}}
			for key, values := range row.want {
				if want[key] = values; values == nil {
					delete(want, key)
				}
			}
			if got := p.requests()[0].Encode(); got != want.Encode() {
				t.Errorf("\n got %s\nwant %s", got, want.Encode())
			}
			user, password, _ := (&http.Request{Header: p.headers[0]}).BasicAuth()
			if got := strings.Trim(user+":"+password, ":"); got != row.basic {
				t.Errorf("basic %q, want %q", got, row.basic)
			}
		})
	}
}

// A client without a shared secret proves itself by a signature, with the
// algorithm of its key, to that one authorization server, for a short time.
func TestPrivateKeyJWT(t *testing.T) {
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	p256, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	p521, err := ecdsa.GenerateKey(elliptic.P521(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	edPublic, edKey, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	sec1, err := x509.MarshalECPrivateKey(p256)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8 := func(key any) []byte {
		der, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		return der
	}
	for name, row := range map[string]struct {
		kind   string
		der    []byte
		public any
		alg    string
	}{
		"RSA":         {"PRIVATE KEY", pkcs8(rsaKey), rsaKey.Public(), "RS256"},
		"RSA PKCS#1":  {"RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(rsaKey), rsaKey.Public(), "RS256"},
		"P-256":       {"PRIVATE KEY", pkcs8(p256), p256.Public(), "ES256"},
		"P-256 SEC 1": {"EC PRIVATE KEY", sec1, p256.Public(), "ES256"},
		"P-521":       {"PRIVATE KEY", pkcs8(p521), p521.Public(), "ES512"},
		"Ed25519":     {"PRIVATE KEY", pkcs8(edKey), edPublic, "EdDSA"},
	} {
		t.Run(name, func(t *testing.T) {
			p, a := newIDP(t), newAPI(t, newTokens())
			path := filepath.Join(t.TempDir(), "key")
			write(t, path, string(pem.EncodeToMemory(&pem.Block{Type: row.kind, Bytes: row.der})))
			s := source(t, a.URL, &Auth{OAuth: &OAuth{Client: Client{ID: "me", KeyFile: path, KeyID: "k1"}, TokenURL: p.URL + "/token", Issuer: "https://idp"}})
			if got := call(t, s, ""); got != "200" {
				t.Fatal(got)
			}
			form := p.requests()[0]
			if form.Get("client_assertion_type") != assertionType || form.Has("client_secret") || p.headers[0].Get("Authorization") != "" {
				t.Errorf("%v", form)
			}
			var claims jwt.RegisteredClaims
			got, err := jwt.ParseWithClaims(form.Get("client_assertion"), &claims, func(*jwt.Token) (any, error) { return row.public, nil },
				jwt.WithValidMethods([]string{row.alg}), jwt.WithAudience("https://idp"), jwt.WithIssuer("me"), jwt.WithSubject("me"), jwt.WithExpirationRequired())
			if err != nil || got.Header["kid"] != "k1" || claims.ID == "" || claims.ExpiresAt.Sub(claims.IssuedAt.Time) != assertionLife {
				t.Errorf("%v, %+v, %+v", err, got, claims)
			}
		})
	}
}

// What a token endpoint answers in place of a token, and what the operator is told.
func TestNoToken(t *testing.T) {
	for name, row := range map[string]struct {
		status  int
		body    string
		want    string
		refused bool
	}{
		"refused":    {401, `{"error":"invalid_client","error_description":"no such client s3cret"}`, "answered HTTP 401: invalid_client no such client …", true},
		"in 200":     {200, `{"error":"invalid_grant"}`, "answered HTTP 200: invalid_grant", true},
		"down":       {503, `down s3cret`, "answered HTTP 503", false},
		"throttled":  {429, `{}`, "answered HTTP 429", false},
		"html":       {200, `<html>s3cret`, "gave no token that can be used", false},
		"empty":      {200, `{}`, "gave no token that can be used", false},
		"other type": {200, `{"access_token":"t1","token_type":"DPoP"}`, `gave a token of type "dpop", which is not supported`, true},
		"not ours":   {200, `{"access_token":"t1","token_type":"N_A"}`, `gave a token of type "n_a", which is not supported`, true},
		"header":     {200, `{"access_token":"t1\r\nX: y","token_type":"bearer"}`, "gave a token that fits into no header", true},
		"redirect":   {307, ``, "cannot be reached: answered with a redirect, which is not followed", true},
		"endless":    {200, `{"access_token":"` + strings.Repeat("x", 2<<20) + `"}`, "gave no token that can be used", false},
	} {
		t.Run(name, func(t *testing.T) {
			p, a := newIDP(t), newAPI(t, newTokens())
			elsewhere := newIDP(t)
			p.answer = func(int, url.Values) (int, string) { return row.status, row.body }
			handler := p.Config.Handler
			p.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Location", elsewhere.URL+"/token")
				handler.ServeHTTP(w, r)
			})
			var log bytes.Buffer
			s := sourceWith(t, Options{
				URL: parse(t, a.URL), Auth: &Auth{OAuth: &OAuth{Client: Client{ID: "id", Secret: "s3cret"}, TokenURL: p.URL + "/token?x=s3cret"}},
				Log: slog.New(slog.NewTextHandler(&log, nil)),
			})
			pool, err := s.NewPool()
			if err != nil {
				t.Fatal(err)
			}
			req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, a.URL, strings.NewReader("x"))
			_, err = s.For("").RoundTripper(pool).RoundTrip(req)
			known, ok := err.(*Error)
			if !ok || known.Text != "the token endpoint at 127.0.0.1 "+row.want || known.Refused != row.refused {
				t.Errorf("%v", err)
			}
			if len(a.authorizations()) != 0 || len(elsewhere.requests()) != 0 {
				t.Error("something was sent")
			}
			if strings.Contains(log.String(), "s3cret") || !strings.Contains(log.String(), "no access token") {
				t.Errorf("the log: %s", &log)
			}
		})
	}
}

// Each caller's token is exchanged for one of its own, which the server gets; the
// caller's does not go there.
func TestExchange(t *testing.T) {
	p := newIDP(t)
	p.answer = func(_ int, form url.Values) (int, string) {
		if form.Get("subject_token") == "mallory" {
			return 400, `{"error":"invalid_grant","error_description":"mallory is unknown"}`
		}
		return 200, fmt.Sprintf(`{"access_token":"for-%s","issued_token_type":"urn:ietf:params:oauth:token-type:jwt","token_type":"N_A","expires_in":60}`, form.Get("subject_token"))
	}
	a := newAPI(t, func(got string) (int, string) {
		if strings.HasPrefix(got, "Bearer for-") {
			return 200, ""
		}
		return 401, ""
	})
	s := source(t, a.URL+"/mcp", &Auth{Exchange: &Exchange{
		Client: Client{ID: "gw", Secret: "pw"}, TokenURL: p.URL + "/token", SubjectHeader: "X-User", SubjectTokenType: "urn:x",
		RequestedTokenType: "urn:y", Audience: "aud", Scopes: []string{"s"},
	}})
	ann, bob := s.For("ann"), s.For("bob")
	for range 3 {
		for _, signer := range []*Signer{ann, bob} {
			if got := callWith(t, s, signer); got != "200" {
				t.Error(got)
			}
		}
	}
	if got := call(t, s, "mallory"); !strings.Contains(got, "invalid_grant … is unknown") {
		t.Error(got)
	}
	if got := call(t, s, ""); got != ErrNoSubject.Text {
		t.Error(got)
	}
	if got := p.requests(); len(got) != 3 || got[0].Encode() != (url.Values{
		"grant_type": {grantExchange}, "subject_token": {"ann"}, "subject_token_type": {"urn:x"}, "requested_token_type": {"urn:y"},
		"audience": {"aud"}, "scope": {"s"}, "resource": {a.URL + "/mcp"},
	}).Encode() {
		t.Errorf("%v", got)
	}
	if got := a.authorizations(); len(got) != 6 || got[0] != "Bearer for-ann" || got[1] != "Bearer for-bob" || strings.Contains(fmt.Sprint(got), "mallory") {
		t.Errorf("%q", got)
	}
}

func TestSubject(t *testing.T) {
	a := &Auth{Exchange: &Exchange{SubjectHeader: "x-user"}}
	for _, row := range []struct {
		header http.Header
		want   string
	}{
		{http.Header{"X-User": {"abc"}}, "abc"},
		{http.Header{"X-User": {"Bearer abc"}}, "abc"},
		{http.Header{"X-User": {" bearer  abc "}}, "abc"},
		{http.Header{"X-User": {"Basic abc"}}, ""},
		{http.Header{"X-User": {"a", "b"}}, ""}, // whose?
		{http.Header{"X-User": {"a,b"}}, ""},
		{http.Header{"X-User": {""}}, ""},
		{http.Header{"X-User": {strings.Repeat("x", maxSubject+1)}}, ""},
		{http.Header{"Authorization": {"Bearer abc"}}, ""},
		{nil, ""},
	} {
		if got := a.Subject(row.header); got != row.want {
			t.Errorf("%v: %q", row.header, got)
		}
	}
	if (*Auth)(nil).Subject(http.Header{"": {"x"}}) != "" || (&Auth{Token: "x"}).PerCaller() {
		t.Error("a subject that nobody wants")
	}
}
