package sessions

import (
	"context"
	"fmt"
	"time"
)

// Sealed is a store whose values are kept encoded by c in s. A record of which
// any value cannot be read is a missing one to Load, as half of it would be worse
// than nothing; Settle gives [ErrCorrupt]. Names of keys, fields, leases and
// members are not encoded.
func Sealed(s Store, c *Codec) Store { return &sealed{s, c} }

type sealed struct {
	Store
	codec *Codec
}

func (e *sealed) seal(s Scope, key string, f Fields) (Fields, error) {
	out := make(Fields, len(f))
	for name, value := range f {
		v, err := e.codec.Seal(Place{s, key, name}, value)
		if err != nil {
			return nil, fmt.Errorf("field %q of record %q: %w", name, key, err)
		}
		out[name] = v
	}
	return out, nil
}

func (e *sealed) open(s Scope, key string, f Fields) (Fields, error) {
	for name, value := range f {
		v, err := e.codec.Open(Place{s, key, name}, value)
		if err != nil {
			err = fmt.Errorf("field %q of record %q: %w", name, key, err)
			if e.codec.Corrupt != nil {
				e.codec.Corrupt(err)
			}
			return nil, err
		}
		f[name] = v
	}
	return f, nil
}

func (e *sealed) Load(ctx context.Context, s Scope, ttl time.Duration, keys ...string) ([]Fields, error) {
	found, err := e.Store.Load(ctx, s, ttl, keys...)
	return e.opened(s, keys, found), err
}

func (e *sealed) LoadWith(ctx context.Context, s Scope, ttl time.Duration, bag string, keys ...string) ([]Fields, []string, error) {
	found, members, err := e.Store.LoadWith(ctx, s, ttl, bag, keys...)
	return e.opened(s, keys, found), members, err
}

func (e *sealed) opened(s Scope, keys []string, found []Fields) []Fields {
	for i, f := range found {
		if f != nil {
			found[i], _ = e.open(s, keys[i], f) // nil if it cannot be read, and reported
		}
	}
	return found
}

func (e *sealed) Put(ctx context.Context, s Scope, key string, f Fields, ttl time.Duration) error {
	f, err := e.seal(s, key, f)
	if err != nil {
		return err
	}
	return e.Store.Put(ctx, s, key, f, ttl)
}

func (e *sealed) Update(ctx context.Context, s Scope, key string, f Fields, ttl time.Duration) (bool, error) {
	f, err := e.seal(s, key, f)
	if err != nil {
		return false, err
	}
	return e.Store.Update(ctx, s, key, f, ttl)
}

func (e *sealed) Settle(ctx context.Context, s Scope, key, field string, value []byte, ttl time.Duration) ([]byte, error) {
	mine, err := e.seal(s, key, Fields{field: value})
	if err != nil {
		return nil, err
	}
	actual, err := e.Store.Settle(ctx, s, key, field, mine[field], ttl)
	if err != nil {
		return nil, err
	}
	f, err := e.open(s, key, Fields{field: actual})
	return f[field], err
}
