package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/mcp-via-llm/mcp-via-llm/sessions"
)

// crowd runs n functions at once and waits for all.
func crowd(n int, do func(i int)) {
	var ready, done sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		ready.Add(1)
		done.Go(func() {
			ready.Done()
			<-start
			do(i)
		})
	}
	ready.Wait()
	close(start)
	done.Wait()
}

// whole: a reader never sees half of a Put.
func whole(t *testing.T, store sessions.Store) {
	s := scope()
	crowd(8, func(i int) {
		for n := range 25 {
			if i%2 == 0 {
				v := fmt.Append(nil, i, n)
				if err := store.Put(t.Context(), s, "k", sessions.Fields{"a": v, "b": v}, long); err != nil {
					t.Error(err)
				}
				continue
			}
			found, err := store.Load(t.Context(), s, long, "k")
			if err != nil || !bytes.Equal(found[0]["a"], found[0]["b"]) {
				t.Errorf("%q, %v", found, err)
			}
		}
	})
}

func settle(t *testing.T, store sessions.Store) {
	s := scope()
	got := make([]string, 50)
	crowd(len(got), func(i int) {
		v, err := store.Settle(t.Context(), s, "k", "f", fmt.Append(nil, i), long)
		if err != nil {
			t.Error(err)
		}
		got[i] = string(v)
	})
	kept, _ := load(t, store, s, "k", "f")
	for i, v := range got {
		if v != kept || kept == "" {
			t.Errorf("caller %d was given %q, kept is %q", i, v, kept)
		}
	}
	be(t, store.Put(t.Context(), s, "k", sessions.Fields{"f": []byte("put")}, long))
	v, err := store.Settle(t.Context(), s, "k", "f", []byte("late"), long)
	if err != nil || string(v) != "put" {
		t.Errorf("settled on %q, %v", v, err)
	}
	v, err = store.Settle(t.Context(), s, "k", "empty", nil, long)
	if err != nil || len(v) != 0 {
		t.Errorf("settled on %q, %v", v, err)
	}
	v, err = store.Settle(t.Context(), s, "k", "empty", []byte("late"), long)
	if err != nil || len(v) != 0 {
		t.Errorf("an empty value was settled anew: %q, %v", v, err)
	}
}

func update(t *testing.T, store sessions.Store) {
	s := scope()
	f := sessions.Fields{"r": []byte("result")}
	want(t, "update of a missing record", false)(store.Update(t.Context(), s, "k", f, long))
	be(t, store.Put(t.Context(), s, "k", sessions.Fields{"f": []byte("1")}, long))
	want(t, "update", true)(store.Update(t.Context(), s, "k", f, long))
	if v, _ := load(t, store, s, "k", "f"); v != "1" {
		t.Errorf("the other field is %q", v)
	}
	if v, _ := load(t, store, s, "k", "r"); v != "result" {
		t.Errorf("the field is %q", v)
	}
	be(t, store.Delete(t.Context(), s, "k"))
	want(t, "update of a deleted record", false)(store.Update(t.Context(), s, "k", f, long))
	want(t, "count", 0)(store.Count(t.Context(), s.Client))
}

// apart: no two scopes, kinds or names share anything, however alike they look.
func apart(t *testing.T, store sessions.Store) {
	c := scope().Client
	scopes := []sessions.Scope{
		{Client: c + "ab", ID: "c"}, {Client: c + "a", ID: "bc"}, {Client: c, ID: "abc"}, {Client: c + "abc", ID: ""},
		{Client: c, ID: "ab:c"}, {Client: c, ID: "ab"}, {Client: c + ":ab", ID: "c"},
	}
	for i, s := range scopes {
		v := fmt.Sprint(i)
		for _, key := range []string{"k", "r:k", "k:f"} {
			be(t, store.Put(t.Context(), s, key, sessions.Fields{"f": []byte(v + key)}, long))
		}
		be(t, store.Add(t.Context(), s, "k", v, long))
		want(t, "acquire", true)(store.Acquire(t.Context(), s, "k", v, long))
	}
	for i, s := range scopes {
		v := fmt.Sprint(i)
		for _, key := range []string{"k", "r:k", "k:f"} {
			if got, _ := load(t, store, s, key, "f"); got != v+key {
				t.Errorf("scope %q key %q: %q", s, key, got)
			}
		}
		members, err := store.Members(t.Context(), s, "k")
		if err != nil || len(members) != 1 || members[0] != v {
			t.Errorf("scope %q: members %q, %v", s, members, err)
		}
		want(t, "renew", true)(store.Renew(t.Context(), s, "k", v, long))
	}
	want(t, "erase", 15)(store.Erase(t.Context(), c))
	want(t, "count of another", 5)(store.Count(t.Context(), c+"a"))
}

