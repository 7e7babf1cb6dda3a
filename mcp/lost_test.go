package mcp

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
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

// refuse answers a request with an error, without an id if the status is none of success.
func refuse(w http.ResponseWriter, m heard, status int, rpc string) {
	id := m.id
	if status >= 400 {
		id = "null"
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":%s}`, id, rpc)
}

// refusing makes the script give each session an id, and refuse requests in some of them.
func (s *script) refusing(status int, rpc string, refused func(session int, m heard) bool) {
	s.sessions(func(int, heard) bool { return true })
	for _, key := range []string{"POST tools/list", "POST tools/call"} {
		s.answer(key, func(w http.ResponseWriter, r *http.Request, m heard) {
			var id int
			_, _ = fmt.Sscan(m.header.Get(headerSession), &id)
			if refused(id, m) {
				refuse(w, m, status, rpc)
				return
			}
			s.small(w, r, m)
		})
	}
}

// refusals are what servers answer in a session that they do not know.
var refusals = map[string]struct {
	status int
	rpc    string
}{
	"invalid parameters":     {200, `{"code":-32602,"message":"Invalid request parameters","data":""}`},
	"unknown client":         {400, `{"code":-32000,"message":"Bad Request: Unknown client"}`},
	"invalid request":        {400, `{"code":-32600,"message":"Invalid Request"}`},
	"initialize first":       {200, `{"code":-32002,"message":"client must initialize first"}`},
	"method not found":       {200, `{"code":-32601,"message":"Method not found"}`},
	"another revision":       {400, `{"code":-32022,"message":"Unsupported","data":{"supported":["2025-11-25"]}}`},
	"header mismatch":        {400, `{"code":-32020,"message":"Header mismatch"}`},
	"another code, with 409": {409, `{"code":7,"message":"who are you?"}`},
}

// A session that the server does not know any more, and says so in whatever words, is made
// anew soon after a call has shown it, and only once.
func TestSessionsThatServersRefuse(t *testing.T) {
	for name, refusal := range refusals {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScript(t)
			var restarted atomic.Bool
			s.refusing(refusal.status, refusal.rpc, func(session int, _ heard) bool { return session == 1 && restarted.Load() })
			h := newTestHost(t, config("box", stateful, s.front))
			b := toolsOf(t, h, "box").Bind(nil)
			if res := b.Call(t.Context(), "box__run", ""); res.Text != "done" {
				t.Fatalf("%+v", res)
			}
			restarted.Store(true)
			calls := len(s.all("POST tools/call"))
			if res := b.Call(t.Context(), "box__run", ""); !res.IsError {
				t.Errorf("%+v", res)
			}
			if n := len(s.all("POST tools/call")); n != calls+1 {
				t.Errorf("the call was sent %d times", n-calls)
			}
			eventually(t, "another session", func() bool { return len(s.all("POST initialize")) == 2 })
			if res := toolsOf(t, h, "box").Bind(nil).Call(t.Context(), "box__run", ""); res.Text != "done" {
				t.Errorf("%+v", res)
			}
			if st := h.Status()[0]; !strings.Contains(st.LastError, "the server refuses requests in this session now: server error") {
				t.Errorf("%+v", st)
			}
			if n := len(s.all("POST initialize")); n != 2 {
				t.Errorf("%d sessions", n)
			}
		})
	}
}

// The same of a server that has resources alone.
func TestSessionsOfResourcesThatServersRefuse(t *testing.T) {
	for name, refusal := range refusals {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScript(t)
			var restarted atomic.Bool
			s.answer("POST initialize", func(w http.ResponseWriter, _ *http.Request, m heard) {
				w.Header().Set(headerSession, fmt.Sprint(len(s.all("POST initialize"))))
				result(w, m, `{"protocolVersion":"2025-11-25","capabilities":{"resources":{}},"serverInfo":{"name":"o","version":"1"}}`)
			})
			for key, told := range map[string]string{
				"POST tools/list":     "",
				"POST resources/list": `{"resources":[{"name":"one","uri":"a:1"}]}`,
				"POST resources/read": `{"contents":[{"uri":"a:1","text":"done"}]}`,
			} {
				s.answer(key, func(w http.ResponseWriter, _ *http.Request, m heard) {
					switch {
					case restarted.Load() && m.header.Get(headerSession) == "1":
						refuse(w, m, refusal.status, refusal.rpc)
					case told == "":
						refuse(w, m, 200, `{"code":-32601,"message":"Method not found"}`)
					default:
						result(w, m, told)
					}
				})
			}
			h := newTestHost(t, config("box", stateful, s.front))
			eventually(t, "the resource", func() bool { return h.Status()[0].Resources == 1 })
			c := h.connFor("box", nil)
			restarted.Store(true)
			c.doubt(c.current.Load().session)
			eventually(t, "another session", func() bool { return len(s.all("POST initialize")) == 2 && h.Ready() })
			for range 2 {
				lists := len(s.all("POST tools/list"))
				nudge(c.suspect)
				eventually(t, "another look", func() bool { return len(s.all("POST tools/list")) > lists })
			}
			if st := h.Status()[0]; st.State != "connected" || st.Resources != 1 || len(s.all("POST initialize")) != 2 {
				t.Errorf("%+v", st)
			}
		})
	}
}

