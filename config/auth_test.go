package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// of gives the file of one server with these keys.
func of(keys string) string { return "servers:\n  a:\n    url: https://h\n    " + keys + "\n" }

var authRows = []struct{ name, text, want string }{
	{"none", of("auth: {}"), `4: servers.a.auth: needs exactly one of: token, token_file, oauth, token_exchange`},
	{"two", of("auth: {token: hunter2, oauth: {client_id: i, client_secret: hunter2}}"), `4: servers.a.auth: needs exactly one of: token, token_file, oauth, token_exchange`},
	{"misspelt", of("auth: {tokn: hunter2}"), `4: servers.a.auth.tokn: unknown key; did you mean "token"?`},
	{"stdio", "servers: {a: {command: [x], auth: {token: hunter2}}}\n", `1: servers.a: mixes a stdio server (command, env, cwd) with an HTTP one (url, headers, forward_headers, auth, tls, transport, egress); keep one kind`},
	{"empty token", of("auth: {token: ''}"), `4: servers.a.auth.token: is empty`},
	{"token of two lines", of(`auth: {token: "hunter2\n"}`), `4: servers.a.auth.token: has characters that an HTTP header value must not contain`},
	{"missing file", of("auth: {token_file: /nonexistent/t}"), `4: servers.a.auth.token_file: the file "/nonexistent/t" cannot be used: no such file or directory`},
	{"missing expanded file", of("auth: {token_file: '/${SECRET}'}"), `4: servers.a.auth.token_file: the file "/${SECRET}" cannot be used: no such file or directory`},
	{"empty file", of("auth: {token_file: DIR/empty}"), `4: servers.a.auth.token_file: the file "DIR/empty" cannot be used: it is empty`},
	{"file of two lines", of("auth: {token_file: DIR/lines}"), `4: servers.a.auth.token_file: the file "DIR/lines" cannot be used: it holds more than one line, or characters that a header must not contain`},
	{"header", of("auth: {token: x, header: 'a b'}"), `4: servers.a.auth.header: is not a valid HTTP header name`},
	{"header of MCP", of("auth: {token: x, header: Mcp-Session-Id}"), `4: servers.a.auth.header: belongs to the protocol; a token cannot go there`},
	{"header twice", of("headers: {authorization: x}\n    auth: {token: x}"), `5: servers.a.auth.header: is in headers too; keep it in one place`},
	{"header forwarded", of("forward_headers: [X-Key]\n    auth: {token: x, header: x-key}"), `5: servers.a.auth.header: is in forward_headers too; keep it in one place`},
	{"scheme", of("auth: {token: x, scheme: 'a b'}"), `4: servers.a.auth.scheme: must be one word, such as Bearer`},
	{"no client", of("auth: {oauth: {client_secret: hunter2}}"), `4: servers.a.auth.oauth.client_id: is needed, because the grant is the client's own`},
	{"no proof", of("auth: {oauth: {client_id: i}}"), `4: servers.a.auth.oauth: needs a proof: client_secret, client_secret_file, private_key_file or assertion_file`},
	{"two proofs", of("auth: {oauth: {client_id: i, client_secret: hunter2, client_secret_file: DIR/good}}"), `4: servers.a.auth.oauth: has more than one of client_secret, client_secret_file and private_key_file; keep one`},
	{"no key", of("auth: {oauth: {client_id: i, private_key_file: DIR/lines}}"), `4: servers.a.auth.oauth.private_key_file: the file "DIR/lines" cannot be used: it holds no PEM private key`},
	{"client_auth", of("auth: {oauth: {client_id: i, client_secret: hunter2, client_auth: bsic}}"), `4: servers.a.auth.oauth.client_auth: must be one of: basic, post, private_key_jwt`},
	{"client_auth without its key", of("auth: {oauth: {client_id: i, client_secret: hunter2, client_auth: private_key_jwt}}"), `4: servers.a.auth.oauth.client_auth: does not go with the proof: private_key_jwt takes a private_key_file, basic and post take a secret`},
	{"token_url", of("auth: {oauth: {client_id: i, client_secret: hunter2, token_url: idp/token}}"), `4: servers.a.auth.oauth.token_url: is not a URL of the form http://host or https://host:port/path`},
	{"token_url with a password", of("auth: {oauth: {client_id: i, client_secret: x, token_url: 'https://u:hunter2@h'}}"), `4: servers.a.auth.oauth.token_url: must not carry credentials; give them in client_id and client_secret`},
	{"issuer", of("auth: {oauth: {client_id: i, client_secret: x, issuer: idp}}"), `4: servers.a.auth.oauth.issuer: is not a URL of the form http://host or https://host:port/path`},
	{"scope", of("auth: {oauth: {client_id: i, client_secret: x, scopes: [a, 'b c']}}"), `4: servers.a.auth.oauth.scopes[1]: is not a scope: one word without quotes`},
	{"resource", of("auth: {oauth: {client_id: i, client_secret: x, resource: /mcp}}"), `4: servers.a.auth.oauth.resource: must be an absolute URI without a fragment, or none`},
	{"no subject", of("auth: {token_exchange: {token_url: 'https://sts'}}"), `4: servers.a.auth.token_exchange.subject_header: is needed: the header of the client's request with the caller's token`},
	{"LLM credential", of("auth: {token_exchange: {token_url: 'https://sts', subject_header: Authorization}}"), `4: servers.a.auth.token_exchange.subject_header: "Authorization" carries the caller's LLM credential; let callers use a header of their own, or say allow_llm_credential: true if token_url may see it`},
	{"no token endpoint", of("auth: {token_exchange: {subject_header: x-user}}"), `4: servers.a.auth.token_exchange.token_url: is needed: the endpoint that exchanges the caller's token`},
	{"token type", of("auth: {token_exchange: {token_url: 'https://sts', subject_header: x-user, subject_token_type: JWT}}"), `4: servers.a.auth.token_exchange.subject_token_type: must be a URI, or one of: access_token, refresh_token, id_token, saml1, saml2, jwt`},
	{"secret of nobody", of("auth: {token_exchange: {token_url: 'https://sts', subject_header: x-user, client_secret: hunter2}}"), `4: servers.a.auth.token_exchange.client_id: is needed beside the client's proof`},
	{"tls on http", "servers:\n  a:\n    url: http://h\n    tls: {server_name: x}\n", `4: servers.a.tls: has no effect on an http URL`},
	{"no CA", of("tls: {ca: DIR/lines}"), `4: servers.a.tls.ca: the file "DIR/lines" cannot be used: it holds no PEM certificate`},
	{"half a certificate", of("tls: {cert: DIR/lines}"), `4: servers.a.tls: needs cert and key together`},
	{"no certificate", of("tls: {cert: DIR/lines, key: DIR/lines}"), `4: servers.a.tls.cert: the file "DIR/lines" cannot be used: it is no certificate that goes with the key`},
	{"no verification", of("tls: {insecure_skip_verify: true}"), `4: servers.a.tls.insecure_skip_verify: unknown key; known keys: ca, cert, key, server_name`},
}

