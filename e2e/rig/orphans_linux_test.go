package rig

import (
	"strings"
	"testing"
)

func TestOrphans(t *testing.T) {
	if err := AdoptOrphans(); err != nil {
		t.Fatal(err)
	}
	p, err := StartProcess("child", nil, "sh", "-c", `setsid sleep 61 >/dev/null 2>&1 & sleep 0.2`)
	if err != nil {
		t.Fatal(err)
	}
	<-p.Done()
	if left := Orphans(); len(left) != 1 || !strings.Contains(left[0], "sleep 61") {
		t.Errorf("found %q, want the sleep", left)
	}
	if left := Orphans(); len(left) != 0 {
		t.Errorf("still there: %q", left)
	}
}
