package mcp

import (
	"math/rand/v2"
	"time"
)

const (
	// A session that lived this long ends a series of failures.
	settled = 10 * time.Second

	backoffFirst = 500 * time.Millisecond
	backoffLimit = 10 * time.Second
	// backoffRefused applies when the server refuses the credential: asking more
	// often helps nobody and may lock an account.
	backoffRefused = time.Minute
)

// backoff spaces attempts to connect: the first repetition goes out at once,
// the next after half a second, doubling up to a limit, all with jitter.
type backoff struct{ failures int }

func (b *backoff) next(refused bool) time.Duration {
	b.failures++
	d := backoffFirst
	switch {
	case refused:
		d = backoffRefused
	case b.failures == 1:
		return 0
	default:
		for i := 2; i < b.failures && d < backoffLimit; i++ {
			d *= 2
		}
		d = min(d, backoffLimit)
	}
	return d/2 + rand.N(d/2)
}

// lived tells how long a session lasted.
func (b *backoff) lived(d time.Duration) {
	if d >= settled {
		b.failures = 0
	}
}
