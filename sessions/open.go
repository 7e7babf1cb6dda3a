package sessions

import (
	"context"
	"crypto/tls"
	"fmt"
	"strings"

	"go.opentelemetry.io/otel/trace"
)

// Options say where the store is, how large it may grow and who may read it.
type Options struct {
	// RedisURL says where Redis is. Empty: the store is in memory. The forms are
	// those of go-redis, with rediss for TLS:
	//
	//	redis://user:password@host:6379/0                            one node
	//	redis://user:password@host:26379/0?master_name=NAME&addr=host2:26379
	//	                                                             Sentinels; also redis+sentinel://
	//	redis+cluster://user:password@host:6379?addr=host2:6379      nodes of a Cluster, one is enough
	//
	// User and password are those of Redis; sentinels have the parameters
	// sentinel_username and sentinel_password. go-redis' parameters for pools
	// (pool_size, min_idle_conns …) and skip_verify work; times are fixed.
	RedisURL string
	// TLS holds roots and client certificates for rediss. Nil: those of the system.
	TLS *tls.Config
	// Credentials, if set, are asked for each new connection, in place of those in
	// RedisURL, so that passwords can change without a restart.
	Credentials func(context.Context) (user, password string, err error)
	// KeyPrefix begins each key and channel in Redis. Empty: "mcpvia:".
	KeyPrefix string

	// EncryptionKeys are AES-256 keys, 32 bytes in base64. The first encrypts what
	// goes to Redis, all can decrypt. None: values are not encrypted.
	EncryptionKeys []string

	// MaxEntries and MaxBytes bound the store in memory. Zero: 100,000 keys, 256 MiB.
	MaxEntries int
	MaxBytes   int64

	// Observe, if set, is told of each operation, with its context, and of each value
	// that could not be read. It must be quick and safe for concurrent use.
	Observe func(context.Context, Event)
	// Traces, if set, makes a span of each operation on Redis that happens inside one.
	Traces trace.TracerProvider
}

// Open gives the store that o describes. It fails only for options that can never
// work: Redis may come up later. No error holds a password or a key.
func Open(o Options) (Store, error) {
	if o.RedisURL == "" {
		o.Traces = nil // what takes microseconds says nothing in a trace
		return observed(NewMemory(orDefault(o.MaxEntries, 100_000), orDefault(o.MaxBytes, 256<<20)), o), nil
	}
	o.KeyPrefix = orDefault(o.KeyPrefix, "mcpvia:")
	if strings.ContainsAny(o.KeyPrefix, "{}") {
		return nil, fmt.Errorf("%w: the key prefix %q has braces, which Redis Cluster gives a meaning", ErrInvalid, o.KeyPrefix)
	}
	codec, err := NewCodec(o.EncryptionKeys)
	if err != nil {
		return nil, err
	}
	if o.Observe != nil {
		codec.Corrupt = func(err error) { o.Observe(context.Background(), Event{Op: "decode", Err: err}) }
	}
	r, err := newRedis(o)
	if err != nil {
		return nil, err
	}
	return observed(Sealed(r, codec), o), nil
}

func orDefault[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}
