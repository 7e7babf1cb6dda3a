package sessions_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcp-via-llm/mcp-via-llm/sessions"
	"github.com/mcp-via-llm/mcp-via-llm/sessions/redisrig"
	"github.com/mcp-via-llm/mcp-via-llm/sessions/storetest"
	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"
)

func TestRedisModel(t *testing.T) {
	t.Parallel()
	store := open(t, sessions.Options{RedisURL: redisrig.Start(t).URL})
	rapid.Check(t, func(rt *rapid.T) {
		storetest.Play(rt, store, storetest.Steps(rt, false))
	})
}

// mortal fails the test for each key that has no time to live, and gives the
// number of keys.
func mortal(t *testing.T, client *redis.Client) int {
	t.Helper()
	ctx, n := context.Background(), 0
	for keys := client.Scan(ctx, 0, "*", 1000).Iterator(); keys.Next(ctx); n++ {
		if ttl := client.PTTL(ctx, keys.Val()).Val(); ttl == -1 {
			t.Errorf("%q has no time to live", keys.Val())
		}
		if !strings.HasPrefix(keys.Val(), "p:{") {
			t.Errorf("%q does not begin with the prefix", keys.Val())
		}
	}
	return n
}

func TestNoKeyWithoutTimeToLive(t *testing.T) {
	t.Parallel()
	s := redisrig.Start(t)
	store := open(t, sessions.Options{RedisURL: s.URL, KeyPrefix: "p:"})
	client := s.Client()
	done := make(chan struct{})
	var looking sync.WaitGroup
	looking.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				mortal(t, client)
			}
		}
	})
	rapid.Check(t, func(rt *rapid.T) { storetest.Play(rt, store, storetest.Steps(rt, false)) })
	close(done)
	looking.Wait()
	if mortal(t, client) == 0 {
		t.Error("there was nothing to look at")
	}
	// All goes when the last record does: the indexes do not outlive it by much.
	s.Do("FLUSHALL")
	if err := put(t, store, "k", 1); err != nil {
		t.Fatal(err)
	}
	for _, key := range s.Do("KEYS", "*").([]any) {
		if ttl := client.PTTL(t.Context(), key.(string)).Val(); ttl > hour+time.Minute {
			t.Errorf("%q lives for %v", key, ttl)
		}
	}
}

// TestIndexesAreTrimmed: what has expired does not stay in the indexes while
// others keep them alive.
func TestIndexesAreTrimmed(t *testing.T) {
	t.Parallel()
	s := redisrig.Start(t)
	store := open(t, sessions.Options{RedisURL: s.URL})
	for i := range 50 {
		if err := store.Put(t.Context(), aScope, fmt.Sprint(i), sessions.Fields{"f": nil}, time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
	poll(t, "the index has only what lives", func() bool {
		if err := put(t, store, "k", 1); err != nil {
			t.Fatal(err)
		}
		for _, key := range s.Do("KEYS", "*}:i").([]any) {
			return s.Do("ZCARD", key) == int64(1)
		}
		return false
	})
}

func TestScriptFlush(t *testing.T) {
	t.Parallel()
	s := redisrig.Start(t)
	store := open(t, sessions.Options{RedisURL: s.URL})
	for range 3 {
		s.Do("SCRIPT", "FLUSH")
		if err := put(t, store, "k", 1); err != nil {
			t.Error(err)
		}
		s.Do("SCRIPT", "FLUSH")
		if !there(t, store, "k") {
			t.Error("not there")
		}
	}
}

// TestSlots: all keys of a scope are in one slot, those of different scopes are
// spread over the nodes.
func TestSlots(t *testing.T) {
	t.Parallel()
	c := redisrig.StartCluster(t)
	store := open(t, sessions.Options{RedisURL: c.URL})
	for i := range 30 {
		s := sessions.Scope{Client: "c", ID: fmt.Sprint(i)}
		if err := store.Put(t.Context(), s, "k", sessions.Fields{"f": nil}, hour); err != nil {
			t.Fatal(err)
		}
		if err := store.Add(t.Context(), s, "b", "m", hour); err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range c.Nodes {
		if keys := n.Do("DBSIZE").(int64); keys < 5 {
			t.Errorf("%s has %d keys of 91", n.Addr, keys)
		}
	}
}

func TestObserve(t *testing.T) {
	t.Parallel()
	s := redisrig.Start(t)
	var mu sync.Mutex
	seen := map[string]int{}
	store := open(t, sessions.Options{RedisURL: s.URL, EncryptionKeys: []string{encryptionKey}, Observe: func(_ context.Context, e sessions.Event) {
		mu.Lock()
		defer mu.Unlock()
		seen[fmt.Sprint(e.Op, " ", e.Outcome(), " ", e.Found, " ", e.Missing)]++
	}})
	if err := put(t, store, "k", 1); err != nil {
		t.Fatal(err)
	}
	there(t, store, "k")
	for _, key := range s.Do("KEYS", "*:r:k").([]any) {
		s.Do("HSET", key, "f", "damage")
	}
	there(t, store, "k")
	_ = store.Put(t.Context(), aScope, "k", nil, hour)
	s.Kill()
	_ = put(t, store, "k", 1)
	want := map[string]int{"put ok 0 0": 1, "load ok 1 0": 1, "load ok 0 1": 1, "decode corrupt 0 0": 1, "put invalid 0 0": 1, "put unavailable 0 0": 1}
	if fmt.Sprint(seen) != fmt.Sprint(want) {
		t.Errorf("seen %v, want %v", seen, want)
	}
}

// One connection hears of all that is watched, and only of that.
func TestOneSubscription(t *testing.T) {
	t.Parallel()
	s := redisrig.Start(t)
	store := open(t, sessions.Options{RedisURL: s.URL})
	channels := func() int { return len(s.Do("PUBSUB", "CHANNELS").([]any)) }
	var stops []func()
	for i := range 50 {
		_, stop := store.Watch(aScope, fmt.Sprint(i/2))
		stops = append(stops, stop)
	}
	poll(t, "all are subscribed to", func() bool { return channels() == 25 })
	if lines := strings.TrimSpace(s.Do("CLIENT", "LIST", "TYPE", "pubsub").(string)); strings.Contains(lines, "\n") {
		t.Errorf("connections:\n%s", lines)
	}
	for _, stop := range stops[:49] {
		stop()
	}
	poll(t, "one is left", func() bool { return channels() == 1 })
	stops[49]()
	poll(t, "none is left", func() bool { return channels() == 0 })
}
