package sessions

import (
	"bytes"
	"container/list"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// sweepEvery is how often a memory store frees what has expired unseen.
const sweepEvery = time.Minute

// Memory is a [Store] in this process. It is lost with the process and shared
// with no other, and it is bounded: over its limits the records and bags not
// used for the longest time go first. Leases are counted, but never evicted.
type Memory struct {
	maxEntries int
	maxBytes   int64
	watchers   watchers[memoryKey]
	stop       chan struct{}
	swept      chan struct{} // closed when the sweeper has ended
	closing    sync.Once

	mu       sync.Mutex
	closed   bool
	entries  map[memoryKey]*entry
	byClient map[string]map[*entry]struct{}
	recent   list.List // of *entry without leases, the last used first
	bytes    int64
}

// NewMemory makes a store of at most maxEntries keys and about maxBytes bytes.
func NewMemory(maxEntries int, maxBytes int64) *Memory {
	m := &Memory{
		maxEntries: maxEntries, maxBytes: maxBytes,
		stop: make(chan struct{}), swept: make(chan struct{}),
		entries: map[memoryKey]*entry{}, byClient: map[string]map[*entry]struct{}{},
	}
	go m.sweep()
	return m
}

// begin locks the store for one operation. The caller unlocks it if err is nil.
func (m *Memory) begin(ctx context.Context, ttl time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if ttl <= 0 {
		return errTTL(ttl)
	}
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return fmt.Errorf("%w: closed", ErrUnavailable)
	}
	return nil
}

// keepTTL stands for the time to live in operations that set none.
const keepTTL = time.Duration(1)

func errTTL(ttl time.Duration) error {
	return fmt.Errorf("%w: the time to live %v is not positive", ErrInvalid, ttl)
}

func errNoFields(key string) error {
	return fmt.Errorf("%w: no fields for record %q", ErrInvalid, key)
}

// Load implements [Store].
func (m *Memory) Load(ctx context.Context, s Scope, ttl time.Duration, keys ...string) ([]Fields, error) {
	if err := m.begin(ctx, keepTTL); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	return m.load(s, ttl, keys), nil
}

// LoadWith implements [Store].
func (m *Memory) LoadWith(ctx context.Context, s Scope, ttl time.Duration, name string, keys ...string) ([]Fields, []string, error) {
	if err := m.begin(ctx, keepTTL); err != nil {
		return nil, nil, err
	}
	defer m.mu.Unlock()
	return m.load(s, ttl, keys), m.members(s, name), nil
}

// load needs mu.
func (m *Memory) load(s Scope, ttl time.Duration, keys []string) []Fields {
	found := make([]Fields, len(keys))
	for i, key := range keys {
		e := m.live(memoryKey{s, record, key})
		if e == nil {
			continue
		}
		m.use(e, ttl)
		found[i] = make(Fields, len(e.fields))
		for name, value := range e.fields {
			found[i][name] = bytes.Clone(value)
		}
	}
	return found
}

// Put implements [Store].
func (m *Memory) Put(ctx context.Context, s Scope, key string, f Fields, ttl time.Duration) error {
	if len(f) == 0 {
		return errNoFields(key)
	}
	if err := m.begin(ctx, ttl); err != nil {
		return err
	}
	defer m.mu.Unlock()
	k := memoryKey{s, record, key}
	return m.set(k, m.live(k), f, ttl)
}

// Settle implements [Store].
func (m *Memory) Settle(ctx context.Context, s Scope, key, field string, value []byte, ttl time.Duration) ([]byte, error) {
	if err := m.begin(ctx, ttl); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	k := memoryKey{s, record, key}
	e := m.live(k)
	if e != nil {
		if actual, ok := e.fields[field]; ok {
			m.use(e, ttl)
			return bytes.Clone(actual), nil
		}
	}
	return bytes.Clone(value), m.set(k, e, Fields{field: value}, ttl)
}

// Update implements [Store].
func (m *Memory) Update(ctx context.Context, s Scope, key string, f Fields, ttl time.Duration) (bool, error) {
	if len(f) == 0 {
		return false, errNoFields(key)
	}
	if err := m.begin(ctx, ttl); err != nil {
		return false, err
	}
	defer m.mu.Unlock()
	k := memoryKey{s, record, key}
	e := m.live(k)
	if e == nil {
		return false, nil
	}
	return true, m.set(k, e, f, ttl)
}

