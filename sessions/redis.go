package sessions

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// Redis is a [Store] shared by all replicas: one node, a set behind Sentinel, or
// a Cluster; Redis 6.2 or later, or Valkey.
//
// Keys and channels are PREFIX{TAG}:…, where TAG is a hash of client and scope,
// so that nothing in Redis names a client. One index a scope and one a client
// let Count and Erase work without SCAN. A client's index is in another slot
// than its scopes, so it is written beside the record, not in one step with it;
// if either write fails the whole operation does.
//
// The least rights its user needs, where mcpvia: is the prefix:
//
//	ACL SETUSER gateway on >PASSWORD ~mcpvia:* &mcpvia:* -@all
//	  +ping +hello +eval +evalsha +time +select +cluster|slots +subscribe +unsubscribe +publish
//	  +hset +hsetnx +hget +hgetall +exists +del +pexpire +pttl +set +get +sadd +smembers +srem
//	  +zadd +zscore +zcount +zrange +zrem +zremrangebyscore
//
// Use maxmemory-policy noeviction or volatile-ttl: an evicted index hides keys
// from Count and Erase until they are written again or expire.
//
// Replication of Redis is asynchronous: a failover can lose the writes of the
// last moments, and with them that a lease or a member was taken. Where that must
// not be, set min-replicas-to-write 1, which makes it rare.
type Redis struct {
	client  redis.UniversalClient
	cluster *redis.ClusterClient // client, if it is one of a cluster
	prefix  string
	channel subscriber
	checked atomic.Bool // Ping has tried every right

	ctx     context.Context // ends with Close
	cancel  context.CancelFunc
	mu      sync.Mutex // guards nodes, and starting probes against Close
	nodes   map[string]*node
	probing sync.WaitGroup
}

// newRedis does not connect: a store that is down at the start comes up later.
func newRedis(o Options) (*Redis, error) {
	client, err := dial(o)
	if err != nil {
		return nil, err
	}
	r := &Redis{client: client, prefix: o.KeyPrefix, nodes: map[string]*node{}}
	r.cluster, _ = client.(*redis.ClusterClient)
	r.ctx, r.cancel = context.WithCancel(context.Background())
	r.channel.init(client)
	return r, nil
}

// write does one operation on one key that gives it a time to live.
func (r *Redis) write(ctx context.Context, s Scope, op string, kind kind, name, touch string, ttl time.Duration, args ...any) (any, error) {
	if ttl <= 0 {
		return nil, errTTL(ttl)
	}
	k, m := r.keys(s), member(kind, name)
	replies, err := r.run(ctx,
		call{op: op, keys: []string{k.index(), k.base + m}, args: append([]any{milliseconds(ttl), m}, args...)},
		k.touch(touch, ttl))
	if err != nil {
		return nil, err
	}
	return replies[0], nil
}

// Load implements [Store].
func (r *Redis) Load(ctx context.Context, s Scope, ttl time.Duration, keys ...string) ([]Fields, error) {
	found, _, err := r.load(ctx, s, ttl, keys)
	return found, err
}

// LoadWith implements [Store].
func (r *Redis) LoadWith(ctx context.Context, s Scope, ttl time.Duration, name string, keys ...string) ([]Fields, []string, error) {
	found, replies, err := r.load(ctx, s, ttl, keys, r.members(s, name))
	if err != nil {
		return nil, nil, err
	}
	return found, texts(replies[0]), nil
}

// load reads records, and makes other calls with that.
func (r *Redis) load(ctx context.Context, s Scope, ttl time.Duration, keys []string, more ...call) (found []Fields, others []any, err error) {
	k := r.keys(s)
	load := call{op: "load", keys: []string{k.index()}, args: []any{int64(0)}}
	for _, key := range keys {
		m := member(record, key)
		load.keys, load.args = append(load.keys, k.base+m), append(load.args, m)
	}
	calls := append([]call{load}, more...)
	if ttl > 0 {
		load.args[0] = milliseconds(ttl)
		calls = append(calls, k.touch("slide", ttl))
	}
	replies, err := r.run(ctx, calls...)
	if err != nil {
		return nil, nil, err
	}
	found = make([]Fields, len(keys))
	for i, flat := range replies[0].([]any) {
		found[i] = fields(flat.([]any))
	}
	return found, replies[1:], nil
}

// fields reads the reply of HGETALL.
func fields(flat []any) Fields {
	if len(flat) == 0 {
		return nil
	}
	f := make(Fields, len(flat)/2)
	for i := 0; i+1 < len(flat); i += 2 {
		f[flat[i].(string)] = []byte(flat[i+1].(string))
	}
	return f
}

