package credential

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"
)

const (
	grantExchange = "urn:ietf:params:oauth:grant-type:token-exchange"
	grantJWT      = "urn:ietf:params:oauth:grant-type:jwt-bearer"
	assertionType = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
)

// clientGrant is the client credentials grant, or a workload's assertion.
type clientGrant struct {
	source *Source
	conf   *OAuth

	at     atomic.Pointer[authServer] // nil until the server has said where
	pinned string                     // the authorization server that the client's proof belongs to
	wider  []string                   // scopes that the server has wanted
}

func (g *clientGrant) ready() bool { return g.conf.TokenURL != "" || g.at.Load() != nil }

func (g *clientGrant) fetch(ctx context.Context, c challenge) (*token, error) {
	at := g.at.Load()
	var err error
	switch {
	case g.conf.TokenURL != "":
		at, err = configured(g.conf.TokenURL, g.conf.Issuer)
	case at == nil || c.status == http.StatusUnauthorized:
		at, err = g.discover(ctx, c)
	}
	if err != nil {
		return nil, err
	}
	for _, scope := range c.scopes {
		if !slices.Contains(g.wider, scope) {
			g.wider = append(g.wider, scope)
		}
	}
	r := request{client: &g.conf.Client, params: url.Values{}, scopes: g.conf.Scopes, bearer: true}
	if len(r.scopes) == 0 { // MCP 2025-11-25, "Scope Selection Strategy"
		r.scopes = g.wider
	}
	if len(r.scopes) == 0 {
		r.scopes = at.scopes
	}
	setResource(r.params, g.conf.Resource, at.resource, g.source.URL)
	if g.conf.AssertionFile != "" {
		assertion, err := ReadToken(g.conf.AssertionFile)
		if err != nil {
			return nil, &Error{Text: "the assertion cannot be read: " + err.Error()}
		}
		r.params.Set("grant_type", grantJWT)
		r.params.Set("assertion", assertion)
		r.secrets = append(r.secrets, assertion)
	}
	tok, err := g.source.ask(ctx, at, r)
	if err != nil {
		return nil, err
	}
	tok.fixed = len(g.conf.Scopes) > 0
	g.at.Store(at)
	return tok, nil
}

// exchangeGrant exchanges one caller's token.
type exchangeGrant struct {
	source  *Source
	conf    *Exchange
	subject string
}

func (*exchangeGrant) ready() bool { return true }

func (g *exchangeGrant) fetch(ctx context.Context, _ challenge) (*token, error) {
	at, err := configured(g.conf.TokenURL, "")
	if err != nil {
		return nil, err
	}
	r := request{client: &g.conf.Client, scopes: g.conf.Scopes, secrets: []string{g.subject}, params: url.Values{
		"grant_type":         {grantExchange},
		"subject_token":      {g.subject},
		"subject_token_type": {g.conf.SubjectTokenType},
	}}
	for name, value := range map[string]string{"requested_token_type": g.conf.RequestedTokenType, "audience": g.conf.Audience} {
		if value != "" {
			r.params.Set(name, value)
		}
	}
	setResource(r.params, g.conf.Resource, "", g.source.URL)
	tok, err := g.source.ask(ctx, at, r)
	if err == nil {
		tok.fixed = true
	}
	return tok, err
}

// configured is the token endpoint of the operator's choice.
func configured(tokenURL, issuer string) (*authServer, error) {
	u, err := url.Parse(tokenURL)
	if err != nil {
		return nil, &Error{Text: "the token endpoint is no URL", Refused: true}
	}
	if issuer == "" {
		issuer = tokenURL
	}
	return &authServer{tokenURL: u, zone: zoneOperator, audience: issuer}, nil
}