// Delete implements [Store].
func (m *Memory) Delete(ctx context.Context, s Scope, keys ...string) error {
	if err := m.begin(ctx, keepTTL); err != nil {
		return err
	}
	defer m.mu.Unlock()
	for _, key := range keys {
		if e := m.live(memoryKey{s, record, key}); e != nil {
			m.drop(e)
		}
	}
	return nil
}

// Watch implements [Store].
func (m *Memory) Watch(s Scope, key string) (<-chan struct{}, func()) {
	return m.watchers.add(memoryKey{s, record, key})
}

// Acquire implements [Store]. If leases alone fill the store, it fails with
// [ErrUnavailable].
func (m *Memory) Acquire(ctx context.Context, s Scope, name, owner string, ttl time.Duration) (bool, error) {
	if err := m.begin(ctx, ttl); err != nil {
		return false, err
	}
	defer m.mu.Unlock()
	k := memoryKey{s, lease, name}
	e := m.live(k)
	if e != nil {
		if e.owner != owner {
			return false, nil
		}
		m.use(e, ttl)
		return true, nil
	}
	e, err := m.room(k, e, int64(len(owner)))
	if err != nil {
		return false, err
	}
	e.owner = owner
	m.use(e, ttl)
	return true, nil
}

// Renew implements [Store].
func (m *Memory) Renew(ctx context.Context, s Scope, name, owner string, ttl time.Duration) (bool, error) {
	if err := m.begin(ctx, ttl); err != nil {
		return false, err
	}
	defer m.mu.Unlock()
	e := m.live(memoryKey{s, lease, name})
	if e == nil || e.owner != owner {
		return false, nil
	}
	m.use(e, ttl)
	return true, nil
}

// Release implements [Store].
func (m *Memory) Release(ctx context.Context, s Scope, name, owner string) error {
	if err := m.begin(ctx, keepTTL); err != nil {
		return err
	}
	defer m.mu.Unlock()
	if e := m.live(memoryKey{s, lease, name}); e != nil && e.owner == owner {
		m.drop(e)
	}
	return nil
}

// Add implements [Store].
func (m *Memory) Add(ctx context.Context, s Scope, name, member string, ttl time.Duration) error {
	if err := m.begin(ctx, ttl); err != nil {
		return err
	}
	defer m.mu.Unlock()
	k, grow := memoryKey{s, bag, name}, int64(len(member)+perValue)
	e := m.live(k)
	if e != nil && e.has(member) {
		grow = 0
	}
	e, err := m.room(k, e, grow)
	if err != nil {
		return err
	}
	if e.members == nil {
		e.members = map[string]struct{}{}
	}
	e.members[member] = struct{}{}
	m.use(e, ttl)
	return nil
}

// Members implements [Store].
func (m *Memory) Members(ctx context.Context, s Scope, name string) ([]string, error) {
	if err := m.begin(ctx, keepTTL); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	return m.members(s, name), nil
}

// members needs mu.
func (m *Memory) members(s Scope, name string) []string {
	e := m.live(memoryKey{s, bag, name})
	if e == nil {
		return nil
	}
	return slices.Collect(maps.Keys(e.members))
}

// Remove implements [Store].
func (m *Memory) Remove(ctx context.Context, s Scope, name, member string) (bool, error) {
	if err := m.begin(ctx, keepTTL); err != nil {
		return false, err
	}
	defer m.mu.Unlock()
	e := m.live(memoryKey{s, bag, name})
	if e == nil || !e.has(member) {
		return false, nil
	}
	delete(e.members, member)
	m.resize(e, -int64(len(member)+perValue))
	if len(e.members) == 0 {
		m.drop(e)
	}
	return true, nil
}

// Count implements [Store].
func (m *Memory) Count(ctx context.Context, client string) (int, error) {
	if err := m.begin(ctx, keepTTL); err != nil {
		return 0, err
	}
	defer m.mu.Unlock()
	return m.each(client, func(*entry) {}), nil
}

// Erase implements [Store].
func (m *Memory) Erase(ctx context.Context, client string) (int, error) {
	if err := m.begin(ctx, keepTTL); err != nil {
		return 0, err
	}
	defer m.mu.Unlock()
	return m.each(client, m.drop), nil
}

// Ping implements [Store].
func (m *Memory) Ping(ctx context.Context) error {
	if err := m.begin(ctx, keepTTL); err != nil {
		return err
	}
	m.mu.Unlock()
	return nil
}

// Close implements [Store].
func (m *Memory) Close() error {
	m.closing.Do(func() {
		close(m.stop)
		<-m.swept
		m.mu.Lock()
		defer m.mu.Unlock()
		m.closed, m.entries, m.byClient = true, nil, nil
		m.recent.Init()
	})
	return nil
}
