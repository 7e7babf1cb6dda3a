package sessions

import "sync"

// watchers are the channels that wait for changes, by what they watch.
type watchers[K comparable] struct {
	mu    sync.Mutex
	byKey map[K]map[chan struct{}]struct{}
	// changed is called when a key gets its first watcher or loses its last one.
	changed func()
}

func (w *watchers[K]) add(key K) (<-chan struct{}, func()) {
	c := make(chan struct{}, 1)
	w.mu.Lock()
	if w.byKey == nil {
		w.byKey = map[K]map[chan struct{}]struct{}{}
	}
	if w.byKey[key] == nil {
		w.byKey[key] = map[chan struct{}]struct{}{}
	}
	w.byKey[key][c] = struct{}{}
	first := len(w.byKey[key]) == 1
	w.mu.Unlock()
	if first {
		w.notify()
	}
	return c, sync.OnceFunc(func() { w.remove(key, c) })
}

func (w *watchers[K]) remove(key K, c chan struct{}) {
	w.mu.Lock()
	delete(w.byKey[key], c)
	last := len(w.byKey[key]) == 0
	if last {
		delete(w.byKey, key)
	}
	w.mu.Unlock()
	if last {
		w.notify()
	}
}

func (w *watchers[K]) notify() {
	if w.changed != nil {
		w.changed()
	}
}

// wake leaves a token with everybody who watches key.
func (w *watchers[K]) wake(key K) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.byKey[key] {
		select {
		case c <- struct{}{}:
		default: // one is there already, and one is enough
		}
	}
}

// keys gives the keys that are watched now.
func (w *watchers[K]) keys() map[K]bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	keys := make(map[K]bool, len(w.byKey))
	for k := range w.byKey {
		keys[k] = true
	}
	return keys
}
