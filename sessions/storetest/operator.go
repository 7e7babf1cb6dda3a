package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/mcp-via-llm/mcp-via-llm/sessions"
)

// wake: a watcher that comes first hears of each kind of change. As tokens may be
// lost while a subscription is being made, the change is repeated until then.
func wake(t *testing.T, store sessions.Store) {
	f := sessions.Fields{"f": []byte("v")}
	n := 0
	for name, change := range map[string]func(s sessions.Scope) error{
		"put": func(s sessions.Scope) error { return store.Put(t.Context(), s, "k", f, long) },
		"settle": func(s sessions.Scope) error {
			n++
			_, err := store.Settle(t.Context(), s, "k", fmt.Sprint(n), nil, long)
			return err
		},
		"update": func(s sessions.Scope) error { _, err := store.Update(t.Context(), s, "k", f, long); return err },
		"delete": func(s sessions.Scope) error {
			return errors.Join(store.Put(t.Context(), s, "k", f, long), store.Delete(t.Context(), s, "k"))
		},
		"erase": func(s sessions.Scope) error {
			_, err := store.Erase(t.Context(), s.Client)
			return errors.Join(err, store.Put(t.Context(), s, "k", f, long))
		},
	} {
		s := scope()
		be(t, store.Put(t.Context(), s, "k", f, long))
		changed, stop := store.Watch(s, "k")
		also, stopAlso := store.Watch(s, "k")
		for i, c := range []<-chan struct{}{changed, also} {
			hear(t, fmt.Sprintf("%s, watcher %d", name, i), c, func() { be(t, change(s)) })
		}
		stop()
		stop()
		hear(t, name+", after another has stopped", also, func() { be(t, change(s)) })
		stopAlso()
	}
}

// hear repeats a change until it was heard of. The first token may have been left
// by the start of the watch, so it takes two.
func hear(t *testing.T, what string, c <-chan struct{}, change func()) {
	t.Helper()
	end := time.After(patience)
	for heard := 0; heard < 2; {
		change()
		select {
		case <-c:
			heard++
		case <-time.After(100 * time.Millisecond):
		case <-end:
			t.Fatalf("%s: nothing was heard", what)
		}
	}
}

func erase(t *testing.T, store sessions.Store) {
	mine, also, other := scope(), scope(), scope()
	also.Client = mine.Client
	for _, s := range []sessions.Scope{mine, also, other} {
		be(t, store.Put(t.Context(), s, "a", sessions.Fields{"f": nil}, long))
		be(t, store.Put(t.Context(), s, "b", sessions.Fields{"f": nil}, long))
		be(t, store.Add(t.Context(), s, "b", "m", long))
		want(t, "acquire", true)(store.Acquire(t.Context(), s, "l", "me", long))
	}
	want(t, "count", 8)(store.Count(t.Context(), mine.Client))
	want(t, "erase", 8)(store.Erase(t.Context(), mine.Client))
	want(t, "count after it", 0)(store.Count(t.Context(), mine.Client))
	want(t, "erase again", 0)(store.Erase(t.Context(), mine.Client))
	want(t, "update after it", false)(store.Update(t.Context(), mine, "a", sessions.Fields{"f": nil}, long))
	want(t, "renew after it", false)(store.Renew(t.Context(), mine, "l", "me", long))
	want(t, "remove after it", false)(store.Remove(t.Context(), mine, "b", "m"))
	want(t, "count of another client", 4)(store.Count(t.Context(), other.Client))
	// What is written afterwards is found again.
	be(t, store.Put(t.Context(), mine, "a", sessions.Fields{"f": nil}, long))
	want(t, "count of new keys", 1)(store.Count(t.Context(), mine.Client))
	want(t, "erase of new keys", 1)(store.Erase(t.Context(), mine.Client))
	want(t, "erase of nobody", 0)(store.Erase(t.Context(), scope().Client))
}

// eraseMuch: more scopes, and more keys in one scope, than one step takes on.
func eraseMuch(t *testing.T, store sessions.Store) {
	s := scope()
	for i := range 230 {
		be(t, store.Put(t.Context(), s, fmt.Sprint(i), sessions.Fields{"f": nil}, long))
		one := sessions.Scope{Client: s.Client, ID: fmt.Sprint(i)}
		be(t, store.Put(t.Context(), one, "k", sessions.Fields{"f": nil}, long))
	}
	want(t, "count", 460)(store.Count(t.Context(), s.Client))
	want(t, "erase", 460)(store.Erase(t.Context(), s.Client))
	want(t, "count after it", 0)(store.Count(t.Context(), s.Client))
	if _, ok := load(t, store, s, "229", "f"); ok {
		t.Error("an erased record is there")
	}
}

func large(t *testing.T, store sessions.Store) {
	s := scope()
	value := bytes.Repeat([]byte("0123456789abcdef"), 1<<16) // 1 MiB
	f := sessions.Fields{"large": value}
	for i := range 300 {
		f[fmt.Sprint(i)] = value[:1000+i]
	}
	be(t, store.Put(t.Context(), s, "k", f, long))
	found, err := store.Load(t.Context(), s, long, "k")
	be(t, err)
	if len(found[0]) != len(f) || !bytes.Equal(found[0]["large"], value) || len(found[0]["299"]) != 1299 {
		t.Errorf("%d fields, the large one of %d bytes", len(found[0]), len(found[0]["large"]))
	}
	err = store.Put(t.Context(), s, "k", sessions.Fields{"large": make([]byte, 512<<20)}, long)
	if !errors.Is(err, sessions.ErrTooLarge) {
		t.Errorf("half a gigabyte: %v", err)
	}
	if v, _ := load(t, store, s, "k", "large"); v != string(value) {
		t.Error("a refused write has changed the record")
	}
}

func invalid(t *testing.T, store sessions.Store) {
	s := scope()
	f := sessions.Fields{"f": nil}
	for _, ttl := range []time.Duration{0, -time.Second} {
		_, settle := store.Settle(t.Context(), s, "k", "f", nil, ttl)
		_, update := store.Update(t.Context(), s, "k", f, ttl)
		_, acquire := store.Acquire(t.Context(), s, "k", "o", ttl)
		_, renew := store.Renew(t.Context(), s, "k", "o", ttl)
		add := store.Add(t.Context(), s, "k", "m", ttl)
		for i, err := range []error{store.Put(t.Context(), s, "k", f, ttl), settle, update, acquire, renew, add} {
			if !errors.Is(err, sessions.ErrInvalid) {
				t.Errorf("time to live %v, %d: %v", ttl, i, err)
			}
		}
	}
	if err := store.Put(t.Context(), s, "k", nil, long); !errors.Is(err, sessions.ErrInvalid) {
		t.Errorf("no fields: %v", err)
	}
	if _, err := store.Update(t.Context(), s, "k", sessions.Fields{}, long); !errors.Is(err, sessions.ErrInvalid) {
		t.Errorf("no fields: %v", err)
	}
	want(t, "count", 0)(store.Count(t.Context(), s.Client))
	// The shortest time to live is one, too.
	be(t, store.Put(t.Context(), s, "k", f, time.Nanosecond))
	eventually(t, "a nanosecond is over", func() bool { _, ok := load(t, store, s, "k", "f"); return !ok })
}
