package credential

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/oauthex"
)

// challenge is what a server answered to a request that it did not accept.
type challenge struct {
	status   int
	code     string   // the error of RFC 6750, section 3.1
	scopes   []string // what it wants
	metadata string   // where its metadata is (RFC 9728, section 5.1)
	zone     zone     // where the server is
}

// challengeOf reads the Bearer challenge of an answer; without one, the status
// alone is known.
func challengeOf(resp *http.Response, z zone) challenge {
	c := challenge{status: resp.StatusCode, zone: z}
	all, err := oauthex.ParseWWWAuthenticate(resp.Header.Values("WWW-Authenticate"))
	if err != nil {
		return c
	}
	for _, one := range all {
		if one.Scheme == "bearer" || one.Scheme == "dpop" {
			c.code, c.metadata = one.Params["error"], one.Params["resource_metadata"]
			c.scopes = validScopes(strings.Fields(one.Params["scope"]))
			break
		}
	}
	return c
}

// maxScopes bounds the scopes that a server can make us ask for.
const maxScopes = 64

// validScopes drops what is no scope-token (RFC 6749, section 3.3): scopes are
// logged and sent on.
func validScopes(scopes []string) []string {
	var valid []string
	for _, scope := range scopes {
		bad := func(r rune) bool { return r < 0x21 || r > 0x7e || r == '"' || r == '\\' }
		if len(valid) < maxScopes && len(scope) <= 256 && scope != "" && !strings.ContainsFunc(scope, bad) {
			valid = append(valid, scope)
		}
	}
	return valid
}

// authServer is where tokens come from.
type authServer struct {
	tokenURL *url.URL
	zone     zone // of what may be dialled for it
	audience string
	methods  []string // of client authentication; nil if unknown
	resource string   // "" if the server has not said it
	scopes   []string // that the server's metadata lists
}

// discover finds the authorization server of an MCP server that answered with a
// challenge (MCP 2025-11-25, "Authorization", "Authorization Server Location").
func (g *clientGrant) discover(ctx context.Context, c challenge) (*authServer, error) {
	resource, err := g.resource(ctx, c)
	if err != nil {
		return nil, err
	}
	issuer, err := g.issuer(resource.AuthorizationServers)
	if err != nil {
		return nil, err
	}
	meta, err := g.metadata(ctx, c, issuer)
	if err != nil {
		return nil, err
	}
	at := &authServer{
		zone: c.zone, audience: meta.Issuer, methods: meta.TokenEndpointAuthMethodsSupported,
		resource: resource.Resource, scopes: validScopes(resource.ScopesSupported),
	}
	if at.tokenURL, err = g.source.named(meta.TokenEndpoint); err != nil {
		return nil, &Error{Text: "the token endpoint in the metadata of the authorization server " + err.Error(), Refused: true}
	}
	if g.issuerHost(at.tokenURL) {
		at.zone = zoneOperator
	}
	g.pinned = issuer
	return at, nil
}

// resource reads the server's own metadata (RFC 9728). A server without any is
// one of 2025-03-26, and its own authorization server.
func (g *clientGrant) resource(ctx context.Context, c challenge) (*oauthex.ProtectedResourceMetadata, error) {
	server := g.source.URL
	root := &url.URL{Scheme: server.Scheme, Host: server.Host}
	places := []string{
		c.metadata,
		root.JoinPath("/.well-known/oauth-protected-resource", server.EscapedPath()).String(),
		root.JoinPath("/.well-known/oauth-protected-resource").String(),
	}
	for _, place := range places {
		if place == "" {
			continue
		}
		var m oauthex.ProtectedResourceMetadata
		found, err := g.get(ctx, c, place, &m)
		switch {
		case err != nil:
			return nil, &Error{Text: "the server's metadata " + err.Error(), Refused: !retryable(err)}
		case !found:
		case !covers(m.Resource, server):
			return nil, &Error{Text: "the server's metadata is that of another resource", Refused: true}
		default:
			return &m, nil
		}
	}
	return &oauthex.ProtectedResourceMetadata{AuthorizationServers: []string{root.String()}}, nil
}

// covers reports whether a resource identifier is the server's URL or lies above
// it: many servers name their origin. RFC 9728, section 3.3 keeps a server from
// passing itself off as another.
func covers(resource string, server *url.URL) bool {
	u, err := url.Parse(resource)
	if err != nil || !SameOrigin(u, server) {
		return false
	}
	above := strings.TrimSuffix(u.EscapedPath(), "/")
	return above == "" || above == strings.TrimSuffix(server.EscapedPath(), "/") || strings.HasPrefix(server.EscapedPath(), above+"/")
}