func flat(f Fields) []any {
	args := make([]any, 0, 2*len(f))
	for name, value := range f {
		args = append(args, name, value)
	}
	return args
}

// Put implements [Store].
func (r *Redis) Put(ctx context.Context, s Scope, key string, f Fields, ttl time.Duration) error {
	if len(f) == 0 {
		return errNoFields(key)
	}
	_, err := r.write(ctx, s, "put", record, key, "touch", ttl, flat(f)...)
	return err
}

// Settle implements [Store].
func (r *Redis) Settle(ctx context.Context, s Scope, key, field string, value []byte, ttl time.Duration) ([]byte, error) {
	actual, err := r.write(ctx, s, "settle", record, key, "touch", ttl, field, value)
	if err != nil {
		return nil, err
	}
	return []byte(actual.(string)), nil
}

// Update implements [Store].
func (r *Redis) Update(ctx context.Context, s Scope, key string, f Fields, ttl time.Duration) (bool, error) {
	if len(f) == 0 {
		return false, errNoFields(key)
	}
	done, err := r.write(ctx, s, "update", record, key, "slide", ttl, flat(f)...)
	return done == int64(1), err
}

// Delete implements [Store].
func (r *Redis) Delete(ctx context.Context, s Scope, keys ...string) error {
	k := r.keys(s)
	members := make([]string, len(keys))
	for i, key := range keys {
		members[i] = member(record, key)
	}
	_, err := r.run(ctx, deletion(k.base, members))
	return err
}

func deletion(base string, members []string) call {
	c := call{op: "delete", keys: []string{base + "i"}}
	for _, m := range members {
		c.keys, c.args = append(c.keys, base+m), append(c.args, m)
	}
	return c
}

// Watch implements [Store].
func (r *Redis) Watch(s Scope, key string) (<-chan struct{}, func()) {
	return r.channel.add(r.keys(s).base + member(record, key))
}

// Acquire implements [Store].
func (r *Redis) Acquire(ctx context.Context, s Scope, name, owner string, ttl time.Duration) (bool, error) {
	got, err := r.write(ctx, s, "acquire", lease, name, "touch", ttl, owner)
	return got == int64(1), err
}

// Renew implements [Store].
func (r *Redis) Renew(ctx context.Context, s Scope, name, owner string, ttl time.Duration) (bool, error) {
	has, err := r.write(ctx, s, "renew", lease, name, "slide", ttl, owner)
	return has == int64(1), err
}

// Release implements [Store].
func (r *Redis) Release(ctx context.Context, s Scope, name, owner string) error {
	k, m := r.keys(s), member(lease, name)
	_, err := r.run(ctx, call{op: "release", keys: []string{k.index(), k.base + m}, args: []any{m, owner}})
	return err
}

// Add implements [Store].
func (r *Redis) Add(ctx context.Context, s Scope, name, what string, ttl time.Duration) error {
	_, err := r.write(ctx, s, "add", bag, name, "touch", ttl, what)
	return err
}

// Members implements [Store].
func (r *Redis) Members(ctx context.Context, s Scope, name string) ([]string, error) {
	return r.strings(ctx, r.members(s, name))
}

func (r *Redis) members(s Scope, name string) call {
	k := r.keys(s)
	return call{op: "members", keys: []string{k.index(), k.base + member(bag, name)}}
}

// strings runs a call whose reply is a list of strings.
func (r *Redis) strings(ctx context.Context, c call) ([]string, error) {
	replies, err := r.run(ctx, c)
	if err != nil {
		return nil, err
	}
	return texts(replies[0]), nil
}

// texts reads a reply that is a list of strings.
func texts(reply any) []string {
	list := reply.([]any)
	names := make([]string, len(list))
	for i, name := range list {
		names[i] = name.(string)
	}
	return names
}

// Remove implements [Store].
func (r *Redis) Remove(ctx context.Context, s Scope, name, what string) (bool, error) {
	k, m := r.keys(s), member(bag, name)
	replies, err := r.run(ctx, call{op: "remove", keys: []string{k.index(), k.base + m}, args: []any{m, what}, once: true})
	return err == nil && replies[0] == int64(1), err
}

// Close implements [Store].
func (r *Redis) Close() error {
	r.mu.Lock()
	r.cancel()
	r.mu.Unlock()
	r.probing.Wait()
	r.channel.close()
	if err := r.client.Close(); err != nil && !strings.Contains(err.Error(), "closed") {
		return fmt.Errorf("close Redis client: %w", err)
	}
	return nil
}
