package credential

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// press is a grant whose tokens are t1, t2, …; each takes a second.
type press struct {
	life  time.Duration
	err   error // of the next fetches
	lazy  bool  // ready only after the first token
	asked []challenge
	made  atomic.Int32
}

func (p *press) ready() bool { return !p.lazy || p.made.Load() > 0 }

func (p *press) fetch(ctx context.Context, c challenge) (*token, error) {
	p.asked = append(p.asked, c)
	select {
	case <-time.After(time.Second):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if p.err != nil {
		return nil, p.err
	}
	n := p.made.Add(1)
	var expires time.Time
	if p.life > 0 {
		expires = time.Now().Add(p.life)
	}
	return newToken(fmt.Sprintf("t%d", n), expires), nil
}

func bubble(t *testing.T, p *press, test func(t *testing.T, c *cell, get func() string)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := newCell(source(t, "http://server.test", &Auth{OAuth: &OAuth{}}), p)
		test(t, c, func() string {
			got, err := c.token(t.Context())
			if err != nil {
				return err.Error()
			}
			return got
		})
	})
}

// A token is renewed before it expires, in the background, and not by every
// replica at once.
func TestEarlyRenewal(t *testing.T) {
	renewed := map[time.Duration]bool{}
	for range 20 {
		p := &press{life: 1000 * time.Second}
		bubble(t, p, func(t *testing.T, c *cell, get func() string) {
			if got := get(); got != "t1" {
				t.Fatal(got)
			}
			begin := time.Now()
			for p.made.Load() == 1 {
				asked := time.Now()
				if got := get(); got != "t1" || time.Since(asked) != 0 {
					t.Fatalf("%q after %v", got, time.Since(asked))
				}
				time.Sleep(time.Second)
				synctest.Wait()
			}
			after := time.Since(begin)
			renewed[after] = true
			if after < 690*time.Second || after > 910*time.Second {
				t.Errorf("renewed after %v", after)
			}
			if got := get(); got != "t2" {
				t.Error(got)
			}
		})
	}
	if len(renewed) < 5 {
		t.Errorf("no jitter: %v", renewed)
	}
}

// However many requests need a token, and whenever: one is asked for at a time,
// none is used after its end, and nobody waits while one is good.
func TestTokensAreSharedAndGood(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		life := time.Duration(rapid.IntRange(2, 4000).Draw(r, "life")) * time.Second
		pauses := rapid.SliceOfN(rapid.IntRange(0, 5000), 1, 30).Draw(r, "pauses")
		p := &press{life: life}
		synctest.Test(t, func(t *testing.T) {
			c := newCell(source(t, "http://server.test", &Auth{OAuth: &OAuth{}}), p)
			born := map[string]time.Time{}
			for _, pause := range pauses {
				time.Sleep(time.Duration(pause) * time.Second)
				synctest.Wait() // a renewal in the background may be over now
				before := p.made.Load()
				var group sync.WaitGroup
				for range 5 {
					group.Go(func() {
						got, err := c.token(t.Context())
						if n := p.made.Load(); err != nil || got != fmt.Sprintf("t%d", n) && got != fmt.Sprintf("t%d", n-1) {
							t.Errorf("%q, %v; made %d", got, err, n)
						}
					})
				}
				group.Wait()
				if n := p.made.Load(); n > before+1 {
					t.Errorf("%d tokens for five requests", n-before)
				}
				got, err := c.token(t.Context())
				if _, known := born[got]; !known {
					born[got] = time.Now()
				}
				if err != nil || time.Since(born[got]) >= life {
					t.Errorf("%q, %v, %v old, life %v", got, err, time.Since(born[got]), life)
				}
			}
		})
	})
}

