package main

import (
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mcp-via-llm/mcp-via-llm/config"
	"github.com/mcp-via-llm/mcp-via-llm/mcp/credential"
)

func loadText(t *testing.T, text string) *config.Config {
	t.Helper()
	file := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func TestAuthIsMapped(t *testing.T) {
	cfg := loadText(t, `
servers:
  a: {url: "https://h", auth: {token: x}}
  b: {url: "https://h", auth: {token: x, header: X-Api-Key}}
  c: {url: "https://h", auth: {token: x, header: authorization, scheme: token}}
  d: {url: "https://h", auth: {oauth: {client_id: i, client_secret: s, client_auth: post, issuer: "https://idp", scopes: [r], resource: none}}}
  e: {url: "https://h", tls: {server_name: n}, auth: {token_exchange: {subject_header: X-User, token_url: "https://sts", requested_token_type: jwt, audience: a}}}
  f: {url: "https://h"}
`)
	got := map[string]*credential.Auth{}
	for _, s := range mcpServers(cfg) {
		got[s.Name] = s.Auth
		if (s.TLS != nil) != (s.Name == "e") {
			t.Errorf("%s: %+v", s.Name, s.TLS)
		}
	}
	want := map[string]*credential.Auth{
		"a": {Header: "Authorization", Scheme: "Bearer", Token: "x"},
		"b": {Header: "X-Api-Key", Token: "x"},
		"c": {Header: "authorization", Scheme: "token", Token: "x"},
		"d": {Header: "Authorization", Scheme: "Bearer", OAuth: &credential.OAuth{
			Client: credential.Client{ID: "i", Secret: "s", Method: credential.MethodPost}, Issuer: "https://idp", Scopes: []string{"r"}, Resource: credential.NoResource,
		}},
		"e": {Header: "Authorization", Scheme: "Bearer", Exchange: &credential.Exchange{
			TokenURL: "https://sts", SubjectHeader: "X-User", Audience: "a",
			SubjectTokenType: "urn:ietf:params:oauth:token-type:access_token", RequestedTokenType: "urn:ietf:params:oauth:token-type:jwt",
		}},
		"f": nil,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// What callers bring for MCP servers does not go to the LLM, save what is the LLM's
// too; and callers who bring different things have different memories.
func TestCallersAreToldApart(t *testing.T) {
	cfg := loadText(t, `
servers:
  a: {url: "https://h", forward_headers: [X-Tenant, x-token]}
  b: {url: "https://h", forward_headers: [x-token]}
  c: {url: "https://h", auth: {token_exchange: {subject_header: X-User, token_url: "https://sts"}}}
  d: {url: "https://h", auth: {token_exchange: {subject_header: Authorization, token_url: "https://sts", allow_llm_credential: true}}}
`)
	if got := private(cfg); !slices.Equal(got, []string{"x-tenant", "x-token", "x-user"}) {
		t.Errorf("%q", got)
	}
	s := newSnapshot(nil, cfg)
	seen := map[string]int{}
	for i, h := range []http.Header{
		{}, {"X-User": {"ann"}}, {"X-User": {"bob"}}, {"X-Token": {"ann"}}, {"X-Token": {"a", "b"}}, {"X-Token": {"ab"}}, {"X-Token": {""}},
		{"X-User": {"ann"}, "X-Token": {"t"}}, {"Authorization": {"k1"}}, {"Authorization": {"k2"}},
	} {
		id := s.identity(&http.Request{Header: h, RemoteAddr: "192.0.2.1:1"})
		if other, twice := seen[id]; twice {
			t.Errorf("callers %d and %d are both %q", other, i, id)
		}
		seen[id] = i
	}
	if id := s.identity(&http.Request{Header: http.Header{"X-Request-Id": {"1"}}, RemoteAddr: "192.0.2.1:1"}); id != "address:192.0.2.1" {
		t.Error(id)
	}
}

// A caller that repeats its LLM credential in a header for MCP servers does not get it
// there, and the log says so once.
func TestRepeatedCredential(t *testing.T) {
	cfg := loadText(t, `
servers:
  a: {url: "https://h", forward_headers: [X-Tenant, x-token]}
  c: {url: "https://h", auth: {token_exchange: {subject_header: X-User, token_url: "https://sts"}}}
`)
	var said strings.Builder
	s := newSnapshot(&app{log: slog.New(slog.NewTextHandler(&said, nil))}, cfg)
	for _, tt := range []struct {
		in   http.Header
		lost []string
	}{
		{http.Header{"Authorization": {"Bearer sk-12345678"}, "X-Token": {"own"}, "X-User": {"ann"}}, nil},
		{http.Header{"Authorization": {"Bearer sk-12345678"}, "X-Token": {"sk-12345678"}, "X-Tenant": {"t"}}, []string{"X-Token"}},
		{http.Header{"Authorization": {"Bearer sk-12345678"}, "X-Token": {"own", "bearer sk-12345678"}}, []string{"X-Token"}},
		{http.Header{"Api-Key": {"sk-12345678"}, "X-Token": {"key=sk-12345678;"}, "X-User": {"sk-12345678"}}, []string{"X-Token", "X-User"}},
		{http.Header{"Authorization": {"Bearer k"}, "X-Token": {"kkk"}, "X-Tenant": {"k"}}, []string{"X-Tenant"}},
		{http.Header{"X-Token": {""}, "Authorization": {""}}, nil},
	} {
		whole := tt.in.Clone()
		got := s.forwardable(t.Context(), tt.in)
		for _, name := range tt.lost {
			whole.Del(name)
		}
		if diff := cmp.Diff(whole, got); diff != "" {
			t.Error(diff)
		}
	}
	if strings.Count(said.String(), "header=x-token") != 1 || strings.Contains(said.String(), "12345678") {
		t.Error(said.String())
	}
}
