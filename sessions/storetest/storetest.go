// Package storetest is what every [sessions.Store] must do, as tests.
package storetest

import (
	"crypto/rand"
	"slices"
	"testing"
	"time"

	"github.com/mcp-via-llm/mcp-via-llm/sessions"
)

// long is a time to live that does not end during a test, short one that does
// and that a busy machine still does not miss.
const (
	long     = 10 * time.Minute
	short    = time.Second
	patience = 20 * time.Second
)

// Run tests a store. It needs one that nobody else uses, with room for a few
// thousand keys, and uses scopes and clients of its own.
func Run(t *testing.T, store sessions.Store) {
	for name, test := range map[string]func(*testing.T, sessions.Store){
		"records":                    records,
		"any bytes":                  anyBytes,
		"values are copied":          copied,
		"whole or not at all":        whole,
		"records expire":             expire,
		"loading slides":             slides,
		"first writer wins":          settle,
		"update does not resurrect":  update,
		"scopes are apart":           apart,
		"leases":                     leases,
		"one of many gets a lease":   leaseRace,
		"bags":                       bags,
		"one of many takes a member": removeRace,
		"changes wake":               wake,
		"count and erase":            erase,
		"erase much":                 eraseMuch,
		"large records":              large,
		"invalid arguments":          invalid,
		"ended contexts":             ended,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, store)
		})
	}
}

func scope() sessions.Scope {
	return sessions.Scope{Client: rand.Text(), ID: rand.Text()}
}