func leases(t *testing.T, store sessions.Store) {
	s := scope()
	want(t, "renew of nobody's", false)(store.Renew(t.Context(), s, "l", "me", long))
	be(t, store.Release(t.Context(), s, "l", "me"))
	want(t, "acquire", true)(store.Acquire(t.Context(), s, "l", "me", long))
	want(t, "acquire again", true)(store.Acquire(t.Context(), s, "l", "me", long))
	want(t, "acquire another's", false)(store.Acquire(t.Context(), s, "l", "other", long))
	want(t, "renew another's", false)(store.Renew(t.Context(), s, "l", "other", long))
	want(t, "acquire another name", true)(store.Acquire(t.Context(), s, "m", "other", long))
	be(t, store.Release(t.Context(), s, "l", "other"))
	want(t, "renew", true)(store.Renew(t.Context(), s, "l", "me", long))
	be(t, store.Release(t.Context(), s, "l", "me"))
	want(t, "renew after release", false)(store.Renew(t.Context(), s, "l", "me", long))
	want(t, "acquire after release", true)(store.Acquire(t.Context(), s, "l", "other", long))
	want(t, "count", 2)(store.Count(t.Context(), s.Client))
}

func leaseRace(t *testing.T, store sessions.Store) {
	s := scope()
	var owners atomic.Int32
	crowd(100, func(i int) {
		ok, err := store.Acquire(t.Context(), s, "l", fmt.Sprint(i), long)
		if err != nil {
			t.Error(err)
		}
		if ok {
			owners.Add(1)
		}
	})
	if n := owners.Load(); n != 1 {
		t.Errorf("%d owners", n)
	}
}

func bags(t *testing.T, store sessions.Store) {
	s := scope()
	members, err := store.Members(t.Context(), s, "b")
	if err != nil || len(members) != 0 {
		t.Errorf("a missing bag has %q, %v", members, err)
	}
	want(t, "remove from a missing bag", false)(store.Remove(t.Context(), s, "b", "x"))
	for _, m := range []string{"x", "y", "x"} {
		be(t, store.Add(t.Context(), s, "b", m, long))
	}
	members, err = store.Members(t.Context(), s, "b")
	if err != nil || len(members) != 2 {
		t.Errorf("members %q, %v", members, err)
	}
	want(t, "remove", true)(store.Remove(t.Context(), s, "b", "x"))
	want(t, "remove again", false)(store.Remove(t.Context(), s, "b", "x"))
	want(t, "count", 1)(store.Count(t.Context(), s.Client))
	want(t, "remove the last", true)(store.Remove(t.Context(), s, "b", "y"))
	want(t, "count of an empty bag", 0)(store.Count(t.Context(), s.Client))
}

func removeRace(t *testing.T, store sessions.Store) {
	s := scope()
	for _, m := range []string{"x", "y"} {
		be(t, store.Add(t.Context(), s, "b", m, long))
	}
	var taken [2]atomic.Int32
	crowd(100, func(i int) {
		ok, err := store.Remove(t.Context(), s, "b", []string{"x", "y"}[i%2])
		if err != nil {
			t.Error(err)
		}
		if ok {
			taken[i%2].Add(1)
		}
	})
	if x, y := taken[0].Load(), taken[1].Load(); x != 1 || y != 1 {
		t.Errorf("x was taken %d times, y %d times", x, y)
	}
}

func ended(t *testing.T, store sessions.Store) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("the client went away"))
	s := scope()
	f := sessions.Fields{"f": nil}
	_, load := store.Load(ctx, s, long, "k")
	_, settle := store.Settle(ctx, s, "k", "f", nil, long)
	_, update := store.Update(ctx, s, "k", f, long)
	_, acquire := store.Acquire(ctx, s, "k", "o", long)
	_, remove := store.Remove(ctx, s, "k", "m")
	_, count := store.Count(ctx, s.Client)
	for i, err := range []error{load, settle, update, acquire, remove, count, store.Put(ctx, s, "k", f, long), store.Delete(ctx, s, "k")} {
		if !errors.Is(err, context.Canceled) || errors.Is(err, sessions.ErrUnavailable) {
			t.Errorf("%d: %v", i, err)
		}
	}
	want(t, "count", 0)(store.Count(t.Context(), s.Client))
}
