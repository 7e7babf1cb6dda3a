package config

import (
	"errors"
	"io/fs"
	"net"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/mcp-via-llm/mcp-via-llm/mcp/credential"
)

func (s *Server) validateAuth(r *report, at string) {
	a := s.Auth
	if a == nil {
		return
	}
	kinds := 0
	for _, given := range []bool{r.given(join(at, "token")), a.TokenFile != "", a.OAuth != nil, a.TokenExchange != nil} {
		if given {
			kinds++
		}
	}
	if kinds != 1 && !r.under(at) {
		r.add(at, "needs exactly one of: token, token_file, oauth, token_exchange")
	}
	switch {
	case !r.given(join(at, "token")):
	case a.Token == "":
		r.add(join(at, "token"), "is empty")
	case !httpguts.ValidHeaderFieldValue(a.Token):
		r.add(join(at, "token"), "has characters that an HTTP header value must not contain")
	}
	_, err := credential.ReadToken(a.TokenFile)
	r.usable(join(at, "token_file"), a.TokenFile, err)
	s.validateAuthHeader(r, at)
	if a.OAuth != nil {
		a.OAuth.validate(r, join(at, "oauth"))
	}
	if a.TokenExchange != nil {
		a.TokenExchange.validate(r, join(at, "token_exchange"))
	}
}

func (s *Server) validateAuthHeader(r *report, at string) {
	key, name := join(at, "header"), s.Auth.Header
	same := func(other string) bool { return strings.EqualFold(name, other) }
	switch {
	case !httpguts.ValidHeaderFieldName(name):
		r.add(key, "is not a valid HTTP header name")
	case isProtocol(name):
		r.add(key, "belongs to the protocol; a token cannot go there")
	case slices.ContainsFunc(sortedKeys(s.Headers), same):
		r.add(key, "is in headers too; keep it in one place")
	case slices.ContainsFunc(s.ForwardHeaders, same):
		r.add(key, "is in forward_headers too; keep it in one place")
	}
	if scheme := s.Auth.Scheme; scheme != nil && *scheme != "" && !httpguts.ValidHeaderFieldName(*scheme) {
		r.add(join(at, "scheme"), "must be one word, such as Bearer")
	}
}

func (o *OAuth) validate(r *report, at string) {
	proofs := o.OAuthClient.validate(r, at)
	if o.AssertionFile != "" {
		proofs++
		_, err := credential.ReadToken(o.AssertionFile)
		r.usable(join(at, "assertion_file"), o.AssertionFile, err)
	} else if o.ClientID == "" {
		r.add(join(at, "client_id"), "is needed, because the grant is the client's own")
	}
	if proofs == 0 && !r.under(at) {
		r.add(at, "needs a proof: client_secret, client_secret_file, private_key_file or assertion_file")
	}
	if o.TokenURL != "" {
		r.tokenURL(join(at, "token_url"), o.TokenURL)
	} else if o.Issuer == "" {
		r.warn(at, "has no issuer: whatever authorization server the MCP server names gets the client's proof; name the only one that may in issuer")
	}
	if o.Issuer != "" {
		r.tokenURL(join(at, "issuer"), o.Issuer)
	}
}

func (t *TokenExchange) validate(r *report, at string) {
	if proofs := t.OAuthClient.validate(r, at); proofs > 0 && t.ClientID == "" {
		r.add(join(at, "client_id"), "is needed beside the client's proof")
	}
	switch key, name := join(at, "subject_header"), t.SubjectHeader; {
	case name == "":
		r.add(key, "is needed: the header of the client's request with the caller's token")
	case !httpguts.ValidHeaderFieldName(name):
		r.add(key, "is not a valid HTTP header name")
	case isProtocol(name):
		r.add(key, "belongs to the protocol; the caller's token cannot be there")
	case IsLLMCredential(name) && !t.AllowLLMCredential:
		r.add(key, "%q carries the caller's LLM credential; let callers use a header of their own, or say allow_llm_credential: true if token_url may see it", name)
	}
	if t.TokenURL == "" {
		r.add(join(at, "token_url"), "is needed: the endpoint that exchanges the caller's token")
	} else {
		r.tokenURL(join(at, "token_url"), t.TokenURL)
	}
	for key, value := range map[string]string{"subject_token_type": t.SubjectTokenType, "requested_token_type": t.RequestedTokenType} {
		if value != "" && !isURI(value) && !slices.Contains(tokenTypes, value) {
			r.add(join(at, key), "must be a URI, or one of: %s", strings.Join(tokenTypes, ", "))
		}
	}
}

