package sessions_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-via-llm/mcp-via-llm/sessions"
	"github.com/mcp-via-llm/mcp-via-llm/sessions/storetest"
	"pgregory.net/rapid"
)

const hour = time.Hour

var aScope = sessions.Scope{Client: "client", ID: "id"}

func put(t *testing.T, store sessions.Store, key string, size int) error {
	t.Helper()
	return store.Put(t.Context(), aScope, key, sessions.Fields{"f": make([]byte, size)}, hour)
}

func there(t *testing.T, store sessions.Store, key string) bool {
	t.Helper()
	found, err := store.Load(t.Context(), aScope, hour, key)
	if err != nil {
		t.Fatal(err)
	}
	return found[0] != nil
}

func TestMemoryForgetsTheLeastRecentlyUsed(t *testing.T) {
	store := sessions.NewMemory(3, 1<<20)
	defer store.Close()
	for _, key := range []string{"a", "b", "c"} {
		if err := put(t, store, key, 1); err != nil {
			t.Fatal(err)
		}
	}
	there(t, store, "a") // a use: b is the oldest now
	changed, stop := store.Watch(aScope, "b")
	defer stop()
	if err := store.Add(t.Context(), aScope, "bag", "m", hour); err != nil {
		t.Fatal(err)
	}
	if there(t, store, "b") || !there(t, store, "c") || !there(t, store, "a") {
		t.Error("not the least recently used has gone")
	}
	select {
	case <-changed:
	default:
		t.Error("who watched it was not told")
	}
	if n, err := store.Count(t.Context(), aScope.Client); n != 3 || err != nil {
		t.Errorf("%d keys, %v", n, err)
	}
}

func TestMemoryKeepsItsBytes(t *testing.T) {
	const limit = 64 << 10
	store := sessions.NewMemory(1000, limit)
	defer store.Close()
	for i := range 100 {
		if err := put(t, store, fmt.Sprint(i), 2000); err != nil {
			t.Fatal(err)
		}
		if _, size := store.Len(); size > limit {
			t.Fatalf("%d bytes of %d", size, limit)
		}
	}
	if there(t, store, "10") || !there(t, store, "99") {
		t.Error("the wrong ones have gone")
	}
	if err := put(t, store, "99", limit); !errors.Is(err, sessions.ErrTooLarge) {
		t.Errorf("a value as large as the store: %v", err)
	}
	if !there(t, store, "99") || !there(t, store, "98") {
		t.Error("a refused value has cost others")
	}
	// One that grows makes the others go, not itself.
	if err := put(t, store, "98", limit-2000); err != nil || !there(t, store, "98") || there(t, store, "99") {
		t.Errorf("grown: %v", err)
	}
	if _, err := store.Erase(t.Context(), aScope.Client); err != nil {
		t.Fatal(err)
	}
	if n, size := store.Len(); n != 0 || size != 0 {
		t.Errorf("an empty store has %d keys of %d bytes", n, size)
	}
}

func TestMemoryNeverEvictsLeases(t *testing.T) {
	store := sessions.NewMemory(2, 1<<20)
	defer store.Close()
	acquire := func(name string) error {
		ok, err := store.Acquire(t.Context(), aScope, name, "me", hour)
		if ok != (err == nil) {
			t.Errorf("%s: %v, %v", name, ok, err)
		}
		return err
	}
	if err := errors.Join(put(t, store, "k", 1), acquire("a"), acquire("b")); err != nil {
		t.Fatal(err)
	}
	if there(t, store, "k") {
		t.Error("the record has stayed")
	}
	if err := acquire("c"); !errors.Is(err, sessions.ErrUnavailable) {
		t.Errorf("a third lease: %v", err)
	}
	if err := put(t, store, "k", 1); !errors.Is(err, sessions.ErrUnavailable) {
		t.Errorf("a record: %v", err)
	}
	if err := store.Release(t.Context(), aScope, "a", "me"); err != nil {
		t.Fatal(err)
	}
	if err := put(t, store, "k", 1); err != nil {
		t.Error(err)
	}
}

func TestMemoryIsSweptEachMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := sessions.NewMemory(100, 1<<20)
		defer store.Close()
		if err := store.Put(t.Context(), aScope, "k", sessions.Fields{"f": nil}, 10*time.Second); err != nil {
			t.Fatal(err)
		}
		changed, stop := store.Watch(aScope, "k")
		defer stop()
		time.Sleep(59 * time.Second)
		if n, _ := store.Len(); n != 1 {
			t.Errorf("%d keys before the sweep", n)
		}
		if n, err := store.Count(t.Context(), aScope.Client); n != 0 || err != nil {
			t.Errorf("expired keys count: %d, %v", n, err)
		}
		<-changed
		if n, size := store.Len(); n != 0 || size != 0 {
			t.Errorf("%d keys of %d bytes after it", n, size)
		}
	})
}

func TestMemoryExpiresToTheInstant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := sessions.NewMemory(100, 1<<20)
		defer store.Close()
		if err := put(t, store, "k", 1); err != nil {
			t.Fatal(err)
		}
		time.Sleep(hour - 1)
		if !there(t, store, "k") { // slides by an hour
			t.Error("gone too early")
		}
		time.Sleep(hour)
		if there(t, store, "k") {
			t.Error("there too long")
		}
	})
}

func TestClosedMemory(t *testing.T) {
	store := sessions.NewMemory(100, 1<<20)
	for range 2 {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := put(t, store, "k", 1); !errors.Is(err, sessions.ErrUnavailable) {
		t.Errorf("%v", err)
	}
	if err := store.Ping(context.Background()); !errors.Is(err, sessions.ErrUnavailable) {
		t.Errorf("%v", err)
	}
}

// Memory against the model, with time going by.
func TestMemoryModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		steps := storetest.Steps(rt, true)
		synctest.Test(t, func(t *testing.T) {
			store := sessions.NewMemory(10_000, 1<<30)
			defer store.Close()
			storetest.Play(t, store, steps)
		})
		if t.Failed() {
			rt.FailNow()
		}
	})
}
