package mcp

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"
)

// A server that hangs at its start delays only turns of the first seconds, and
// `Settle` waits for the whole attempt.
func TestPatience(t *testing.T) {
	for name, row := range map[string]struct{ timeout, turn, settle time.Duration }{
		"slow":  {10 * time.Second, 3 * time.Second, 7 * time.Second},
		"short": {time.Second, time.Second, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			h := &Host{opts: Options{Log: slog.New(slog.DiscardHandler), Patience: patience}, ctx: t.Context()}
			cfg := Server{Name: "a", ConnectTimeout: row.timeout}
			h.servers = map[string]*server{"a": {cfg: &cfg, plain: newConn(h, &server{cfg: &cfg}, caller{})}}
			for _, want := range []time.Duration{row.turn, 0} {
				begin := time.Now()
				if got := h.Toolset(context.Background(), Query{Servers: []string{"a"}}).Unavailable(); len(got) != 1 || time.Since(begin) != want {
					t.Errorf("%s: unavailable %q after %v, want %v", name, got, time.Since(begin), want)
				}
			}
			begin := time.Now()
			if h.Settle(context.Background()); time.Since(begin) != row.settle {
				t.Errorf("%s: settled after %v, want %v", name, time.Since(begin), row.settle)
			}
		})
	}
}

func TestBackoff(t *testing.T) {
	var b backoff
	for i, want := range []time.Duration{0, backoffFirst, 2 * backoffFirst, 4 * backoffFirst, 8 * backoffFirst, 16 * backoffFirst, backoffLimit, backoffLimit} {
		want = min(want, backoffLimit)
		if got := b.next(false); got > want || got < want/2 {
			t.Errorf("pause %d is %v, want %v at most and half of it at least", i, got, want)
		}
	}
	b.lived(settled - 1)
	if got := b.next(false); got < backoffLimit/2 {
		t.Errorf("a session that died at once ended the series: %v", got)
	}
	b.lived(settled)
	if got := b.next(false); got != 0 {
		t.Errorf("%v after a good session", got)
	}
	if got := b.next(true); got < backoffRefused/2 {
		t.Errorf("%v after a refusal", got)
	}
	for range 1000 { // no overflow
		if got := b.next(false); got < 0 || got > backoffLimit {
			t.Fatal(got)
		}
	}
}
