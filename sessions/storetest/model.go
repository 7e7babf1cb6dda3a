package storetest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/mcp-via-llm/mcp-via-llm/sessions"
	"pgregory.net/rapid"
)

// Step is one operation of a random run against a plain model.
type Step struct {
	Op           string
	Scope        int
	Key, Key2    string
	Field, Value string
	TTL, Wait    time.Duration
}

// Steps draws a run. With clock, time goes by in it: play it where time is fake.
func Steps(t *rapid.T, clock bool) []Step {
	ops := []string{"load", "loadWith", "put", "settle", "update", "delete", "acquire", "renew", "release", "add", "members", "remove", "count", "erase"}
	ttls := []time.Duration{long}
	if clock {
		ops = append(ops, "wait", "wait")
		ttls = []time.Duration{time.Second, time.Minute, long}
	}
	word := rapid.SampledFrom([]string{"a", "b", "c"})
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Step {
		return Step{
			Op: rapid.SampledFrom(ops).Draw(t, "op"), Scope: rapid.IntRange(0, 2).Draw(t, "scope"),
			Key: word.Draw(t, "key"), Key2: word.Draw(t, "key2"), Field: word.Draw(t, "field"),
			Value: rapid.SampledFrom([]string{"", "1", "2"}).Draw(t, "value"),
			TTL:   rapid.SampledFrom(ttls).Draw(t, "ttl"), Wait: rapid.SampledFrom([]time.Duration{time.Second, time.Minute}).Draw(t, "wait"),
		}
	}), 1, 60).Draw(t, "steps")
}

// tester is what rapid.T and testing.T have in common.
type tester interface {
	Helper()
	Fatalf(format string, args ...any)
	Context() context.Context
}

// model is a store as plain as can be.
type model struct {
	keys map[modelKey]*modelValue
}

type modelKey struct {
	scope sessions.Scope
	kind  string
	name  string
}

type modelValue struct {
	fields  map[string]string // members are fields without a value, an owner is one
	expires time.Time
}

func (m *model) get(k modelKey) *modelValue {
	if v := m.keys[k]; v != nil && v.expires.After(time.Now()) {
		return v
	}
	delete(m.keys, k)
	return nil
}

func (m *model) make(k modelKey, ttl time.Duration) *modelValue {
	v := m.get(k)
	if v == nil {
		v = &modelValue{fields: map[string]string{}}
		m.keys[k] = v
	}
	v.expires = time.Now().Add(ttl)
	return v
}

// Play runs steps on a store and a model, and compares all that they say.
func Play(t tester, store sessions.Store, steps []Step) {
	t.Helper()
	client := scope().Client
	scopes := []sessions.Scope{{Client: client, ID: "x"}, {Client: client, ID: "y"}, {Client: client + "2", ID: "x"}}
	m := &model{keys: map[modelKey]*modelValue{}}
	for i, step := range steps {
		s := scopes[step.Scope]
		got, err := real(t.Context(), store, s, step)
		if err != nil {
			t.Fatalf("step %d of %+v: %v", i, steps, err)
		}
		if want := m.step(s, step); got != want {
			t.Fatalf("step %d of %+v: got %s, want %s", i, steps, got, want)
		}
	}
}

