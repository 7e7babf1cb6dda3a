package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/mcp-via-llm/mcp-via-llm/config"
	"github.com/mcp-via-llm/mcp-via-llm/mcp/credential"
)

// auth maps how the service proves itself to a server.
func auth(a *config.Auth) *credential.Auth {
	if a == nil {
		return nil
	}
	out := &credential.Auth{Header: a.Header, Token: a.Token, TokenFile: a.TokenFile}
	switch {
	case a.Scheme != nil:
		out.Scheme = *a.Scheme
	case strings.EqualFold(a.Header, "Authorization"):
		out.Scheme = "Bearer"
	}
	if o := a.OAuth; o != nil {
		out.OAuth = &credential.OAuth{
			Client: oauthClient(&o.OAuthClient), TokenURL: o.TokenURL, Issuer: o.Issuer,
			AssertionFile: o.AssertionFile, Scopes: o.Scopes, Resource: o.Resource,
		}
	}
	if x := a.TokenExchange; x != nil {
		out.Exchange = &credential.Exchange{
			Client: oauthClient(&x.OAuthClient), TokenURL: x.TokenURL, SubjectHeader: x.SubjectHeader,
			SubjectTokenType: config.TokenType(x.SubjectTokenType), RequestedTokenType: config.TokenType(x.RequestedTokenType),
			Audience: x.Audience, Resource: x.Resource, Scopes: x.Scopes,
		}
	}
	return out
}

func oauthClient(c *config.OAuthClient) credential.Client {
	return credential.Client{
		ID: c.ClientID, Secret: c.ClientSecret, SecretFile: c.ClientSecretFile,
		KeyFile: c.PrivateKeyFile, KeyID: c.KeyID, Method: c.ClientAuth,
	}
}

// private are the request headers that are meant for MCP servers, or for those who
// give tokens for them, and never for the LLM: lower case, sorted.
func private(cfg *config.Config) []string {
	return slices.DeleteFunc(fromCallers(cfg), config.IsLLMCredential)
}

// fromCallers are the request headers by which MCP servers tell callers apart.
func fromCallers(cfg *config.Config) []string {
	var all []string
	for _, s := range cfg.Servers {
		for _, name := range s.ForwardHeaders {
			all = append(all, strings.ToLower(name))
		}
		if s.Auth != nil && s.Auth.TokenExchange != nil {
			all = append(all, strings.ToLower(s.Auth.TokenExchange.SubjectHeader))
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// onBehalf tells callers apart who share an identity, such as the users of one
// application with one LLM key, but reach MCP servers with credentials of their
// own: what a server told one of them is not for the others. It is empty for a
// request without such a credential.
func onBehalf(names []header, h http.Header) string {
	var all []byte
	for _, name := range names {
		for _, value := range h[name.key] {
			all = fmt.Appendf(all, "%s:%d:%s", name.name, len(value), value)
		}
	}
	if all == nil {
		return ""
	}
	sum := sha256.Sum256(all)
	return "+" + hex.EncodeToString(sum[:16])
}

// minSecret is the least length of a credential that is looked for inside other values.
const minSecret = 8

// forwarded are the request headers that servers get, or tokens are exchanged for, and
// in which the LLM credential must not be.
func forwarded(cfg *config.Config) (all []string) {
	for _, server := range cfg.Servers {
		all = append(all, server.ForwardHeaders...)
		if a := server.Auth; a != nil && a.TokenExchange != nil && !a.TokenExchange.AllowLLMCredential {
			all = append(all, a.TokenExchange.SubjectHeader)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// forwardable are a request's headers for MCP servers. Where a caller repeats its LLM
// credential in a header that is forwarded, or exchanged, that header is missing: no
// MCP server may get the credential, whoever sends it there.
func (s *snapshot) forwardable(ctx context.Context, h http.Header) http.Header {
	out := h
	for _, header := range s.unsafe {
		if len(out[header.key]) == 0 || !repeatsAny(out[header.key], secrets(h)) {
			continue
		}
		out = out.Clone()
		delete(out, header.key)
		if _, said := s.app.repeated.LoadOrStore(strings.ToLower(header.name), true); !said {
			s.app.log.WarnContext(ctx, "a caller repeats its LLM credential in a header that MCP servers get; it is not sent on", "header", header.name)
		}
	}
	return out
}

// secrets are the credentials for the LLM that a request has.
func secrets(h http.Header) (all []string) {
	for _, name := range llmCredentials {
		for _, value := range h[name.key] {
			if fields := strings.Fields(value); len(fields) > 0 { // after its scheme (RFC 9110, section 11.4)
				all = append(all, fields[len(fields)-1])
			}
		}
	}
	return all
}

func repeatsAny(values, secrets []string) bool {
	return slices.ContainsFunc(values, func(value string) bool { return repeats(value, secrets) })
}

// repeats says whether a value is, or holds, one of the secrets.
func repeats(value string, secrets []string) bool {
	return slices.ContainsFunc(secrets, func(secret string) bool {
		fields := strings.Fields(value)
		return len(fields) > 0 && fields[len(fields)-1] == secret || len(secret) >= minSecret && strings.Contains(value, secret)
	})
}
