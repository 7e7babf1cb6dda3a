package config

// Auth is how the service proves itself to an HTTP server: exactly one of token,
// token_file, oauth and token_exchange. Files are read again when they change.
type Auth struct {
	// Token is sent as it is.
	Token string `yaml:"token"`
	// TokenFile holds the token, such as a projected service account token.
	TokenFile string `yaml:"token_file"`
	// OAuth gets a token of the service's own: the client credentials grant.
	OAuth *OAuth `yaml:"oauth"`
	// TokenExchange gets a token for each caller (RFC 8693).
	TokenExchange *TokenExchange `yaml:"token_exchange"`
	// Header carries the token. Default Authorization.
	Header string `yaml:"header"`
	// Scheme is the word before the token. Default Bearer in Authorization, none in
	// another header; "" for none.
	Scheme *string `yaml:"scheme"`
}

// OAuthClient is how the service is known to an authorization server.
type OAuthClient struct {
	// ClientID is the name that the service was registered with.
	ClientID string `yaml:"client_id"`
	// ClientSecret proves it; or ClientSecretFile, or PrivateKeyFile.
	ClientSecret string `yaml:"client_secret"`
	// ClientSecretFile holds the secret.
	ClientSecretFile string `yaml:"client_secret_file"`
	// PrivateKeyFile is a PEM key (RSA, ECDSA or Ed25519) that signs a JWT for each
	// token request (RFC 7523).
	PrivateKeyFile string `yaml:"private_key_file"`
	// KeyID is the kid in the header of that JWT.
	KeyID string `yaml:"key_id"`
	// ClientAuth is basic, post or private_key_jwt. Default: private_key_jwt with a
	// private_key_file, else what the authorization server's metadata asks for, else
	// basic.
	ClientAuth string `yaml:"client_auth"`
	// Scopes are all that is asked for. Default: what the MCP server asks for in its
	// challenge or its metadata; with token_exchange none.
	Scopes []string `yaml:"scopes"`
	// Resource says what the token is for (RFC 8707). Default: what the MCP server's
	// metadata says, else its URL; none for authorization servers that refuse it.
	Resource string `yaml:"resource"`
}

// OAuth is the client credentials grant.
type OAuth struct {
	OAuthClient
	// TokenURL is the token endpoint. Default: found through the MCP server's
	// challenge and the authorization server's metadata. Plain http is for loopback
	// only: it gets the client's proof, and check warns of another host.
	TokenURL string `yaml:"token_url"`
	// Issuer is the only authorization server that may get the client's proof.
	// Default: the first that the MCP server names, and no other until a restart.
	// Without it and token_url, the MCP server so decides who gets client_id and
	// client_secret: check warns of that.
	Issuer string `yaml:"issuer"`
	// AssertionFile holds a JWT that is the grant itself, such as a workload's
	// projected token (RFC 7523, section 2.1).
	AssertionFile string `yaml:"assertion_file"`
}

// TokenExchange exchanges the caller's token for one that the MCP server takes.
type TokenExchange struct {
	OAuthClient
	// TokenURL is the endpoint that gets the caller's token. Nobody else does. Plain
	// http is for loopback only: check warns of another host.
	TokenURL string `yaml:"token_url"`
	// SubjectHeader is the header of the client's request that holds the caller's
	// token, with or without Bearer. Only safe where Envoy has verified it. A caller
	// without it goes without the server's tools.
	SubjectHeader string `yaml:"subject_header"`
	// AllowLLMCredential permits a subject_header that usually carries the caller's
	// LLM credential: for tokens that are good for both, where token_url may see them.
	AllowLLMCredential bool `yaml:"allow_llm_credential"`
	// SubjectTokenType is access_token (default), id_token, jwt, refresh_token, saml1,
	// saml2, or a URI.
	SubjectTokenType string `yaml:"subject_token_type"`
	// RequestedTokenType is one of these too. Default: not sent.
	RequestedTokenType string `yaml:"requested_token_type"`
	// Audience names the server that the token is for, if its URL does not.
	Audience string `yaml:"audience"`
}

// ServerTLS says how an https server is verified, and what it is shown, as paths
// of PEM files that are read again when they change. At least TLS 1.2.
type ServerTLS struct {
	// CA verifies the server. Default: the system's certificates.
	CA string `yaml:"ca"`
	// Cert is the client certificate, with its chain.
	Cert string `yaml:"cert"`
	// Key is its private key.
	Key string `yaml:"key"`
	// ServerName is the name in the server's certificate. Default: that of the URL.
	ServerName string `yaml:"server_name"`
}

func (a *Auth) setDefaults() { a.Header = "Authorization" }

func (t *TokenExchange) setDefaults() { t.SubjectTokenType = "access_token" }
