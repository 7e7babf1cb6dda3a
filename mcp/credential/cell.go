package credential

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// flightTimeout bounds all requests for one token, discovery included.
	flightTimeout = 30 * time.Second
	// holdFirst and holdLimit bound how long a failure to get a token stands,
	// before another is asked for: many requests wait for one token, and must not
	// all ask.
	holdFirst = time.Second
	holdLimit = 30 * time.Second
)

// token is an access token.
type token struct {
	value   string
	renew   time.Time // from here on a newer one is asked for; zero: never
	expires time.Time // from here on it is not used; zero: unknown
	scopes  []string  // asked for or granted
	fixed   bool      // the operator has chosen the scopes
}

// newToken plans the renewal at 70 to 90 % of the lifetime, so that replicas that
// start together do not ask together, and a short failure of the authorization
// server is not felt.
func newToken(value string, expires time.Time) *token {
	t := &token{value: value}
	if !expires.IsZero() {
		life := time.Until(expires)
		t.renew = expires.Add(-time.Duration(float64(life) * (0.1 + 0.2*rand.Float64())))
		t.expires = expires.Add(-min(10*time.Second, life/10)) // it has to get there, too
	}
	return t
}

func (t *token) usable(now time.Time) bool {
	return t != nil && (t.expires.IsZero() || now.Before(t.expires))
}

func (t *token) aging(now time.Time) bool { return !t.renew.IsZero() && now.After(t.renew) }

// grant asks for tokens. Its fetch is never called twice at once.
type grant interface {
	// ready reports whether it can ask before the server has said where.
	ready() bool
	fetch(ctx context.Context, c challenge) (*token, error)
}

// cell is a signer that keeps one token fresh.
type cell struct {
	source *Source
	grant  grant

	mu     sync.Mutex
	tok    *token
	flight *flight
	asked  challenge // that the next flight answers
	fails  int       // in a row
	hold   time.Time // no flight before
	err    error     // of the last flight
	told   string    // the scopes that were logged as missing
}

// flight is one request for a token, with those who wait for it.
type flight struct {
	done  chan struct{}
	value string
	err   error
}

func newCell(s *Source, g grant) *cell { return &cell{source: s, grant: g} }

var errEnding = &Error{Text: "the service ends"}

// token gives the present token, and asks for one if there is none, or early if
// it grows old.
func (c *cell) token(ctx context.Context) (string, error) {
	c.mu.Lock()
	now := time.Now()
	if c.tok.usable(now) {
		defer c.mu.Unlock()
		if c.tok.aging(now) && c.flight == nil && now.After(c.hold) {
			c.launch()
		}
		return c.tok.value, nil
	}
	if !c.grant.ready() && c.flight == nil && !now.Before(c.hold) {
		c.mu.Unlock()
		return "", nil // the server says where, if it wants a token at all
	}
	return c.wait(ctx, now)
}

// wait joins the flight, or launches one. c.mu is held, and is free after it.
func (c *cell) wait(ctx context.Context, now time.Time) (string, error) {
	if c.flight == nil {
		err := c.err
		if !now.Before(c.hold) {
			err = c.launch()
		}
		if err != nil {
			c.mu.Unlock()
			return "", err
		}
	}
	f := c.flight
	c.mu.Unlock()
	select {
	case <-f.done:
		return f.value, f.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// launch starts a flight that outlives the request that needs it: others wait
// for it too. c.mu is held.
func (c *cell) launch() error {
	f := &flight{done: make(chan struct{})}
	asked := c.asked
	if c.source.Context.Err() != nil || !c.source.Go(func() { c.fly(f, asked) }) {
		return errEnding
	}
	c.flight = f
	return nil
}

func (c *cell) fly(f *flight, asked challenge) {
	ctx, cancel := context.WithTimeout(c.source.Context, flightTimeout)
	defer cancel()
	fresh, err := c.grant.fetch(ctx, asked)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err = err; err == nil {
		c.tok, c.asked, c.fails, c.hold = fresh, challenge{}, 0, time.Time{}
		f.value = fresh.value
	} else {
		f.err = err
		c.failed(err)
	}
	c.flight = nil
	close(f.done)
}

// failed plans the next attempt, and tells the operator once in a series.
func (c *cell) failed(err error) {
	wait := holdLimit
	if c.fails < 5 {
		wait = holdFirst << c.fails
	}
	var known *Error
	if errors.As(err, &known) && known.Refused {
		wait = holdLimit
	}
	c.fails++
	c.hold = time.Now().Add(wait/2 + rand.N(wait/2))
	level := slog.LevelDebug
	if c.fails == 1 && c.source.Context.Err() == nil {
		level = slog.LevelWarn
	}
	c.source.Log.Log(c.source.Context, level, "no access token", "error", err)
}

// renew gives another token than used, which the server did not accept.
func (c *cell) renew(ctx context.Context, used string, ch challenge) (string, error) {
	c.mu.Lock()
	now := time.Now()
	switch {
	case c.tok.usable(now) && c.tok.value != used: // somebody was faster
		defer c.mu.Unlock()
		return c.tok.value, nil
	case ch.status == http.StatusForbidden && used != "" && !c.widens(ch):
		c.mu.Unlock()
		return "", nil
	}
	c.tok = nil
	if c.flight == nil {
		c.asked = ch
	}
	value, err := c.wait(ctx, now)
	if value == used {
		value = ""
	}
	return value, err
}

// widens reports whether a token with more scopes may help (RFC 6750, section 3.1;
// MCP 2025-11-25, "Scope Challenge Handling"). Scopes that the operator has chosen
// are all that is ever asked for.
func (c *cell) widens(ch challenge) bool {
	if ch.code != "insufficient_scope" || c.tok == nil {
		return false
	}
	missing := slices.DeleteFunc(slices.Clone(ch.scopes), func(s string) bool { return slices.Contains(c.tok.scopes, s) })
	if len(missing) > 0 && !c.tok.fixed && len(c.tok.scopes)+len(missing) <= maxScopes {
		return true
	}
	if told := "scopes: " + strings.Join(missing, " "); c.told != told {
		c.told = told
		c.source.Log.Warn("the server wants scopes that the token does not have", "wanted", ch.scopes, "missing", missing)
	}
	return false
}
