package main

import (
	"fmt"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-via-llm/mcp-via-llm/config"
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
		if got := s.counts(map[string]config.Client{"a": {}, "new": {}}); !maps.Equal(got, map[string]int{"a": 2}) {
			t.Errorf("left out of the last requests: %v", got) // not of b, which is not configured any more
		}
		for i := range 3 * saidMax {
			s.isNews("a", []string{fmt.Sprint(i)})
		}
		if len(s.said) > saidMax {
			t.Errorf("%d are remembered", len(s.said))
		}
	})
}
