package sessions

import (
	"container/list"
	"fmt"
	"time"
)

// kind keeps records, bags and leases of the same name apart.
type kind byte

const (
	record kind = 'r'
	bag    kind = 'b'
	lease  kind = 'l'
)

// What a key and a value or member cost beside their own bytes: maps, list
// element, headers. Rough, so that a store full of small ones stays in bounds.
const (
	perEntry = 512
	perValue = 64
)

type memoryKey struct {
	scope Scope
	kind  kind
	name  string
}

type entry struct {
	key     memoryKey
	fields  Fields              // of a record
	members map[string]struct{} // of a bag
	owner   string              // of a lease
	expires time.Time
	size    int64
	recent  *list.Element // nil for a lease
}

func (e *entry) has(member string) bool {
	_, ok := e.members[member]
	return ok
}

// live gives an entry that exists and has not expired.
func (m *Memory) live(k memoryKey) *entry {
	e := m.entries[k]
	if e != nil && !e.expires.After(time.Now()) {
		m.drop(e)
		return nil
	}
	return e
}

// use marks an entry as the last used and, if ttl is positive, sets when it ends.
func (m *Memory) use(e *entry, ttl time.Duration) {
	if ttl > 0 {
		e.expires = time.Now().Add(ttl)
	}
	if e.recent != nil {
		m.recent.MoveToFront(e.recent)
	}
}

// set writes fields into a record; old is what is live of it.
func (m *Memory) set(k memoryKey, old *entry, f Fields, ttl time.Duration) error {
	var grow int64
	for name, value := range f {
		grow += int64(len(name) + len(value) + perValue)
		if old != nil {
			if before, ok := old.fields[name]; ok {
				grow -= int64(len(name) + len(before) + perValue)
			}
		}
	}
	e, err := m.room(k, old, grow)
	if err != nil {
		return err
	}
	if e.fields == nil {
		e.fields = make(Fields, len(f))
	}
	for name, value := range f {
		e.fields[name] = append([]byte{}, value...)
	}
	m.use(e, ttl)
	m.watchers.wake(k)
	return nil
}

// room gives the entry of k, which is made if e is nil, after it grew by so many bytes
// and others went to make room for it.
func (m *Memory) room(k memoryKey, e *entry, grow int64) (*entry, error) {
	fresh := e == nil
	if fresh {
		e = &entry{key: k}
		grow += int64(len(k.scope.Client)+len(k.scope.ID)+len(k.name)) + perEntry
	}
	if e.size+grow > m.maxBytes {
		return nil, fmt.Errorf("%w: %d bytes of at most %d", ErrTooLarge, e.size+grow, m.maxBytes)
	}
	more := 0
	if fresh {
		more = 1
	} else {
		m.use(e, 0) // so that it is not the one to go
	}
	for len(m.entries)+more > m.maxEntries || m.bytes+grow > m.maxBytes {
		oldest := m.recent.Back()
		if oldest == nil || oldest == e.recent {
			return nil, fmt.Errorf("%w: full of leases", ErrUnavailable)
		}
		m.drop(oldest.Value.(*entry))
	}
	if fresh {
		m.insert(e)
	}
	m.resize(e, grow)
	return e, nil
}

func (m *Memory) insert(e *entry) {
	m.entries[e.key] = e
	client := e.key.scope.Client
	if m.byClient[client] == nil {
		m.byClient[client] = map[*entry]struct{}{}
	}
	m.byClient[client][e] = struct{}{}
	if e.key.kind != lease {
		e.recent = m.recent.PushFront(e)
	}
}

func (m *Memory) resize(e *entry, by int64) {
	e.size += by
	m.bytes += by
}

// drop takes an entry out, for whatever reason.
func (m *Memory) drop(e *entry) {
	delete(m.entries, e.key)
	client := e.key.scope.Client
	delete(m.byClient[client], e)
	if len(m.byClient[client]) == 0 {
		delete(m.byClient, client)
	}
	if e.recent != nil {
		m.recent.Remove(e.recent)
	}
	m.bytes -= e.size
	if e.key.kind == record {
		m.watchers.wake(e.key)
	}
}

// each calls do with the live entries of a client and gives their number.
func (m *Memory) each(client string, do func(*entry)) int {
	n, now := 0, time.Now()
	for e := range m.byClient[client] {
		if e.expires.After(now) {
			n++
			do(e)
		}
	}
	return n
}

// sweep frees what has expired, until Close.
func (m *Memory) sweep() {
	defer close(m.swept)
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-m.stop:
			return
		case now := <-tick.C:
			m.mu.Lock()
			for _, e := range m.entries {
				if !e.expires.After(now) {
					m.drop(e)
				}
			}
			m.mu.Unlock()
		}
	}
}

// Len gives the number of keys and the bytes they are counted with, expired ones
// that were not swept yet included; for metrics.
func (m *Memory) Len() (entries int, size int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.entries), m.bytes
}
