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

// connFor finds or starts the connection to a server for the client's request
// with these headers. It returns nil for an unknown server, and when there is no
// room for one more caller.
func (h *Host) connFor(name string, header http.Header) *conn {
	h.mu.RLock()
	s := h.servers[name]
	h.mu.RUnlock()
	if s == nil {
		return nil
	}
	return h.connOf(name, callerOf(s.cfg, header))
}

// connOf is connFor with what callerOf has taken out already.
func (h *Host) connOf(name string, who caller) *conn {
	key := who.key()
	h.mu.RLock()
	s := h.servers[name]
	if s == nil {
		h.mu.RUnlock()
		return nil
	}
	c := s.plain
	if key != "" {
		c = s.byCred[key]
	}
	h.mu.RUnlock()
	if c == nil {
		c = h.addForwarded(name, key, who)
	}
	if c != nil {
		c.touch()
	}
	return c
}

func (h *Host) addForwarded(name, key string, who caller) *conn {
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
	c := h.startConn(s, who)
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
	return h.connOf(c.cfg.Name, c.caller)
}

// caller is what a client's request brings for one server. Each caller has
// connections of its own.
type caller struct {
	forwarded http.Header // sent as they are; nil for none
	subject   string      // the token to exchange, never sent to the server
}

// callerOf takes out of a client's request what is meant for a server. It is the
// zero caller where there is nothing, and where a server that knows every caller
// by a token of its own gets none.
func callerOf(cfg *Server, header http.Header) caller {
	who := caller{subject: cfg.Auth.Subject(header)}
	if who.subject == "" && cfg.Auth.PerCaller() {
		return caller{}
	}
	for _, name := range cfg.ForwardHeaders {
		if values := header.Values(name); len(values) > 0 {
			if who.forwarded == nil {
				who.forwarded = http.Header{}
			}
			who.forwarded[http.CanonicalHeaderKey(name)] = slices.Clone(values)
		}
	}
	return who
}

// key is equal only for equal callers, does not tell what they brought, and is
// empty for the zero caller.
func (who caller) key() string {
	if who.forwarded == nil && who.subject == "" {
		return ""
	}
	// Lengths and counts go in front, so that no two sets write the same bytes.
	hash := sha256.New()
	count := func(n int) { hash.Write(binary.BigEndian.AppendUint64(nil, uint64(n))) }
	add := func(s string) { count(len(s)); hash.Write([]byte(s)) }
	add(who.subject)
	for _, name := range slices.Sorted(maps.Keys(who.forwarded)) {
		add(name)
		count(len(who.forwarded[name]))
		for _, value := range who.forwarded[name] {
			add(value)
		}
	}
	return hex.EncodeToString(hash.Sum(nil))
}
