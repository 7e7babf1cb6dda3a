package rig

import (
	"context"
	"testing"
	"time"
)

// startTime is generous: node and python servers take ten times their usual start on busy cores.
const startTime = 2 * time.Minute

// ForTest is Start for a test, in a directory of its own: what goes wrong fails the test, all stops as it ends, and what the
// processes printed is shown if it has failed.
func ForTest(t testing.TB, o Options) *Rig {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTime)
	defer cancel()
	o.Dir = t.TempDir()
	r, err := Start(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Log(r.Logs())
		}
	})
	return r
}