func TestAuthProblems(t *testing.T) {
	t.Setenv("SECRET", "hunter2")
	dir := t.TempDir()
	for name, content := range map[string]string{"empty": "\n", "good": "hunter2\n", "lines": "hunter2\nhunter2\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, row := range authRows {
		t.Run(row.name, func(t *testing.T) {
			path := write(t, strings.ReplaceAll(row.text, "DIR", dir))
			_, err := Load(path)
			if err == nil {
				t.Fatal("accepted")
			}
			if got := strings.TrimPrefix(err.Error(), path+":"); got != strings.ReplaceAll(row.want, "DIR", dir) {
				t.Errorf("\n got %s\nwant %s", got, row.want)
			}
			if strings.Contains(err.Error(), "hunter2") {
				t.Error("a secret is in the message")
			}
		})
	}
}

func TestAuthDefaults(t *testing.T) {
	c := mustLoad(t, of("auth: {token_exchange: {token_url: 'https://sts', subject_header: x-user}}"))
	if a := c.Servers["a"].Auth; a.Header != "Authorization" || a.Scheme != nil || a.TokenExchange.SubjectTokenType != "access_token" {
		t.Errorf("%+v", a)
	}
	c = mustLoad(t, of("auth: {token: x, scheme: ''}"))
	if a := c.Servers["a"].Auth; a.Scheme == nil || *a.Scheme != "" {
		t.Errorf("%+v", a)
	}
}

// A new secret in the environment makes a new configuration, as everywhere.
func TestAuthCountsInTheFingerprint(t *testing.T) {
	t.Setenv("SECRET", "one")
	text := of("auth: {oauth: {client_id: i, client_secret: '${SECRET}'}}")
	before := mustLoad(t, text).Fingerprint()
	t.Setenv("SECRET", "two")
	if mustLoad(t, text).Fingerprint() == before {
		t.Error("the same fingerprint")
	}
}
