package sessions

import (
	"context"
	"fmt"
	"strings"
)

// page is how many scopes or keys one step of Count or Erase takes on, so that
// no step holds up Redis.
const page = 100

func listing(index string, skip int) call {
	return call{op: "list", keys: []string{index}, args: []any{skip, page}}
}

// Count implements [Store].
func (r *Redis) Count(ctx context.Context, client string) (int, error) {
	total := 0
	for skip := 0; ; skip += page {
		scopes, err := r.strings(ctx, listing(r.clientIndex(client), skip))
		if err != nil || len(scopes) == 0 {
			return total, err
		}
		calls := make([]call, len(scopes))
		for i, scope := range scopes {
			calls[i] = call{op: "count", keys: []string{r.base(scope) + "i"}}
		}
		replies, err := r.run(ctx, calls...)
		if err != nil {
			return total, err
		}
		for _, n := range replies {
			total += int(n.(int64))
		}
	}
}

// Erase implements [Store].
func (r *Redis) Erase(ctx context.Context, client string) (int, error) {
	index, total := r.clientIndex(client), 0
	for {
		scopes, err := r.strings(ctx, listing(index, 0))
		if err != nil || len(scopes) == 0 {
			return total, err
		}
		for _, scope := range scopes {
			n, err := r.eraseScope(ctx, index, scope)
			total += n
			if err != nil {
				return total, err
			}
		}
	}
}

// eraseScope looks again after the client's index has forgotten the scope: what
// was written in between would be out of reach of the next Erase.
func (r *Redis) eraseScope(ctx context.Context, client, scope string) (int, error) {
	base, total := r.base(scope), 0
	for forgotten := false; ; {
		members, err := r.strings(ctx, listing(base+"i", 0))
		if err != nil || len(members) == 0 && forgotten {
			return total, err
		}
		c := deletion(base, members)
		if forgotten = len(members) == 0; forgotten {
			c = call{op: "forget", keys: []string{client}, args: []any{scope}}
		}
		replies, err := r.run(ctx, c)
		if err != nil {
			return total, err
		}
		if !forgotten {
			total += int(replies[0].(int64))
		}
	}
}

// Ping implements [Store].
func (r *Redis) Ping(ctx context.Context) error {
	key := r.base("ping") + "p"
	probe := call{op: "probe", keys: []string{key}}
	if r.checked.Load() {
		_, err := r.run(ctx, probe)
		return err
	}
	refused, err := r.strings(ctx, call{op: "check", keys: []string{key}, whole: true})
	if err != nil {
		return err
	}
	if len(refused) > 0 {
		return fmt.Errorf("%w: the user of Redis may not run %s with keys and channels %s*",
			ErrUnavailable, strings.Join(refused, ", "), r.prefix)
	}
	if _, err := r.run(ctx, probe); err != nil {
		return err
	}
	if err := r.channel.check(ctx, key); err != nil {
		return fmt.Errorf("%w: subscribe to %s: %v", ErrUnavailable, key, err)
	}
	r.checked.Store(true)
	return nil
}
