package sessions

import (
	"context"
	"errors"
	"time"
)

// Event is one finished operation of a store, for metrics and logs.
type Event struct {
	Op       string // the method's name in lower case, or "decode" for a value that could not be read
	Duration time.Duration
	Err      error
	Found    int // records that Load found
	Missing  int // records that Load did not find
}

// Outcome is one word for what became of the operation: ok, cancelled (the
// caller's context ended), unavailable, too_large, invalid or corrupt.
func (e Event) Outcome() string {
	switch {
	case e.Err == nil:
		return "ok"
	case errors.Is(e.Err, ErrUnavailable):
		return "unavailable"
	case errors.Is(e.Err, ErrTooLarge):
		return "too_large"
	case errors.Is(e.Err, ErrInvalid):
		return "invalid"
	case errors.Is(e.Err, ErrCorrupt):
		return "corrupt"
	}
	return "cancelled"
}

// observer tells of each operation of a store. Watch and Close pass through.
type observer struct {
	Store
	tell func(Event)
}

func observed(s Store, tell func(Event)) Store {
	if tell == nil {
		return s
	}
	return &observer{s, tell}
}

// done is deferred with the time of the call and a pointer to its error.
func (o *observer) done(op string, start time.Time, err *error) {
	o.tell(Event{Op: op, Duration: time.Since(start), Err: *err})
}

func (o *observer) Load(ctx context.Context, s Scope, ttl time.Duration, keys ...string) ([]Fields, error) {
	start := time.Now()
	found, err := o.Store.Load(ctx, s, ttl, keys...)
	e := Event{Op: "load", Duration: time.Since(start), Err: err}
	for _, f := range found {
		if f == nil {
			e.Missing++
		} else {
			e.Found++
		}
	}
	o.tell(e)
	return found, err
}

func (o *observer) Put(ctx context.Context, s Scope, key string, f Fields, ttl time.Duration) (err error) {
	defer o.done("put", time.Now(), &err)
	return o.Store.Put(ctx, s, key, f, ttl)
}

func (o *observer) Settle(ctx context.Context, s Scope, key, field string, value []byte, ttl time.Duration) (actual []byte, err error) {
	defer o.done("settle", time.Now(), &err)
	return o.Store.Settle(ctx, s, key, field, value, ttl)
}

func (o *observer) Update(ctx context.Context, s Scope, key string, f Fields, ttl time.Duration) (ok bool, err error) {
	defer o.done("update", time.Now(), &err)
	return o.Store.Update(ctx, s, key, f, ttl)
}

func (o *observer) Delete(ctx context.Context, s Scope, keys ...string) (err error) {
	defer o.done("delete", time.Now(), &err)
	return o.Store.Delete(ctx, s, keys...)
}

func (o *observer) Acquire(ctx context.Context, s Scope, name, owner string, ttl time.Duration) (ok bool, err error) {
	defer o.done("acquire", time.Now(), &err)
	return o.Store.Acquire(ctx, s, name, owner, ttl)
}

func (o *observer) Renew(ctx context.Context, s Scope, name, owner string, ttl time.Duration) (ok bool, err error) {
	defer o.done("renew", time.Now(), &err)
	return o.Store.Renew(ctx, s, name, owner, ttl)
}

func (o *observer) Release(ctx context.Context, s Scope, name, owner string) (err error) {
	defer o.done("release", time.Now(), &err)
	return o.Store.Release(ctx, s, name, owner)
}

func (o *observer) Add(ctx context.Context, s Scope, bag, member string, ttl time.Duration) (err error) {
	defer o.done("add", time.Now(), &err)
	return o.Store.Add(ctx, s, bag, member, ttl)
}

func (o *observer) Members(ctx context.Context, s Scope, bag string) (members []string, err error) {
	defer o.done("members", time.Now(), &err)
	return o.Store.Members(ctx, s, bag)
}

func (o *observer) Remove(ctx context.Context, s Scope, bag, member string) (ok bool, err error) {
	defer o.done("remove", time.Now(), &err)
	return o.Store.Remove(ctx, s, bag, member)
}

func (o *observer) Count(ctx context.Context, client string) (n int, err error) {
	defer o.done("count", time.Now(), &err)
	return o.Store.Count(ctx, client)
}

func (o *observer) Erase(ctx context.Context, client string) (n int, err error) {
	defer o.done("erase", time.Now(), &err)
	return o.Store.Erase(ctx, client)
}

func (o *observer) Ping(ctx context.Context) (err error) {
	defer o.done("ping", time.Now(), &err)
	return o.Store.Ping(ctx)
}