func real(ctx context.Context, store sessions.Store, s sessions.Scope, p Step) (string, error) {
	f := sessions.Fields{p.Field: []byte(p.Value), p.Key2: []byte(p.Value)}
	say := func(v any, err error) (string, error) { return fmt.Sprint(v), err }
	switch p.Op {
	case "load":
		found, err := store.Load(ctx, s, p.TTL, p.Key, p.Key2)
		return fmt.Sprintf("%q", found), err
	case "loadWith":
		found, members, err := store.LoadWith(ctx, s, p.TTL, p.Key, p.Key, p.Key2)
		slices.Sort(members)
		return fmt.Sprintf("%q%q", found, members), err
	case "put":
		return say("", store.Put(ctx, s, p.Key, f, p.TTL))
	case "settle":
		v, err := store.Settle(ctx, s, p.Key, p.Field, []byte(p.Value), p.TTL)
		return string(v), err
	case "update":
		return say(store.Update(ctx, s, p.Key, f, p.TTL))
	case "delete":
		return say("", store.Delete(ctx, s, p.Key, p.Key2))
	case "acquire":
		return say(store.Acquire(ctx, s, p.Key, p.Value, p.TTL))
	case "renew":
		return say(store.Renew(ctx, s, p.Key, p.Value, p.TTL))
	case "release":
		return say("", store.Release(ctx, s, p.Key, p.Value))
	case "add":
		return say("", store.Add(ctx, s, p.Key, p.Value, p.TTL))
	case "members":
		members, err := store.Members(ctx, s, p.Key)
		slices.Sort(members)
		return fmt.Sprintf("%q", members), err
	case "remove":
		return say(store.Remove(ctx, s, p.Key, p.Value))
	case "count":
		return say(store.Count(ctx, s.Client))
	case "erase":
		return say(store.Erase(ctx, s.Client))
	}
	time.Sleep(p.Wait) // fake time
	return "", nil
}

func (m *model) step(s sessions.Scope, p Step) string {
	record, lease, bag := modelKey{s, "record", p.Key}, modelKey{s, "lease", p.Key}, modelKey{s, "bag", p.Key}
	switch p.Op {
	case "load":
		return m.load(record, modelKey{s, "record", p.Key2}, p.TTL)
	case "loadWith":
		return m.load(record, modelKey{s, "record", p.Key2}, p.TTL) + m.members(bag)
	case "update", "put":
		if p.Op == "update" && m.get(record) == nil {
			return "false"
		}
		v := m.make(record, p.TTL)
		v.fields[p.Field], v.fields[p.Key2] = p.Value, p.Value
		return map[string]string{"update": "true"}[p.Op]
	case "settle":
		v := m.make(record, p.TTL)
		if _, ok := v.fields[p.Field]; !ok {
			v.fields[p.Field] = p.Value
		}
		return v.fields[p.Field]
	case "delete":
		delete(m.keys, record)
		delete(m.keys, modelKey{s, "record", p.Key2})
	case "acquire", "renew", "release":
		return m.lease(lease, p)
	case "add":
		m.make(bag, p.TTL).fields[p.Value] = ""
	case "members":
		return m.members(bag)
	case "remove":
		v := m.get(bag)
		if v == nil {
			return "false"
		}
		_, ok := v.fields[p.Value]
		if delete(v.fields, p.Value); len(v.fields) == 0 {
			delete(m.keys, bag)
		}
		return fmt.Sprint(ok)
	case "count", "erase":
		n := 0
		for k := range m.keys {
			if k.scope.Client == s.Client && m.get(k) != nil {
				n++
				if p.Op == "erase" {
					delete(m.keys, k)
				}
			}
		}
		return fmt.Sprint(n)
	}
	return ""
}

func (m *model) members(bag modelKey) string {
	if v := m.get(bag); v != nil {
		return fmt.Sprintf("%q", slices.Sorted(maps.Keys(v.fields)))
	}
	return "[]"
}

func (m *model) load(one, two modelKey, ttl time.Duration) string {
	found := make([]sessions.Fields, 2)
	for i, k := range []modelKey{one, two} {
		v := m.get(k)
		if v == nil {
			continue
		}
		v.expires = time.Now().Add(ttl)
		found[i] = sessions.Fields{}
		for name, value := range v.fields {
			found[i][name] = []byte(value)
		}
	}
	return fmt.Sprintf("%q", found)
}

func (m *model) lease(k modelKey, p Step) string {
	v := m.get(k)
	mine := v != nil && v.fields["owner"] == p.Value
	if p.Op == "release" {
		if mine {
			delete(m.keys, k)
		}
		return ""
	}
	if p.Op == "acquire" && v == nil {
		m.make(k, p.TTL).fields["owner"] = p.Value
		return "true"
	}
	if mine {
		v.expires = time.Now().Add(p.TTL)
	}
	return fmt.Sprint(mine)
}
