package main

import (
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

// forwarded are the request headers that are meant for MCP servers, or for those
// who give tokens for them, and never for the LLM.
func forwarded(cfg *config.Config) []string {
	var all []string
	for _, s := range cfg.Servers {
		all = append(all, s.ForwardHeaders...)
		if s.Auth != nil && s.Auth.TokenExchange != nil && !config.IsLLMCredential(s.Auth.TokenExchange.SubjectHeader) {
			all = append(all, s.Auth.TokenExchange.SubjectHeader)
		}
	}
	return all
}