// tokenTypes are the last words of the identifiers in RFC 8693, section 3.
var tokenTypes = []string{"access_token", "refresh_token", "id_token", "saml1", "saml2", "jwt"}

// TokenType is the identifier that a short name stands for.
func TokenType(name string) string {
	if slices.Contains(tokenTypes, name) {
		return "urn:ietf:params:oauth:token-type:" + name
	}
	return name
}

// validate reports how many proofs the client has.
func (c *OAuthClient) validate(r *report, at string) (proofs int) {
	for _, proof := range []string{c.ClientSecret, c.ClientSecretFile, c.PrivateKeyFile} {
		if proof != "" {
			proofs++
		}
	}
	if proofs > 1 {
		r.add(at, "has more than one of client_secret, client_secret_file and private_key_file; keep one")
	}
	_, err := credential.ReadToken(c.ClientSecretFile)
	r.usable(join(at, "client_secret_file"), c.ClientSecretFile, err)
	_, _, err = credential.ReadKey(c.PrivateKeyFile)
	r.usable(join(at, "private_key_file"), c.PrivateKeyFile, err)
	if c.ClientAuth != "" {
		key := join(at, "client_auth")
		r.oneOf(key, c.ClientAuth, credential.MethodBasic, credential.MethodPost, credential.MethodPrivateKeyJWT)
		if (c.ClientAuth == credential.MethodPrivateKeyJWT) != (c.PrivateKeyFile != "") {
			r.add(key, "does not go with the proof: private_key_jwt takes a private_key_file, basic and post take a secret")
		}
	}
	for i, scope := range c.Scopes {
		if scope == "" || strings.ContainsFunc(scope, func(c rune) bool { return c < 0x21 || c > 0x7e || c == '"' || c == '\\' }) {
			r.add(index(join(at, "scopes"), i), "is not a scope: one word without quotes")
		}
	}
	if c.Resource != "" && c.Resource != credential.NoResource && !isURI(c.Resource) {
		r.add(join(at, "resource"), "must be an absolute URI without a fragment, or none")
	}
	return proofs
}

func isURI(s string) bool {
	u, err := url.Parse(s)
	return err == nil && u.Scheme != "" && u.Fragment == ""
}

func (r *report) tokenURL(key, value string) {
	if u := r.httpURL(key, value); u != nil && u.User != nil {
		r.add(key, "must not carry credentials; give them in client_id and client_secret")
	} else if u != nil && u.Scheme == "http" && !isLoopback(u.Hostname()) {
		r.warn(key, "is plain http: credentials go to another machine unencrypted; use https")
	}
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func (s *Server) validateTLS(r *report, at string) {
	t := s.TLS
	if t == nil {
		return
	}
	if u, err := url.Parse(s.URL); err == nil && u.Scheme == "http" {
		r.add(at, "has no effect on an http URL")
	}
	_, err := credential.ReadCA(t.CA)
	r.usable(join(at, "ca"), t.CA, err)
	switch {
	case (t.Cert == "") != (t.Key == ""):
		r.add(at, "needs cert and key together")
	case t.Cert != "":
		_, err := credential.ReadPair(t.Cert, t.Key)
		r.usable(join(at, "cert"), t.Cert, err)
	}
}

// usable reports why a file, if it is named, cannot be used. The path is shown as
// it stands in the configuration.
func (r *report) usable(key, path string, err error) {
	if path == "" || err == nil {
		return
	}
	var as *fs.PathError
	if errors.As(err, &as) {
		err = as.Err
	}
	r.add(key, "the file %q cannot be used: %v", r.shown(key, path), err)
}