// be fails the test at once for an error.
func be(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// want checks a value that came with an error.
func want[T comparable](t *testing.T, what string, wanted T) func(T, error) {
	t.Helper()
	return func(got T, err error) {
		t.Helper()
		if err != nil || got != wanted {
			t.Errorf("%s: %v, %v; want %v", what, got, err, wanted)
		}
	}
}

// load gives one field of one record without touching its time to live, and
// whether the record is there.
func load(t *testing.T, store sessions.Store, s sessions.Scope, key, field string) (string, bool) {
	t.Helper()
	found, err := store.Load(t.Context(), s, 0, key)
	be(t, err)
	return string(found[0][field]), found[0] != nil
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("never: %s", what)
}

func records(t *testing.T, store sessions.Store) {
	s := scope()
	found, err := store.Load(t.Context(), s, long, "a", "b")
	if err != nil || len(found) != 2 || found[0] != nil || found[1] != nil {
		t.Fatalf("missing records: %v, %v", found, err)
	}
	be(t, store.Put(t.Context(), s, "a", sessions.Fields{"x": []byte("1"), "y": []byte("2")}, long))
	be(t, store.Put(t.Context(), s, "a", sessions.Fields{"y": []byte("3"), "z": []byte("")}, long))
	be(t, store.Put(t.Context(), s, "c", sessions.Fields{"x": []byte("4")}, long))
	found, err = store.Load(t.Context(), s, long, "c", "b", "a", "c")
	be(t, err)
	a := found[2]
	if len(found) != 4 || string(found[0]["x"]) != "4" || found[1] != nil || string(found[3]["x"]) != "4" ||
		len(a) != 3 || string(a["x"]) != "1" || string(a["y"]) != "3" || a["z"] == nil || len(a["z"]) != 0 {
		t.Errorf("loaded %q", found)
	}
	be(t, store.Delete(t.Context(), s, "a", "b"))
	be(t, store.Delete(t.Context(), s))
	if _, ok := load(t, store, s, "a", "x"); ok {
		t.Error("a deleted record is there")
	}
	if x, _ := load(t, store, s, "c", "x"); x != "4" {
		t.Error("another record went with it")
	}
	found, err = store.Load(t.Context(), s, long)
	if err != nil || len(found) != 0 {
		t.Errorf("loading nothing: %v, %v", found, err)
	}
}

func anyBytes(t *testing.T, store sessions.Store) {
	var all []byte
	for b := range 256 {
		all = append(all, byte(b))
	}
	names := []string{"", " ", "{a}", "}{", "a:b", "ключ", "\x00\xff\r\n", string(all)}
	for _, client := range names {
		for _, name := range names {
			s := sessions.Scope{Client: scope().Client + client, ID: name}
			be(t, store.Put(t.Context(), s, name, sessions.Fields{name: all}, long))
			if got, _ := load(t, store, s, name, name); got != string(all) {
				t.Errorf("client %q, key %q: %q", client, name, got)
			}
			be(t, store.Add(t.Context(), s, name, name, long))
			members, err := store.Members(t.Context(), s, name)
			if err != nil || !slices.Equal(members, []string{name}) {
				t.Errorf("members %q, %v", members, err)
			}
			want(t, "acquire", true)(store.Acquire(t.Context(), s, name, name, long))
			want(t, "renew", true)(store.Renew(t.Context(), s, name, name, long))
			want(t, "erase", 3)(store.Erase(t.Context(), s.Client))
		}
	}
}

func copied(t *testing.T, store sessions.Store) {
	s := scope()
	value := []byte("value")
	be(t, store.Put(t.Context(), s, "k", sessions.Fields{"f": value}, long))
	value[0] = 'X'
	found, err := store.Load(t.Context(), s, long, "k")
	be(t, err)
	found[0]["f"][1] = 'X'
	found[0]["g"] = nil
	settled, err := store.Settle(t.Context(), s, "k", "f", []byte("late"), long)
	be(t, err)
	settled[2] = 'X'
	mine := []byte("mine")
	settled, err = store.Settle(t.Context(), s, "k", "h", mine, long)
	be(t, err)
	mine[0], settled[1] = 'X', 'X'
	found, err = store.Load(t.Context(), s, long, "k")
	be(t, err)
	if f := found[0]; string(f["f"]) != "value" || string(f["h"]) != "mine" || len(f) != 2 {
		t.Errorf("loaded %q", f)
	}
}

func expire(t *testing.T, store sessions.Store) {
	s := scope()
	be(t, store.Put(t.Context(), s, "put", sessions.Fields{"f": nil}, short))
	_, err := store.Settle(t.Context(), s, "settled", "f", nil, short)
	be(t, err)
	be(t, store.Put(t.Context(), s, "shortened", sessions.Fields{"f": nil}, long))
	want(t, "update", true)(store.Update(t.Context(), s, "shortened", sessions.Fields{"g": nil}, short))
	be(t, store.Put(t.Context(), s, "lengthened", sessions.Fields{"f": nil}, short))
	be(t, store.Put(t.Context(), s, "lengthened", sessions.Fields{"g": nil}, long))
	be(t, store.Add(t.Context(), s, "bag", "m", short))
	want(t, "acquire", true)(store.Acquire(t.Context(), s, "lease", "me", short))
	want(t, "count", 6)(store.Count(t.Context(), s.Client))
	for _, key := range []string{"put", "settled", "shortened"} {
		eventually(t, key+" expires", func() bool { _, ok := load(t, store, s, key, ""); return !ok })
	}
	eventually(t, "the bag expires", func() bool {
		members, err := store.Members(t.Context(), s, "bag")
		return err == nil && len(members) == 0
	})
	want(t, "remove from an expired bag", false)(store.Remove(t.Context(), s, "bag", "m"))
	eventually(t, "the lease expires", func() bool {
		ok, err := store.Acquire(t.Context(), s, "lease", "other", long)
		return err == nil && ok
	})
	want(t, "renew an expired lease", false)(store.Renew(t.Context(), s, "lease", "me", long))
	want(t, "count", 2)(store.Count(t.Context(), s.Client))
	want(t, "update an expired record", false)(store.Update(t.Context(), s, "put", sessions.Fields{"f": nil}, long))
	if _, ok := load(t, store, s, "lengthened", ""); !ok {
		t.Error("a lengthened record has expired")
	}
}

func slides(t *testing.T, store sessions.Store) {
	s := scope()
	be(t, store.Put(t.Context(), s, "used", sessions.Fields{"f": nil}, short))
	be(t, store.Put(t.Context(), s, "looked at", sessions.Fields{"f": nil}, short))
	for begin := time.Now(); time.Since(begin) < 2*short; time.Sleep(short / 50) {
		found, err := store.Load(t.Context(), s, short, "used", "missing")
		be(t, err)
		if found[0] == nil {
			t.Fatalf("gone after %v, though always in use", time.Since(begin))
		}
		load(t, store, s, "looked at", "f")
	}
	if _, ok := load(t, store, s, "looked at", "f"); ok {
		t.Error("a load without a time to live has kept the record")
	}
	// The client's index slides along, so that the record can still be erased.
	want(t, "erase", 1)(store.Erase(t.Context(), s.Client))
}
