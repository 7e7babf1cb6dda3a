package mcp

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
)

// sessions makes the script give each session an id of its own. known says whether
// a request in a session is taken; the others are answered with 404.
func (s *script) sessions(known func(session int, m heard) bool) {
	var mu sync.Mutex
	made := 0
	s.answer("POST initialize", func(w http.ResponseWriter, r *http.Request, m heard) {
		mu.Lock()
		made++
		id := made
		mu.Unlock()
		w.Header().Set(headerSession, fmt.Sprint(id))
		result(w, m, `{"protocolVersion":"`+s.version+`","capabilities":{"tools":{}},"serverInfo":{"name":"o","version":"1"}}`)
	})
	for _, key := range []string{"POST notifications/initialized", "POST tools/list", "POST tools/call"} {
		s.answer(key, func(w http.ResponseWriter, r *http.Request, m heard) {
			var id int
			_, _ = fmt.Sscan(m.header.Get(headerSession), &id)
			mu.Lock()
			ok := known(id, m)
			mu.Unlock()
			if !ok {
				http.Error(w, "no such session", http.StatusNotFound)
				return
			}
			s.small(w, r, m)
		})
	}
}

// Sessions that do not live long cost no call and no tool: each is made anew at once,
// and the call that found out is sent once more.
func TestShortSessions(t *testing.T) {
	for name, known := range map[string]func() func(int, heard) bool{
		"of two calls": func() func(int, heard) bool {
			calls := map[int]int{}
			return func(session int, m heard) bool {
				if m.key == "POST tools/call" {
					calls[session]++
				}
				return calls[session] <= 2
			}
		},
		"every third call": func() func(int, heard) bool {
			n := 0
			return func(_ int, m heard) bool {
				if m.key == "POST tools/call" {
					n++
				}
				return m.key != "POST tools/call" || n%3 != 0
			}
		},
		"every fifth message": func() func(int, heard) bool {
			n := 0
			return func(int, heard) bool { n++; return n%5 != 0 }
		},
		"ended when idle": func() func(int, heard) bool {
			seen := map[int]int{}
			return func(session int, _ heard) bool { seen[session]++; return seen[session] <= 3 }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScript(t)
			s.sessions(known())
			h := newTestHost(t, config("box", stateful, s.front))
			eventually(t, "connected", h.Ready)
			for i := range 12 {
				ts := toolsOf(t, h, "box")
				if len(ts.Tools()) != 2 {
					t.Fatalf("%d: %+v", i, h.Status())
				}
				if res := ts.Bind(nil).Call(t.Context(), "box__run", ""); res.Text != "done" {
					t.Errorf("%d: %+v", i, res)
				}
			}
		})
	}
}

// A server that knows none of the sessions that it makes is away, and is not asked again and
// again.
func TestSessionsAlwaysLost(t *testing.T) {
	for name, known := range map[string]func(session int, m heard) bool{
		"from the first":     func(int, heard) bool { return false },
		"when listing":       func(_ int, m heard) bool { return m.key != "POST tools/list" },
		"from the second on": func(session int, m heard) bool { return session == 1 && m.key != "POST tools/call" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScript(t)
			s.sessions(known)
			h := newTestHost(t, config("box", stateful, s.front))
			if b := toolsOf(t, h, "box").Bind(nil); b.Has("box__run") {
				if res := b.Call(t.Context(), "box__run", ""); !res.IsError {
					t.Errorf("%+v", res)
				}
			}
			eventually(t, "unavailable", func() bool { return h.Status()[0].State == string(phaseUnavailable) })
			if made := len(s.all("POST initialize")); made > 10 {
				t.Errorf("%d sessions", made)
			}
		})
	}
}
