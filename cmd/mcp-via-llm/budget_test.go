package main

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// What has no room is said once while it stays the same, and again after a while.
func TestShortageIsSaidOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s shortage
		for _, row := range []struct {
			client string
			names  []string
			after  time.Duration
			want   bool
		}{
			{"a", nil, 0, false},
			{"a", []string{"x", "y"}, 0, true},
			{"a", []string{"x", "y"}, saidFor / 2, false},
			{"b", []string{"x", "y"}, 0, true},
			{"a", []string{"x"}, 0, true},
			{"a", []string{"x", "y"}, saidFor, true},
		} {
			time.Sleep(row.after)
			if got := s.isNews(row.client, row.names); got != row.want {
				t.Errorf("%+v: %v", row, got)
			}
		}
		for i := range 3 * saidMax {
			s.isNews("a", []string{fmt.Sprint(i)})
		}
		if len(s.said) > saidMax {
			t.Errorf("%d are remembered", len(s.said))
		}
	})
}
