package credential

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"
)

// Auth is how the service proves itself to one MCP server: exactly one of Token,
// TokenFile, OAuth and Exchange.
type Auth struct {
	// Header is the request header, Scheme the word before the token; an empty
	// Scheme sends the token alone.
	Header, Scheme string
	// Token is sent as it is.
	Token string
	// TokenFile holds the token, and is read again when it changes.
	TokenFile string
	OAuth     *OAuth
	Exchange  *Exchange
}

// Client is how the service is known to an authorization server.
type Client struct {
	ID string
	// Secret, or the file that holds it.
	Secret, SecretFile string
	// KeyFile is a PEM private key that signs assertions (RFC 7523, section 2.2),
	// KeyID its name in their header.
	KeyFile, KeyID string
	// Method is one of the Method constants; empty: private_key_jwt with a KeyFile,
	// else what the authorization server's metadata names, else basic.
	Method string
}

// Ways of a client to prove itself at a token endpoint (OpenID Connect Core,
// section 9).
const (
	MethodBasic         = "basic"
	MethodPost          = "post"
	MethodPrivateKeyJWT = "private_key_jwt"
)

// OAuth is the client credentials grant (OAuth 2.1, section 4.2).
type OAuth struct {
	Client
	// TokenURL is the token endpoint; empty: found through the server's challenge
	// (RFC 9728) and the authorization server's metadata (RFC 8414).
	TokenURL string
	// Issuer is the only authorization server that may get the client's proof.
	// Empty: the first that the server names, and no other until a restart.
	Issuer string
	// AssertionFile holds a JWT that is presented as the grant itself (RFC 7523,
	// section 2.1), such as a workload's projected token.
	AssertionFile string
	// Scopes to ask for. Empty: those of the server's challenge or metadata.
	Scopes []string
	// Resource is what the token is for (RFC 8707); empty: what the server's
	// metadata names, else the server's URL; [NoResource]: not sent.
	Resource string
}

// Exchange is OAuth 2.0 token exchange (RFC 8693): a token for each caller.
type Exchange struct {
	Client
	TokenURL string
	// SubjectHeader is the header of the caller's request with the caller's token.
	// It goes to TokenURL and nowhere else.
	SubjectHeader string
	// SubjectTokenType and RequestedTokenType are identifiers of RFC 8693, section 3.
	SubjectTokenType, RequestedTokenType string
	Audience                             string
	// Resource is as in [OAuth].
	Resource string
	Scopes   []string
}

// NoResource keeps the resource parameter out of token requests, for
// authorization servers that refuse it.
const NoResource = "none"

// maxSubject bounds a caller's token, in bytes.
const maxSubject = 16 << 10

// Stored is the token that TokenFile holds now; "" if there is none, or none to be
// used.
func (a *Auth) Stored() string {
	if a == nil || a.TokenFile == "" {
		return ""
	}
	token, _ := ReadToken(a.TokenFile)
	return token
}

// PerCaller reports whether each caller is known to the server by a token of its own.
func (a *Auth) PerCaller() bool { return a != nil && a.Exchange != nil }

// Subject is the caller's token in the header of its request, without the word
// Bearer; "" if there is none, or not exactly one.
func (a *Auth) Subject(header http.Header) string {
	if !a.PerCaller() {
		return ""
	}
	values := header.Values(a.Exchange.SubjectHeader)
	if len(values) != 1 {
		return ""
	}
	token := strings.TrimSpace(values[0])
	if scheme, rest, ok := strings.Cut(token, " "); ok && strings.EqualFold(scheme, "bearer") {
		token = strings.TrimSpace(rest)
	}
	if len(token) > maxSubject || strings.ContainsAny(token, " \t,") || !httpguts.ValidHeaderFieldValue(token) {
		return ""
	}
	return token
}

// Options configures [New].
type Options struct {
	// Context ends all token requests. Go runs a function in a goroutine that its
	// owner waits for; false: it runs none any more.
	Context context.Context
	Go      func(func()) bool
	// URL is the server's. Egress, if set, is an HTTP proxy of the operator's that
	// the server is reached through.
	URL, Egress *url.URL
	Auth        *Auth // nil: nothing is added
	TLS         *TLS  // nil: the system's roots, no client certificate
	Log         *slog.Logger
}

// Source is what one server is reached with. It is safe for concurrent use.
type Source struct {
	Options
	tls    *tlsFiles
	shared signer // for all callers; nil if each has its own
}

// signer gives tokens. A token "" means that none is needed yet.
type signer interface {
	token(ctx context.Context) (string, error)
	// renew gives a better token than used, after the server's challenge; "" if
	// there is none.
	renew(ctx context.Context, used string, c challenge) (string, error)
}

// New makes a source. It reads no file and sends nothing yet.
func New(o Options) *Source {
	s := &Source{Options: o, tls: newTLSFiles(o.TLS, o.Log)}
	switch a := o.Auth; {
	case a == nil:
		s.shared = fixed("")
	case a.TokenFile != "":
		s.shared = &tokenFile{file: newFile(a.TokenFile, o.Log)}
	case a.OAuth != nil:
		s.shared = newCell(s, &clientGrant{source: s, conf: a.OAuth})
	case a.Exchange == nil:
		s.shared = fixed(a.Token)
	}
	return s
}

// Signer signs the requests of one caller.
type Signer struct {
	source *Source
	signer signer
}

// For returns the signer of the caller with a token from [Auth.Subject]. Without
// PerCaller all callers share one proof, and subject does not matter.
func (s *Source) For(subject string) *Signer {
	switch {
	case s.shared != nil:
		return &Signer{s, s.shared}
	case subject == "":
		return &Signer{s, nobody{}}
	}
	return &Signer{s, newCell(s, &exchangeGrant{source: s, conf: s.Auth.Exchange, subject: subject})}
}

// fixed is a token that never changes.
type fixed string

func (f fixed) token(context.Context) (string, error)                  { return string(f), nil }
func (fixed) renew(context.Context, string, challenge) (string, error) { return "", nil }

// nobody signs for callers without a token.
type nobody struct{}

func (nobody) token(context.Context) (string, error)                    { return "", ErrNoSubject }
func (nobody) renew(context.Context, string, challenge) (string, error) { return "", ErrNoSubject }

// tokenFile is a token that somebody else renews.
type tokenFile struct{ file *file }

func (t *tokenFile) token(context.Context) (string, error) { return t.file.text(time.Second) }

// renew looks into the file again: the token may have been rotated since.
func (t *tokenFile) renew(_ context.Context, used string, c challenge) (string, error) {
	if c.status != http.StatusUnauthorized {
		return "", nil
	}
	token, err := t.file.text(0)
	if err != nil || token == used {
		return "", nil
	}
	return token, nil
}

// Error says why a request cannot be signed. Its text is for operators: it names
// hosts and files, and never holds a secret.
type Error struct {
	Text string
	// Refused: asking again soon does not help.
	Refused bool
}

func (e *Error) Error() string { return e.Text }

// ErrNoSubject is the [Error] of a request on behalf of nobody.
var ErrNoSubject = &Error{Text: "each caller needs a token of its own, and brought none", Refused: true}
