package mcp

import (
	"testing"
	"time"
)

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