// issuer chooses an authorization server. A client's proof belongs to the one that
// it was registered with: a server that names another does not get it there.
func (g *clientGrant) issuer(named []string) (string, error) {
	want := g.conf.Issuer
	switch {
	case want != "":
		return want, nil
	case len(named) == 0:
		return "", &Error{Text: "the server's metadata names no authorization server", Refused: true}
	case g.pinned == "":
		return named[0], nil
	}
	for _, issuer := range named {
		if sameIssuer(issuer, g.pinned) {
			return issuer, nil
		}
	}
	return "", &Error{Text: "the server names another authorization server than before; configure the issuer, or restart, if this is right", Refused: true}
}

// sameIssuer does without the slash at the end, which issuers and their users drop
// and add.
func sameIssuer(a, b string) bool { return strings.TrimSuffix(a, "/") == strings.TrimSuffix(b, "/") }

// metadata reads the authorization server's metadata (RFC 8414, and OpenID Connect
// Discovery), in the order of MCP 2025-11-25.
func (g *clientGrant) metadata(ctx context.Context, c challenge, issuer string) (*oauthex.AuthServerMeta, error) {
	u, err := g.source.named(issuer)
	if err != nil {
		return nil, &Error{Text: "the authorization server " + err.Error(), Refused: true}
	}
	if g.issuerHost(u) {
		c.zone = zoneOperator
	}
	root := &url.URL{Scheme: u.Scheme, Host: u.Host}
	path := strings.TrimSuffix(u.EscapedPath(), "/")
	places := []*url.URL{
		root.JoinPath("/.well-known/oauth-authorization-server", path),
		root.JoinPath("/.well-known/openid-configuration", path),
	}
	if path != "" {
		places = append(places, root.JoinPath(path, "/.well-known/openid-configuration"))
	}
	for _, place := range places {
		var m oauthex.AuthServerMeta
		found, err := g.get(ctx, c, place.String(), &m)
		switch {
		case err != nil:
			return nil, &Error{Text: "the metadata of the authorization server " + err.Error(), Refused: !retryable(err)}
		case !found:
		case !sameIssuer(m.Issuer, issuer):
			return nil, &Error{Text: "the metadata of the authorization server is that of another issuer", Refused: true}
		default:
			return &m, nil
		}
	}
	if SameOrigin(u, g.source.URL) { // 2025-03-26, "Fallbacks for Servers without Metadata Discovery"
		return &oauthex.AuthServerMeta{Issuer: issuer, TokenEndpoint: root.JoinPath("/token").String()}, nil
	}
	return nil, &Error{Text: fmt.Sprintf("the authorization server at %s publishes no metadata", u.Hostname()), Refused: true}
}

func (g *clientGrant) issuerHost(u *url.URL) bool {
	issuer, err := url.Parse(g.conf.Issuer)
	return err == nil && g.conf.Issuer != "" && strings.EqualFold(issuer.Hostname(), u.Hostname())
}

// get reads a JSON document; false if there is none.
func (g *clientGrant) get(ctx context.Context, c challenge, place string, into any) (bool, error) {
	u, err := g.source.named(place)
	if err != nil {
		return false, err
	}
	client, err := g.source.client(u, c.zone, func(next *http.Request, via []*http.Request) error {
		if _, err := g.source.named(next.URL.String()); err != nil || len(via) > maxRedirects || SameOrigin(u, g.source.URL) && !SameOrigin(next.URL, u) {
			return errRedirect
		}
		return nil
	})
	if err != nil {
		return false, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return false, err
	}
	req.Header.Set("Accept", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return false, unreached(u, err)
	}
	defer resp.Body.Close()
	media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	switch {
	case resp.StatusCode >= 500 || resp.StatusCode == http.StatusTooManyRequests:
		return false, &unavailable{fmt.Errorf("at %s: HTTP %d", u.Hostname(), resp.StatusCode)}
	case resp.StatusCode != http.StatusOK || media != "application/json" && !strings.HasSuffix(media, "+json"):
		return false, nil // also a web application that answers every path with its page
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxDocument+1))
	switch {
	case err != nil:
		return false, unreached(u, err)
	case len(body) > maxDocument || json.Unmarshal(body, into) != nil:
		return false, fmt.Errorf("at %s is no JSON of a usual size", u.Hostname())
	}
	return true, nil
}

// unavailable is a failure that may pass by itself.
type unavailable struct{ error }

func (u *unavailable) Unwrap() error { return u.error }

func retryable(err error) bool {
	var u *unavailable
	return errors.As(err, &u)
}

// unreached takes the URL out of an error of http.Client.
func unreached(u *url.URL, err error) error {
	var as *url.Error
	if errors.As(err, &as) {
		err = as.Err
	}
	err = fmt.Errorf("at %s: %w", u.Hostname(), err)
	if errors.Is(err, errForbidden) || errors.Is(err, errRedirect) {
		return err
	}
	return &unavailable{err}
}
