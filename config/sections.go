package config

import (
	"net/url"
	"slices"

	"golang.org/x/net/http/httpguts"
)

// Store keeps hidden history and pending work.
type Store struct {
	// Redis shares the store between replicas. Absent: embedded, in memory.
	Redis *Redis `yaml:"redis"`
	// KeyPrefix begins every key. Default "mcpvia:".
	KeyPrefix string `yaml:"key_prefix"`
	// OnError says what a turn that ends in a tool message gets while the store
	// is unreachable: fail (503, default) or degrade (it runs on with what the
	// client sent).
	OnError string `yaml:"on_error"`
}

// Redis is where the shared store is.
type Redis struct {
	// URL is redis://user:password@host:port/db or rediss://…, cluster and
	// sentinel URLs too.
	URL string `yaml:"url"`
}

func (s *Store) setDefaults() {
	s.KeyPrefix = "mcpvia:"
	s.OnError = "fail"
}

func (s *Store) validate(r *report, path string) {
	r.oneOf(join(path, "on_error"), s.OnError, "fail", "degrade")
	if s.Redis == nil {
		return
	}
	u, err := url.Parse(s.Redis.URL)
	if err != nil || !slices.Contains([]string{"redis", "rediss"}, u.Scheme) || u.Host == "" {
		r.add(join(path, "redis.url"), "is not a URL of the form redis://user:password@host:port/0 or rediss://…")
	}
}

// Identity says what proves who the caller is.
type Identity struct {
	// From are the proofs, the first that is present counts: mtls_san (the SAN of
	// the client certificate, from Envoy), jwt_sub (the subject that Envoy's
	// jwt_authn verified), authorization (the hash of the presented credential).
	// Default all three, in this order.
	From []string `yaml:"from"`
	// Header names a request header with the identity. Only safe where Envoy sets
	// it and callers cannot. Default "" (none).
	Header string `yaml:"header"`
}

func (i *Identity) setDefaults() { i.From = []string{"mtls_san", "jwt_sub", "authorization"} }

func (i *Identity) validate(r *report, path string) {
	for n, from := range i.From {
		r.oneOf(index(join(path, "from"), n), from, "mtls_san", "jwt_sub", "authorization")
	}
	if i.Header != "" && !httpguts.ValidHeaderFieldName(i.Header) {
		r.add(join(path, "header"), "is not a valid HTTP header name")
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
