package telemetry

import (
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// measured is a set of attributes in the forms in which instruments take it. To
// make one costs more than to record with it, so it is made once.
type measured struct {
	add    []metric.AddOption
	record []metric.RecordOption
}

func measure(attrs ...attribute.KeyValue) measured {
	set := metric.WithAttributeSet(attribute.NewSet(attrs...))
	return measured{[]metric.AddOption{set}, []metric.RecordOption{set}}
}

// made keeps what was made for a key, for as many keys as a metric may have series.
type made[K comparable, V any] struct {
	mu    sync.RWMutex
	known map[K]V
}

func (m *made[K, V]) of(key K, make func(K) V) V {
	m.mu.RLock()
	v, ok := m.known[key]
	m.mu.RUnlock()
	if ok {
		return v
	}
	v = make(key)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.known == nil || len(m.known) >= cardinalityLimit {
		m.known = map[K]V{}
	}
	m.known[key] = v
	return v
}

// labels make the attributes of a metric of their values.
type labels struct {
	keys []attribute.Key
	made[[3]string, measured]
}

func labelled(keys ...attribute.Key) *labels { return &labels{keys: keys} }

// of takes a value for each key.
func (l *labels) of(values ...string) measured {
	var key [3]string
	copy(key[:], values)
	return l.made.of(key, l.make)
}

func (l *labels) make(values [3]string) measured {
	var attrs []attribute.KeyValue
	for i, key := range l.keys {
		attrs = append(attrs, key.String(values[i]))
	}
	return measure(attrs...)
}
