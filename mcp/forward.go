package mcp

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"maps"
	"net/http"
	"slices"
	"time"
)

const (
	// maxForwarded bounds the connections of one server that carry forwarded
	// headers: each may hold an idle stream at the server.
	maxForwarded = 256
	// idleForwarded is how long such a connection is kept without a request. It
	// is longer than a turn usually takes.
	idleForwarded = 10 * time.Minute
	sweepInterval = 30 * time.Second
)

// connFor finds or starts the connection to a server for the headers of a
// client's request. It returns nil for an unknown server, and when there is no
// room for one more credential.
func (h *Host) connFor(name string, header http.Header) *conn {
	h.mu.RLock()
	s := h.servers[name]
	if s == nil {
		h.mu.RUnlock()
		return nil
	}
	forwarded, key := forwardedHeader(s.cfg.ForwardHeaders, header)
	c := s.plain
	if forwarded != nil {
		c = s.byCred[key]
	}
	h.mu.RUnlock()
	if c == nil {
		c = h.addForwarded(name, key, forwarded)
	}
	if c != nil {
		c.touch()
	}
	return c
}

func (h *Host) addForwarded(name, key string, forwarded http.Header) *conn {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.servers[name]
	if s == nil || h.closed {
		return nil
	}
	if c := s.byCred[key]; c != nil {
		return c
	}
	if len(s.byCred) >= maxForwarded && !s.dropOldest() {
		h.opts.Log.Warn("too many forwarded credentials in use", "server", name, "limit", maxForwarded)
		return nil
	}
	c := h.startConn(s.cfg, forwarded)
	s.byCred[key] = c
	return c
}

// dropOldest ends the connection that was not used for the longest time.
func (s *server) dropOldest() bool {
	var oldest string
	for key, c := range s.byCred {
		if c.running.Load() == 0 && (oldest == "" || c.used.Load() < s.byCred[oldest].used.Load()) {
			oldest = key
		}
	}
	if oldest == "" {
		return false
	}
	s.byCred[oldest].end()
	delete(s.byCred, oldest)
	return true
}

// sweepIdle ends forwarded connections that nobody uses.
func (h *Host) sweepIdle() {
	tick := time.NewTicker(sweepInterval)
	defer tick.Stop()
	for {
		select {
		case <-h.ctx.Done():
			return
		case now := <-tick.C:
			h.dropIdle(now.Add(-idleForwarded))
		}
	}
}

// dropIdle ends forwarded connections that were not used since limit.
func (h *Host) dropIdle(limit time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range h.servers {
		for key, c := range s.byCred {
			if c.running.Load() == 0 && c.used.Load() < limit.UnixNano() {
				c.end()
				delete(s.byCred, key)
			}
		}
	}
}

// successor is the connection that took the place of one that was ended by a
// reload or because it was idle; c itself if it still serves, nil if none.
func (h *Host) successor(c *conn) *conn {
	if c.ctx.Err() == nil {
		return c
	}
	return h.connFor(c.cfg.Name, c.forwarded)
}

// forwardedHeader takes the named headers out of a client's request, with a key
// that is equal only for equal values. With none of them present it is nil.
func forwardedHeader(names []string, header http.Header) (http.Header, string) {
	var forwarded http.Header
	for _, name := range names {
		if values := header.Values(name); len(values) > 0 {
			if forwarded == nil {
				forwarded = http.Header{}
			}
			forwarded[http.CanonicalHeaderKey(name)] = slices.Clone(values)
		}
	}
	if forwarded == nil {
		return nil, ""
	}
	// Lengths and counts go in front, so that no two sets write the same bytes.
	hash := sha256.New()
	count := func(n int) { hash.Write(binary.BigEndian.AppendUint64(nil, uint64(n))) }
	add := func(s string) { count(len(s)); hash.Write([]byte(s)) }
	for _, name := range slices.Sorted(maps.Keys(forwarded)) {
		add(name)
		count(len(forwarded[name]))
		for _, value := range forwarded[name] {
			add(value)
		}
	}
	return forwarded, hex.EncodeToString(hash.Sum(nil))
}
