package config

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// watched runs a Watcher on path in a bubble of fake time.
type watched struct {
	changed chan *Config
	refused chan error
}

func watch(t *testing.T, path string) *watched {
	t.Helper()
	current, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	got := &watched{changed: make(chan *Config, 8), refused: make(chan error, 8)}
	w := &Watcher{
		Path:    path,
		Changed: func(c *Config) { got.changed <- c },
		Refused: func(err error) { got.refused <- err },
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { w.Run(ctx, current); close(done) }()
	t.Cleanup(func() { cancel(); <-done })
	return got
}

// pass lets the two seconds go by in which a change must be in force, and never
// ends at the moment of a look.
func pass() {
	time.Sleep(1990 * time.Millisecond)
	synctest.Wait()
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestWatchReloadsWithinTwoSeconds(t *testing.T) {
	path := write(t, "drain_timeout: 1s\n")
	synctest.Test(t, func(t *testing.T) {
		got := watch(t, path)
		pass()
		if len(got.changed) != 0 {
			t.Fatal("a change without a change")
		}
		put(t, path, "drain_timeout: 2s\n")
		pass()
		if len(got.changed) != 1 || (<-got.changed).DrainTimeout != 2*time.Second {
			t.Fatalf("%+v", got)
		}
		put(t, path, "drain_timeout: 2\n")
		pass()
		pass()
		if len(got.changed) != 0 || len(got.refused) != 1 || !strings.Contains((<-got.refused).Error(), "drain_timeout") {
			t.Fatalf("an invalid file: %+v", got)
		}
		put(t, path, "drain_timeout: 2s\n")
		pass()
		if len(got.changed) != 0 || len(got.refused) != 0 {
			t.Fatalf("back to what is in force: %+v", got)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		pass()
		if len(got.changed) != 0 || len(got.refused) != 1 {
			t.Fatalf("file gone: %+v", got)
		}
	})
}

func TestWatchWaitsForAFileToSettle(t *testing.T) {
	path := write(t, "drain_timeout: 1s\n")
	synctest.Test(t, func(t *testing.T) {
		got := watch(t, path)
		time.Sleep(400 * time.Millisecond)
		for _, part := range []string{"drain_timeout: 1", "drain_timeout: 10", "drain_timeout: 10s", "drain_timeout: 10s\n"} {
			put(t, path, part)
			time.Sleep(500 * time.Millisecond)
		}
		pass()
		if len(got.refused) != 0 || len(got.changed) != 1 || (<-got.changed).DrainTimeout != 10*time.Second {
			t.Errorf("%+v", got)
		}
	})
}

func TestWatchFollowsExpandedFiles(t *testing.T) {
	path := write(t, "servers: {a: {url: 'http://h', headers: {x: '${file:token}'}}}\n")
	token := filepath.Join(filepath.Dir(path), "token")
	put(t, token, "one")
	synctest.Test(t, func(t *testing.T) {
		got := watch(t, path)
		put(t, token, "two")
		pass()
		if len(got.changed) != 1 || (<-got.changed).Servers["a"].Headers["x"] != "two" {
			t.Errorf("%+v", got)
		}
	})
}

// A ConfigMap mount is a link to a link to a folder, and the middle one is swapped.
func TestWatchFollowsLinkSwaps(t *testing.T) {
	dir := t.TempDir()
	for version, text := range map[string]string{"v1": "drain_timeout: 1s\n", "v2": "drain_timeout: 2s\n"} {
		if err := os.Mkdir(filepath.Join(dir, version), 0o700); err != nil {
			t.Fatal(err)
		}
		put(t, filepath.Join(dir, version, "config.yaml"), text)
	}
	path := filepath.Join(dir, "config.yaml")
	for link, target := range map[string]string{"..data": "v1", "config.yaml": "..data/config.yaml"} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		got := watch(t, path)
		next := filepath.Join(dir, "..data_tmp")
		if err := os.Symlink("v2", next); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(next, filepath.Join(dir, "..data")); err != nil {
			t.Fatal(err)
		}
		pass()
		if len(got.changed) != 1 || (<-got.changed).DrainTimeout != 2*time.Second {
			t.Errorf("%+v", got)
		}
	})
}