// A failure is not asked about again by every request, the operator hears of it
// once, and a token that is still good is used meanwhile.
func TestFailuresAreHeld(t *testing.T) {
	p := &press{life: 100 * time.Second, err: errors.New("down")}
	bubble(t, p, func(t *testing.T, c *cell, get func() string) {
		begin := time.Now()
		for time.Since(begin) < time.Minute {
			if got := get(); got != "down" {
				t.Fatal(got)
			}
			time.Sleep(100 * time.Millisecond)
		}
		if n := len(p.asked); n < 4 || n > 12 {
			t.Errorf("asked %d times in a minute", n)
		}
		p.err = nil
		for get() == "down" {
			time.Sleep(100 * time.Millisecond)
		}
		if waited := time.Since(begin); waited > time.Minute+holdLimit+2*time.Second {
			t.Errorf("good again after %v", waited)
		}
		p.err = errors.New("down")
		begin = time.Now()
		for time.Since(begin) < 85*time.Second {
			if got := get(); got != "t1" {
				t.Fatalf("%q after %v", got, time.Since(begin))
			}
			time.Sleep(time.Second)
		}
		time.Sleep(20 * time.Second)
		if got := get(); got != "down" {
			t.Errorf("%q after its end", got)
		}
	})
}

// Who gives up waiting does not end the request for the others.
func TestWaitersAreIndependent(t *testing.T) {
	p := &press{}
	bubble(t, p, func(t *testing.T, c *cell, get func() string) {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if got, err := c.token(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%q, %v", got, err)
		}
		if got := get(); got != "t1" || len(p.asked) != 1 {
			t.Errorf("%q, asked %d times", got, len(p.asked))
		}
	})
}

// Many requests that are refused with one token renew it once.
func TestRenewalIsShared(t *testing.T) {
	p := &press{lazy: true}
	bubble(t, p, func(t *testing.T, c *cell, get func() string) {
		if got := get(); got != "" || len(p.asked) != 0 {
			t.Errorf("%q, asked %d times, before the server has asked", got, len(p.asked))
		}
		for round := 1; round <= 3; round++ {
			used := get()
			var group sync.WaitGroup
			for i := range 20 {
				group.Go(func() {
					time.Sleep(time.Duration(i) * 100 * time.Millisecond) // some come when it is over
					got, err := c.renew(t.Context(), used, challenge{status: http.StatusUnauthorized, metadata: "https://m"})
					if want := fmt.Sprintf("t%d", round); err != nil || got != want {
						t.Errorf("%q, %v; want %s", got, err, want)
					}
				})
			}
			group.Wait()
			if len(p.asked) != round || p.asked[round-1].metadata != "https://m" {
				t.Errorf("asked %+v", p.asked)
			}
		}
		p.made.Store(2) // the next token is the one that was refused
		if got, err := c.renew(t.Context(), "t3", challenge{status: http.StatusUnauthorized}); err != nil || got != "" {
			t.Errorf("%q, %v", got, err)
		}
	})
}

// A server may ask for more scopes, unless the operator has said which.
func TestWiden(t *testing.T) {
	for name, row := range map[string]struct {
		fixed bool
		ch    challenge
		want  bool
	}{
		"more":       {false, challenge{code: "insufficient_scope", scopes: []string{"read", "write"}}, true},
		"no more":    {false, challenge{code: "insufficient_scope", scopes: []string{"read"}}, false},
		"unnamed":    {false, challenge{code: "insufficient_scope"}, false},
		"fixed":      {true, challenge{code: "insufficient_scope", scopes: []string{"write"}}, false},
		"other code": {false, challenge{code: "invalid_token", scopes: []string{"write"}}, false},
		"too many":   {false, challenge{code: "insufficient_scope", scopes: strings.Fields(strings.Repeat("x ", maxScopes))}, false},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, &press{}, func(t *testing.T, c *cell, get func() string) {
				get()
				c.tok.scopes, c.tok.fixed = []string{"read"}, row.fixed
				row.ch.status = http.StatusForbidden
				got, err := c.renew(t.Context(), "t1", row.ch)
				if err != nil || (got == "t2") != row.want {
					t.Errorf("%q, %v", got, err)
				}
			})
		})
	}
}

// Nothing is begun when the service ends, and what runs ends with it.
func TestEnding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s := source(t, "http://server.test", &Auth{OAuth: &OAuth{}})
		s.Context = ctx
		c := newCell(s, &press{})
		time.AfterFunc(time.Millisecond, cancel)
		if _, err := c.token(t.Context()); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		time.Sleep(time.Hour)
		if _, err := c.token(t.Context()); !errors.Is(err, errEnding) {
			t.Error(err)
		}
	})
}