// A server whose list of tools broke, and not its sessions, gets one new session when
// nothing shows that the old one works, and none when calls do. Its tools stay.
func TestBrokenToolsList(t *testing.T) {
	for name, of := range map[string]struct {
		called  bool
		message string
	}{
		"idle":            {false, "KeyError"},
		"in use":          {true, "KeyError"},
		"about a session": {false, "Database session expired"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			called := of.called
			s := newScript(t)
			var broken atomic.Bool
			var b *Binding
			s.refusing(200, fmt.Sprintf(`{"code":-32603,"message":%q}`, of.message), func(_ int, m heard) bool {
				if !broken.Load() || m.key != "POST tools/list" {
					return false
				}
				if called {
					if res := b.Call(t.Context(), "box__run", ""); res.Text != "done" {
						t.Errorf("%+v", res)
					}
				}
				return true
			})
			h := newTestHost(t, config("box", stateful, s.front))
			b = toolsOf(t, h, "box").Bind(nil)
			broken.Store(true)
			want := 2
			if called {
				want = 1
			}
			for range 6 {
				lists := len(s.all("POST tools/list"))
				nudge(h.connFor("box", nil).suspect)
				eventually(t, "another look", func() bool { return len(s.all("POST tools/list")) > lists })
			}
			eventually(t, "the session", func() bool { return len(s.all("POST initialize")) == want && h.Ready() })
			if st := h.Status()[0]; st.State != "connected" || st.Tools != 2 || !strings.Contains(st.LastError, of.message) {
				t.Errorf("%+v", st)
			}
			if res := toolsOf(t, h, "box").Bind(nil).Call(t.Context(), "box__run", ""); res.Text != "done" {
				t.Errorf("%+v", res)
			}
			broken.Store(false)
			nudge(h.connFor("box", nil).suspect)
			listed := h.Status()[0].Listed
			eventually(t, "the list again", func() bool { return h.Status()[0].Listed.After(listed) })
			if n := len(s.all("POST initialize")); n != want {
				t.Errorf("%d sessions", n)
			}
		})
	}
}

// What is wrong in the arguments of calls, and repeated errors, cost no looks at the server.
func TestAccusingErrors(t *testing.T) {
	for text, want := range map[string]bool{
		`{"code":-32602,"message":"Invalid request parameters"}`:                                       true,
		`{"code":-32602,"message":"MCP error -32602: Invalid arguments for tool run: [...]"}`:          false,
		`{"code":-32602,"message":"Input validation error: 'path' is a required property"}`:            false,
		`{"code":-32601,"message":"Method not found"}`:                                                 true,
		`{"code":-32603,"message":"Internal error"}`:                                                   false,
		`{"code":-32000,"message":"the disk is full"}`:                                                 false,
		`{"code":-32000,"message":"no such session"}`:                                                  true,
		`{"code":-32602,"message":"No valid session","data":"MCP server is not initialized"}`:          true,
		`{"code":-32022,"message":"Unsupported protocol version","data":{"supported":["2026-07-28"]}}`: true,
	} {
		rpc := rpcErrorIn([]byte(`{"error":` + text + `}`))
		if got := new(session).accuses(answer{rpc: rpc}); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
	for text, status := range map[string]int{"x": http.StatusBadRequest, "no such session": http.StatusOK} {
		s, again := new(session), answer{rpc: &jsonrpc.Error{Code: -32000, Message: text}, status: status}
		if !s.accuses(again) || s.accuses(again) {
			t.Errorf("%s: a model could have the server asked as often as it likes", text)
		}
	}
}

// What a session's calls show decides whether a list that fails speaks against it.
func TestDisowned(t *testing.T) {
	broken, revised := &jsonrpc.Error{Code: -32602, Message: "no"}, &jsonrpc.Error{Code: -32000, Message: "Unsupported protocol version"}
	for name, row := range map[string]struct {
		before func(k *keeper)
		err    error
		ends   int // at which look; 0: never
	}{
		"nothing else":              {func(*keeper) {}, broken, 2},
		"another revision":          {func(*keeper) {}, revised, 1},
		"a call that worked before": {func(k *keeper) { k.session.resulted.Store(time.Now().UnixNano()) }, broken, 2},
		"calls that work":           {func(k *keeper) { k.session.resulted.Store(time.Now().Add(time.Hour).UnixNano()) }, broken, 0},
		"calls that fail since": {func(k *keeper) {
			k.session.resulted.Store(time.Now().Add(time.Hour).UnixNano())
			k.session.accused.Store(time.Now().Add(2 * time.Hour).UnixNano())
		}, broken, 2},
		"never listed, idle":       {func(k *keeper) { k.session.unlisted = true }, broken, 0},
		"never listed, calls fail": {func(k *keeper) { k.session.unlisted = true; k.session.accused.Store(1) }, broken, 60},
		"no error of the server":   {func(*keeper) {}, errNotMCP, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := &keeper{session: &session{opened: time.Now()}}
				row.before(k)
				ended := 0
				for look := 1; look <= 100 && ended == 0; look++ {
					time.Sleep(recheck)
					if k.disowned(row.err) != nil {
						ended = look
					}
				}
				if ended != row.ends {
					t.Errorf("at look %d, want %d", ended, row.ends)
				}
			})
		})
	}
}
