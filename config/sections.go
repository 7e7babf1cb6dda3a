package config

import (
	"regexp"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/mcp-via-llm/mcp-via-llm/sessions"
)

// Store keeps hidden history and pending work.
type Store struct {
	// Redis shares the store between replicas. Absent: embedded, in memory.
	Redis *Redis `yaml:"redis"`
	// KeyPrefix begins every key. Default "mcpvia:".
	KeyPrefix string `yaml:"key_prefix"`
	// EncryptionKeys encrypt what goes to Redis (AES-256-GCM, 32 bytes in base64).
	// The first encrypts, all decrypt, so a new one is put in front of the old.
	EncryptionKeys []string `yaml:"encryption_keys"`
	// OnError says what a turn that ends in a tool message gets while the store
	// is unreachable: fail (503, default) or degrade (it runs on with what the
	// client sent).
	OnError string `yaml:"on_error"`
}

// Redis is where the shared store is.
type Redis struct {
	// URL is redis://user:password@host:port/db, with rediss for TLS. For a cluster
	// redis+cluster://host:port?addr=host2:port, for sentinels
	// redis+sentinel://host:port/db?master_name=NAME&addr=host2:port.
	URL string `yaml:"url"`
}

// What a turn that brings results of calls gets while the store is away.
const (
	OnErrorFail    = "fail"
	OnErrorDegrade = "degrade"
)

func (s *Store) setDefaults() {
	s.KeyPrefix = "mcpvia:"
	s.OnError = OnErrorFail
}

func (s *Store) validate(r *report, path string) {
	r.oneOf(join(path, "on_error"), s.OnError, OnErrorFail, OnErrorDegrade)
	if _, err := sessions.NewCodec(s.EncryptionKeys); err != nil {
		r.add(join(path, "encryption_keys"), "cannot be used: %v", err)
		return
	}
	if s.Redis == nil {
		return
	}
	if s.Redis.URL == "" {
		r.add(join(path, "redis.url"), "is empty; give it a URL such as redis://127.0.0.1:6379/0, or leave store.redis out for the store in memory")
		return
	}
	store, err := sessions.Open(s.Options()) // does not connect yet; its errors hold no secrets
	if err != nil {
		r.add(join(path, "redis.url"), "cannot be used: %v", err)
		return
	}
	store.Close() //nolint:errcheck // it was never used
}

// Options are the store's, save who watches it.
func (s *Store) Options() sessions.Options {
	o := sessions.Options{KeyPrefix: s.KeyPrefix, EncryptionKeys: s.EncryptionKeys}
	if s.Redis != nil {
		o.RedisURL = s.Redis.URL
	}
	return o
}

// Identity says what proves who the caller is.
type Identity struct {
	// From are the proofs, the first that is present counts: mtls_san (the SAN of
	// the client certificate, from Envoy), jwt_sub (the subject that Envoy's
	// jwt_authn verified), authorization (the hash of the presented credential).
	// Default all three, in this order.
	From []string `yaml:"from"`
	// Header names a request header with the identity, which logs show as it is: a
	// header that carries a credential is refused, and one named like a secret doubted. Only safe where Envoy sets it and
	// callers cannot. Default "" (none).
	Header string `yaml:"header"`
}

var secretName = regexp.MustCompile(`(?i)token|secret|passw|credential|session|(^|-|_)(api)?key($|-|_)`)

// isSubject says whether a server's token exchange takes the callers' tokens from
// the header.
func isSubject(header string, servers map[string]Server) bool {
	for _, s := range servers {
		if s.Auth != nil && s.Auth.TokenExchange != nil && strings.EqualFold(s.Auth.TokenExchange.SubjectHeader, header) {
			return true
		}
	}
	return false
}

func (i *Identity) setDefaults() { i.From = []string{"mtls_san", "jwt_sub", "authorization"} }

func (i *Identity) validate(r *report, path string, servers map[string]Server) {
	for n, from := range i.From {
		r.oneOf(index(join(path, "from"), n), from, "mtls_san", "jwt_sub", "authorization")
	}
	switch key := join(path, "header"); {
	case i.Header == "":
	case !httpguts.ValidHeaderFieldName(i.Header):
		r.add(key, "is not a valid HTTP header name")
	case IsLLMCredential(i.Header), strings.EqualFold(i.Header, "cookie"):
		r.add(key, "%q carries a secret, and identities are in logs as they are; leave header out: authorization in identity.from uses its hash", i.Header)
	case isProtocol(i.Header):
		r.add(key, "%q belongs to the protocol, and is no identity", i.Header)
	case isSubject(i.Header, servers):
		r.add(key, "%q carries the callers' tokens (subject_header of a token_exchange), and identities are in logs as they are; use another header", i.Header)
	case secretName.MatchString(i.Header):
		r.warn(key, "%q is named like a secret, and identities are in logs as they are", i.Header)
	}
}

// Log is the level and the form of the log on stderr.
type Log struct {
	// Level is debug, info (default), warn or error.
	Level string `yaml:"level"`
	// Format is auto (default: text on a terminal, else JSON), json or text.
	Format string `yaml:"format"`
}

func (l *Log) setDefaults() {
	l.Level = "info"
	l.Format = "auto"
}

func (l *Log) validate(r *report, path string) {
	r.oneOf(join(path, "level"), l.Level, "debug", "info", "warn", "error")
	r.oneOf(join(path, "format"), l.Format, "auto", "json", "text")
}