// setResource says what the token is for (RFC 8707; MCP 2025-11-25, "Resource
// Parameter Implementation": always, whether or not the server knows it).
func setResource(params url.Values, conf, published string, server *url.URL) {
	switch {
	case conf == NoResource:
	case conf != "":
		params.Set("resource", conf)
	case published != "":
		params.Set("resource", published)
	default:
		canonical := url.URL{Scheme: server.Scheme, Host: server.Host, Path: server.Path, RawPath: server.RawPath}
		params.Set("resource", canonical.String())
	}
}

// request is what is sent to a token endpoint.
type request struct {
	client  *Client
	params  url.Values
	scopes  []string
	secrets []string // that no error may quote
	bearer  bool     // the answer must be a bearer token
}

// ask sends a token request.
func (s *Source) ask(ctx context.Context, at *authServer, r request) (*token, error) {
	conf := clientcredentials.Config{
		ClientID: r.client.ID, TokenURL: at.tokenURL.String(), Scopes: r.scopes,
		EndpointParams: r.params, AuthStyle: oauth2.AuthStyleInParams,
	}
	if err := r.client.prove(&conf, at); err != nil {
		return nil, err
	}
	client, err := s.client(at.tokenURL, at.zone, noRedirect)
	if err != nil {
		return nil, err
	}
	got, err := conf.Token(context.WithValue(ctx, oauth2.HTTPClient, client))
	if err != nil {
		return nil, tokenError(at.tokenURL, err, append(r.secrets, conf.ClientSecret))
	}
	return r.accept(at, got)
}

func (r *request) accept(at *authServer, got *oauth2.Token) (*token, error) {
	// RFC 6749, section 7.1: a token of an unknown type must not be used. N_A is
	// that of an exchange for something else than an access token (RFC 8693, 2.2.1).
	kind := strings.ToLower(got.TokenType)
	if kind != "" && kind != "bearer" && (r.bearer || kind != "n_a") {
		return nil, &Error{Text: fmt.Sprintf("the token endpoint at %s gave a token of type %.20q, which is not supported", at.tokenURL.Hostname(), kind), Refused: true}
	}
	if !httpguts.ValidHeaderFieldValue(got.AccessToken) {
		return nil, &Error{Text: "the token endpoint at " + at.tokenURL.Hostname() + " gave a token that fits into no header", Refused: true}
	}
	tok := newToken(got.AccessToken, got.Expiry)
	tok.scopes = r.scopes
	if granted, ok := got.Extra("scope").(string); ok {
		for _, scope := range validScopes(strings.Fields(granted)) {
			if !slices.Contains(tok.scopes, scope) {
				tok.scopes = append(slices.Clone(tok.scopes), scope)
			}
		}
	}
	return tok, nil
}

// prove adds the client's proof to a request.
func (c *Client) prove(conf *clientcredentials.Config, at *authServer) error {
	if c.method(at.methods) == MethodPrivateKeyJWT {
		assertion, err := c.assertion(at.audience)
		if err != nil {
			return &Error{Text: "the client's assertion cannot be made: " + err.Error()}
		}
		conf.EndpointParams.Set("client_assertion_type", assertionType)
		conf.EndpointParams.Set("client_assertion", assertion)
		return nil
	}
	conf.ClientSecret = c.Secret
	if c.SecretFile != "" {
		secret, err := ReadToken(c.SecretFile)
		if err != nil {
			return &Error{Text: "the client's secret cannot be read: " + err.Error()}
		}
		conf.ClientSecret = secret
	}
	if conf.ClientSecret != "" && c.method(at.methods) == MethodBasic {
		conf.AuthStyle = oauth2.AuthStyleInHeader
	}
	return nil
}

// method chooses how the client proves itself. RFC 8414, section 2: basic is the
// default where metadata names none.
func (c *Client) method(supported []string) string {
	switch {
	case c.Method != "":
		return c.Method
	case c.KeyFile != "":
		return MethodPrivateKeyJWT
	case slices.Contains(supported, "client_secret_post") && !slices.Contains(supported, "client_secret_basic"):
		return MethodPost
	}
	return MethodBasic
}
