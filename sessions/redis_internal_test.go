package sessions

import (
	"testing"
	"time"

	"github.com/mcp-via-llm/mcp-via-llm/sessions/redisrig"
)

// Clocks that differ by an hour, either way, cost one more round trip, once.
func TestClocksThatDiffer(t *testing.T) {
	r, err := newRedis(Options{RedisURL: redisrig.Start(t).URL, KeyPrefix: "p:"})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	all := r.node("")
	for _, hours := range []int64{-1, 1} {
		all.ahead.Store(hours * time.Hour.Milliseconds())
		if err := r.Put(t.Context(), Scope{}, "k", Fields{"f": nil}, time.Hour); err != nil {
			t.Errorf("%d hours: %v", hours, err)
		}
	}
	all.ahead.Store(-time.Hour.Milliseconds())
	if _, err := r.Remove(t.Context(), Scope{}, "k", "m"); err != nil {
		t.Error(err)
	}
	if ahead := all.ahead.Load(); ahead < -1000 || ahead > 1000 {
		t.Errorf("learnt that the clock is %d ms ahead", ahead)
	}
}

func TestUnready(t *testing.T) {
	for text, want := range map[string]bool{
		"READONLY You can't write against a read only replica. script: ab, on @user_script:1.":                                             true,
		"ERR Error running script (call to f_ab): @user_script:1: @user_script: 1: -READONLY You can't write against a read only replica.": true,
		"LOADING Redis is loading the dataset in memory":                                                                                   true,
		"CLUSTERDOWN Hash slot not served":                                                                                                 true,
		"NOPERM this user has no permissions to run the 'eval' command":                                                                    false,
		"OOM command not allowed when used memory > 'maxmemory'.":                                                                          false,
		"MOVED 1 127.0.0.1:1": false,
	} {
		if got := unready(text); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}
