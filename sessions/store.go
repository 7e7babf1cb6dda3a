// Package sessions keeps what a client never sees and a later turn needs: hidden
// history, pending mixed executions and turn journals. It knows keys, named byte
// values and times to live; what they mean is the caller's.
//
// [Open] gives a [Store] in memory or in Redis. Both, and whatever else
// implements the interface, pass the one suite of package storetest.
package sessions

import (
	"context"
	"errors"
	"time"
)

var (
	// ErrUnavailable says that the store cannot be used now: unreachable, too
	// slow, refusing the credentials or closed. Whether the operation took
	// effect is unknown.
	ErrUnavailable = errors.New("session store is unavailable")
	// ErrTooLarge says that a value is larger than the store takes. Nothing was
	// changed.
	ErrTooLarge = errors.New("value is too large for the session store")
	// ErrInvalid says that an argument can never work, such as a time to live
	// that is not positive. Nothing was changed.
	ErrInvalid = errors.New("invalid argument")
)

// Fields is a small set of named values under one key.
type Fields map[string][]byte

// Scope is what a key belongs to. Two scopes never share a key, even if only the
// Client differs. In Redis, all keys of one scope are in one hash slot.
type Scope struct {
	Client string // whom the operator counts and erases by
	ID     string // the unit that is never mixed with another, such as one user of the client; opaque
}

// Store is shared by all turns and, with Redis, by all replicas. Its methods are
// safe for concurrent use. Values are copied on the way in and out.
//
// Each key has a time to live from its birth; an expired key is a missing one,
// and a missing key is never an error. Records, bags and leases are apart: the
// same name may be used for one of each. A full store may lose records and bags
// early, those not used for the longest time first; it never loses a part of one.
//
// An ended ctx gives its error; all other errors wrap [ErrUnavailable],
// [ErrTooLarge], [ErrInvalid] or [ErrCorrupt]. After any error but ErrTooLarge
// and ErrInvalid a write may or may not have taken effect, at once or up to two
// seconds later; repeating it is harmless for all operations but Remove.
type Store interface {
	// Load reads records in one round trip: one element for each of keys, in their
	// order, nil for a missing one. If ttl is positive, the time to live of each
	// record found is set anew (slides), else it stays.
	Load(ctx context.Context, s Scope, ttl time.Duration, keys ...string) ([]Fields, error)

	// Put sets the given fields of a record, at once or not at all, and its time
	// to live. Its other fields stay. At least one field must be given.
	Put(ctx context.Context, s Scope, key string, f Fields, ttl time.Duration) error

	// Settle sets one field only if the record does not have it yet, and gives the
	// value that is there afterwards: the first writer wins. The record is made
	// if it is missing. Its time to live is set in either case.
	Settle(ctx context.Context, s Scope, key, field string, value []byte, ttl time.Duration) (actual []byte, err error)

	// Update is Put for a record that must exist: it never brings a deleted or
	// expired one back, and says false if there is none.
	Update(ctx context.Context, s Scope, key string, f Fields, ttl time.Duration) (bool, error)

	// Delete removes records. Missing ones are no error.
	Delete(ctx context.Context, s Scope, keys ...string) error

	// Watch gives a channel that holds a token after the record was changed by
	// Put, Settle, Update, Delete or Erase, on any replica. Tokens may be lost
	// (never all of them for long while the store works), merged or spurious, so
	// the caller looks for itself at each token and at intervals. Watch never
	// blocks. The channel is not closed; stop must be called, once or more often.
	Watch(s Scope, key string) (changed <-chan struct{}, stop func())

	// Acquire takes a lease if nobody has it, and says whether owner has it now.
	// It ends by itself when ttl is over on the store's clock. For the present
	// owner it is Renew.
	Acquire(ctx context.Context, s Scope, name, owner string, ttl time.Duration) (bool, error)
	// Renew gives owner's lease a new ttl. False: owner does not have it any more.
	Renew(ctx context.Context, s Scope, name, owner string, ttl time.Duration) (bool, error)
	// Release ends owner's lease; one that somebody else has stays.
	Release(ctx context.Context, s Scope, name, owner string) error

	// Add puts a member into a bag and sets the time to live of the whole bag.
	// A member is in a bag once, however often it was added.
	Add(ctx context.Context, s Scope, bag, member string, ttl time.Duration) error
	// Members lists a bag in no order.
	Members(ctx context.Context, s Scope, bag string) ([]string, error)
	// LoadWith is Load and Members, in one round trip.
	LoadWith(ctx context.Context, s Scope, ttl time.Duration, bag string, keys ...string) ([]Fields, []string, error)
	// Remove takes a member out of a bag. Of all callers exactly one gets true.
	// An error leaves open whether the member is still there; it is never tried
	// twice behind the caller's back, so false means that another caller has it,
	// or that it was never there.
	Remove(ctx context.Context, s Scope, bag, member string) (bool, error)

	// Count gives the number of live keys (records, bags, leases) of a client. It
	// is exact while nothing changes.
	Count(ctx context.Context, client string) (int, error)
	// Erase removes all keys of a client and gives their number. Running calls
	// find their record gone: Update and Renew say false. What is written while
	// Erase runs may stay.
	Erase(ctx context.Context, client string) (int, error)

	// Ping says whether the store works for its user. Until it was found working
	// once, every right that the other operations need is tried, and the error
	// names the one refused.
	Ping(ctx context.Context) error
	// Close frees what the store holds and ends its goroutines. Operations after
	// it fail with ErrUnavailable.
	Close() error
}
