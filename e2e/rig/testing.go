package rig

import (
	"context"
	"io"
	"net/http"
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

// Get gives what is at a URL, as it is on the wire; anything but a 200 fails the test. It works in clean-ups, too.
func Get(t testing.TB, url string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), startTime)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Accept-Encoding", "identity")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("GET %s: status %d, %v", url, response.StatusCode, err)
	}
	return string(data)
}
