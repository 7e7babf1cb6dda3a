package rig

import (
	"strings"
	"testing"
	"time"
)

func TestStopEndsTheGroup(t *testing.T) {
	for name, c := range map[string]struct{ script, want string }{
		"obeys":             {`echo up; exec sleep 60`, ""},
		"ignores SIGTERM":   {`trap "" TERM; echo up; while :; do sleep 0.1; done`, "did not end"},
		"leaves a process":  {`sleep 60 >/dev/null 2>&1 & echo up; trap "exit 0" TERM; wait`, "left a process"},
		"has ended already": {`echo up`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := StartProcess("child", nil, "sh", "-c", c.script)
			if err != nil {
				t.Fatal(err)
			}
			for deadline := time.Now().Add(10 * time.Second); !strings.Contains(p.Log(), "up"); time.Sleep(time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatal("the child printed nothing")
				}
			}
			err = p.Stop(500 * time.Millisecond)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q in it", err, c.want)
			}
			if left := Orphans(); len(left) != 0 {
				t.Errorf("left: %q", left)
			}
		})
	}
}
