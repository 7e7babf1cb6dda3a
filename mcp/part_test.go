package mcp

import (
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// When a later page fails, what came is of use, together with what was known; the list
// is tried again soon.
func TestLaterPageFails(t *testing.T) {
	for name, fail := range map[string]func(w http.ResponseWriter, m heard){
		"invalid cursor": func(w http.ResponseWriter, m heard) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"Invalid cursor"}}`, m.id)
		},
		"404": func(w http.ResponseWriter, _ heard) { w.WriteHeader(http.StatusNotFound) },
		"no such session": func(w http.ResponseWriter, _ heard) {
			http.Error(w, "unknown session cursor", http.StatusBadRequest)
		},
		"404 with an error": func(w http.ResponseWriter, m heard) {
			refuse(w, m, http.StatusNotFound, `{"code":-32601,"message":"Unknown page"}`)
		},
		"503": func(w http.ResponseWriter, _ heard) { w.WriteHeader(http.StatusServiceUnavailable) },
		"broken": func(w http.ResponseWriter, _ heard) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, "{")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var broken atomic.Bool
			broken.Store(true)
			s := newScript(t)
			s.answer("POST tools/list", func(w http.ResponseWriter, _ *http.Request, m heard) {
				switch {
				case m.get("params.cursor").String() == "":
					result(w, m, `{"tools":[{"name":"one","inputSchema":{"type":"object"}}],"nextCursor":"2"}`)
				case broken.Load():
					fail(w, m)
				default:
					result(w, m, `{"tools":[{"name":"two","inputSchema":{"type":"object"}}]}`)
				}
			})
			var log buffer
			h := startHost(t, Options{Servers: []Server{config("box", stateful, s.front)}, Log: logTo(&log)})
			if b := toolsOf(t, h, "box").Bind(nil); !b.Has("box__one") || b.Has("box__two") {
				t.Fatalf("%q, %+v", injected(b), h.Status())
			}
			if !strings.Contains(log.String(), "could not all be listed") {
				t.Error("it is not told")
			}
			broken.Store(false)
			eventually(t, "the rest", func() bool { return toolsOf(t, h, "box").Bind(nil).Has("box__two") })
			broken.Store(true)
			lists := len(s.all("POST tools/list"))
			nudge(h.connFor("box", nil).suspect)
			eventually(t, "another look", func() bool { return len(s.all("POST tools/list")) >= lists+4 })
			if b := toolsOf(t, h, "box").Bind(nil); !b.Has("box__one") || !b.Has("box__two") {
				t.Errorf("%q", injected(b))
			}
			if n := strings.Count(log.String(), "could not all be listed"); n > 2 {
				t.Errorf("told %d times", n)
			}
			want := 1
			if lostAt[name] {
				want = 3 // one more whenever the page begins to fail
			}
			if n := len(s.all("POST initialize")); n != want {
				t.Errorf("%d sessions", n)
			}
		})
	}
}

// lostAt are the failures that may mean a lost session.
var lostAt = map[string]bool{"404": true, "404 with an error": true, "no such session": true}

// The same of a list beside the tools, at its first page too, and of a server without
// sessions.
func TestPagesNotFound(t *testing.T) {
	for name, row := range map[string]struct {
		method, cursor string
		session        string
		sessions       int
	}{
		"resources":                 {"resources/list", "", "s-1", 2},
		"more resources":            {"resources/list", "2", "s-1", 2},
		"more tools":                {"tools/list", "2", "s-1", 2},
		"resources, no session":     {"resources/list", "", "", 1},
		"more tools, no session":    {"tools/list", "2", "", 1},
		"more prompts, no session ": {"prompts/list", "2", "", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScript(t)
			s.answer("POST initialize", func(w http.ResponseWriter, _ *http.Request, m heard) {
				if row.session != "" {
					w.Header().Set(headerSession, row.session)
				}
				result(w, m, `{"protocolVersion":"2025-06-18","capabilities":{"tools":{},"resources":{},"prompts":{}},"serverInfo":{"name":"o","version":"1"}}`)
			})
			for method, items := range map[string]string{
				"tools/list":     `"tools":[{"name":"run","inputSchema":{"type":"object"}}]`,
				"resources/list": `"resources":[{"name":"one","uri":"a:1"}]`,
				"prompts/list":   `"prompts":[{"name":"p","arguments":[{"name":"x"}]}]`,
			} {
				s.answer("POST "+method, func(w http.ResponseWriter, _ *http.Request, m heard) {
					switch cursor := m.get("params.cursor").String(); {
					case method == row.method && cursor == row.cursor:
						w.WriteHeader(http.StatusNotFound)
					case method == row.method && cursor == "":
						result(w, m, `{`+items+`,"nextCursor":"2"}`)
					default:
						result(w, m, `{`+items+`}`)
					}
				})
			}
			h := newTestHost(t, config("box", stateful, s.front))
			toolsOf(t, h, "box")
			failing := func() int { return len(s.all("POST " + row.method)) }
			eventually(t, "the rest", func() bool {
				st := h.Status()[0]
				return st.State == "connected" && st.Prompts == 1 && (row.method != "resources/list" || failing() > 1)
			})
			for range 2 {
				lists := len(s.all("POST tools/list"))
				nudge(h.connFor("box", nil).suspect)
				eventually(t, "another look", func() bool { return len(s.all("POST tools/list")) > lists })
			}
			if res := toolsOf(t, h, "box").Bind(nil).Call(t.Context(), "box__run", ""); res.Text != "done" {
				t.Errorf("%+v, %+v", res, h.Status())
			}
			if n := len(s.all("POST initialize")); n != row.sessions {
				t.Errorf("%d sessions", n)
			}
		})
	}
}

// A change that could not be listed when it was announced is listed soon after.
func TestAnnouncedListFails(t *testing.T) {
	t.Parallel()
	s := newScript(t)
	var now atomic.Int32 // 0: the old tool, 1: an error, 2: the new tool
	changed := make(chan bool)
	s.answer("POST tools/list", func(w http.ResponseWriter, _ *http.Request, m heard) {
		switch now.Load() {
		case 0:
			result(w, m, `{"tools":[{"name":"old","inputSchema":{"type":"object"}}]}`)
		case 1:
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32603,"message":"reloading"}}`, m.id)
		default:
			result(w, m, `{"tools":[{"name":"new","inputSchema":{"type":"object"}}]}`)
		}
	})
	s.answer("GET", func(w http.ResponseWriter, r *http.Request, _ heard) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.(http.Flusher).Flush()
		select {
		case <-changed:
			event(w, `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
		case <-r.Context().Done():
		}
		<-r.Context().Done()
	})
	h := newTestHost(t, config("box", stateful, s.front))
	toolsOf(t, h, "box")
	now.Store(1)
	lists := len(s.all("POST tools/list"))
	changed <- true
	eventually(t, "a list that fails", func() bool { return len(s.all("POST tools/list")) > lists })
	now.Store(2)
	eventually(t, "the new tool", func() bool { return toolsOf(t, h, "box").Bind(nil).Has("box__new") })
}

// The pauses after failures grow from short ones to the usual.
func TestPausesAfterFailedLists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := freshness{refreshed: time.Now()}
		for _, want := range []time.Duration{recheck, 2 * recheck, 4 * recheck, 8 * recheck, 16 * recheck, 32 * recheck, refreshInterval, refreshInterval} {
			if f.next(time.Hour, true, f.failed == 0); f.due.Sub(f.refreshed) != want {
				t.Errorf("%v, want %v", f.due.Sub(f.refreshed), want)
			}
		}
		if f.past {
			t.Error("a change is looked for without end")
		}
		if f.next(time.Hour, false, false); f.due.Sub(f.refreshed) != time.Hour || f.failed != 0 {
			t.Errorf("%+v", f)
		}
		if f.next(time.Hour, true, true); f.due.Sub(f.refreshed) != recheck || !f.past {
			t.Errorf("%+v", f)
		}
	})
}

// Entries that are no tools are counted in the log, once.
func TestNamelessTools(t *testing.T) {
	t.Parallel()
	s := newScript(t)
	s.answer("POST tools/list", func(w http.ResponseWriter, _ *http.Request, m heard) {
		result(w, m, `{"tools":[{"inputSchema":{"type":"object"}},{"name":"","inputSchema":{"type":"object"}},7,null,"run",{"name":"run","inputSchema":{"type":"object"}}]}`)
	})
	var log buffer
	h := startHost(t, Options{Servers: []Server{config("box", stateful, s.front)}, Log: slog.New(slog.NewJSONHandler(&log, nil))})
	if b := toolsOf(t, h, "box").Bind(nil); !b.Has("box__run") || len(b.List()) != 1 {
		t.Errorf("%q", injected(b))
	}
	lists := len(s.all("POST tools/list"))
	nudge(h.connFor("box", nil).suspect)
	eventually(t, "another look", func() bool { return len(s.all("POST tools/list")) > lists })
	eventually(t, "its end", func() bool { return h.Status()[0].State == "connected" })
	if n := strings.Count(log.String(), `"entries":5`); n != 1 {
		t.Errorf("%d lines: %s", n, log.String())
	}
}
