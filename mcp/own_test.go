package mcp

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// ownFailure makes the tools of a script answer in every session as if they did not know
// it, with an error of their own. The script tells whether it knows the session at all.
func (s *script) ownFailure(status int, rpc string, knows func(session int) bool) {
	s.sessions(func(session int, _ heard) bool { return knows(session) })
	s.answer("POST tools/call", func(w http.ResponseWriter, _ *http.Request, m heard) {
		text := rpc
		if strings.Contains(rpc, "%s") {
			text = fmt.Sprintf(rpc, m.id)
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		fmt.Fprint(w, text)
	})
}

// An error of a tool that looks like a lost session is found out by one new session, and
// then told to the model as what it is, without a second run.
func TestOwnErrorsOfTools(t *testing.T) {
	for name, row := range map[string]struct {
		status     int
		rpc, model string
	}{
		"404":                    {404, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32000,"message":"no such user"}}`, "no such user (code -32000)"},
		"404, id null":           {404, `{"jsonrpc":"2.0","id":null,"error":{"code":-32004,"message":"no such user","data":{"id":7}}}`, `no such user (code -32004); data: {"id":7}`},
		"404 about a session":    {404, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32001,"message":"no such training session"}}`, "no such training session (code -32001)"},
		"400 that names session": {400, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32000,"message":"the session of the browser is closed"}}`, "the session of the browser is closed (code -32000)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScript(t)
			s.ownFailure(row.status, row.rpc, func(int) bool { return true })
			h := newTestHost(t, config("box", stateful, s.front))
			b := toolsOf(t, h, "box").Bind(nil)
			for i, tool := range []string{"run", "run", "run", "pure", "run", "pure"} {
				want := "box__" + tool + " failed: server error: " + row.model
				if res := b.Call(t.Context(), "box__"+tool, ""); res.Text != want || res.Outcome != OutcomeToolError {
					t.Errorf("%d: %+v", i, res)
				}
			}
			if calls, sessions := len(s.all("POST tools/call")), len(s.all("POST initialize")); calls != 6+2 || sessions != 1+2 {
				t.Errorf("%d calls and %d sessions, want one more of each for each tool", calls, sessions)
			}
			s.answer("POST tools/call", s.small)
			if res := b.Call(t.Context(), "box__run", ""); res.Text != "done" {
				t.Errorf("%+v", res)
			}
		})
	}
}

// A session that is lost heals although a tool has such errors of its own: at once if it
// is answered otherwise, and else as soon as a list shows it.
func TestSessionLostBesideOwnErrors(t *testing.T) {
	for name, row := range map[string]struct {
		lost string // answer to the call
		want string
		runs int // of the call
	}{
		"without a body":    {"", "done", 2},
		"with another code": {`{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}`, "done", 2},
		"in the same way":   {`{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"unknown"}}`, "box__run failed: server error: unknown (code -32000)", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScript(t)
			var oldest atomic.Int64 // session that the server knows
			known := func(session int) bool { return int64(session) >= oldest.Load() }
			s.ownFailure(404, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32000,"message":"no such user"}}`, known)
			h := newTestHost(t, config("box", stateful, s.front))
			b := toolsOf(t, h, "box").Bind(nil)
			b.Call(t.Context(), "box__run", "") // makes the second session
			c := h.connFor("box", nil)
			accused := &c.current.Load().session.accused
			eventually(t, "the look at the server", func() bool { return c.listed.Load() > accused.Load() })
			accused.Store(0) // long ago
			oldest.Store(3)
			s.answer("POST tools/call", func(w http.ResponseWriter, r *http.Request, m heard) {
				if m.header.Get(headerSession) == "2" {
					w.Header().Set("Content-Type", "application/json")
					w.WriteHeader(http.StatusNotFound)
					fmt.Fprint(w, row.lost)
					return
				}
				s.small(w, r, m)
			})
			before := len(s.all("POST tools/call"))
			if res := b.Call(t.Context(), "box__run", ""); res.Text != row.want {
				t.Errorf("%+v", res)
			}
			if n := len(s.all("POST tools/call")) - before; n != row.runs {
				t.Errorf("sent %d times", n)
			}
			eventually(t, "another session", func() bool { return len(s.all("POST initialize")) == 3 && h.Ready() })
			if res := toolsOf(t, h, "box").Bind(nil).Call(t.Context(), "box__run", ""); res.Text != "done" {
				t.Errorf("%+v", res)
			}
			same := answer{rpc: &jsonrpc.Error{Code: -32000}, status: 404, lost: true}
			if kept := c.own.has("run", same, false); kept != (row.runs == 2) {
				t.Errorf("the tool's own error is kept: %v", kept)
			}
		})
	}
}

// A server may not know what a cancellation is about, and say so as if it did not know
// the session: that one stays.
func TestCancellationRefused(t *testing.T) {
	for name, body := range map[string]string{"plain": "", "an error": `{"jsonrpc":"2.0","id":null,"error":{"code":-32602,"message":"unknown request"}}`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScript(t)
			s.sessions(func(int, heard) bool { return true })
			s.answer("POST tools/call", func(w http.ResponseWriter, r *http.Request, m heard) {
				if m.get("params.name").String() == "run" {
					<-r.Context().Done()
					return
				}
				s.small(w, r, m)
			})
			s.answer("POST notifications/cancelled", func(w http.ResponseWriter, _ *http.Request, _ heard) {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(http.StatusNotFound)
				fmt.Fprint(w, body)
			})
			h := newTestHost(t, config("box", stateful, s.front))
			b := toolsOf(t, h, "box").Bind(nil)
			lists := len(s.all("POST tools/list"))
			for n := range 2 {
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(50*time.Millisecond, cancel)
				b.Call(ctx, "box__run", "")
				eventually(t, "the cancellation", func() bool { return len(s.all("POST notifications/cancelled")) == n+1 })
			}
			eventually(t, "the look at the server", func() bool { return len(s.all("POST tools/list")) > lists })
			if res := b.Call(t.Context(), "box__pure", ""); res.Text != "done" {
				t.Errorf("%+v", res)
			}
			if made, looks := len(s.all("POST initialize")), len(s.all("POST tools/list"))-lists; made != 1 || looks != 1 {
				t.Errorf("%d sessions, and %d looks at the server", made, looks)
			}
		})
	}
}

// What is kept of errors is bounded, and for a tool as it was.
func TestOwnErrorsKept(t *testing.T) {
	var own ownErrors
	lost := func(code int64) answer { return answer{rpc: &jsonrpc.Error{Code: code}, status: 404, lost: true} }
	for code := range int64(maxOwn + 1) {
		if own.has("run", lost(code), false) || !own.has("run", lost(code), true) || !own.has("run", lost(code), false) || own.has("other", lost(code), false) {
			t.Fatal(code)
		}
	}
	if len(own.known) > maxOwn {
		t.Errorf("%d are kept", len(own.known))
	}
	if own.forget(); own.has("run", lost(maxOwn), false) {
		t.Error("not forgotten")
	}
	if own.has("run", answer{status: 404, lost: true}, true) {
		t.Error("an answer without an error of JSON-RPC can be no tool's")
	}
}

// Tools that have changed may mean other things by their errors.
func TestOwnErrorsOfChangedTools(t *testing.T) {
	t.Parallel()
	s := newScript(t)
	s.ownFailure(404, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32000,"message":"no such user"}}`, func(int) bool { return true })
	h := newTestHost(t, config("box", stateful, s.front))
	b := toolsOf(t, h, "box").Bind(nil)
	b.Call(t.Context(), "box__run", "")
	s.answer("POST tools/list", func(w http.ResponseWriter, _ *http.Request, m heard) {
		result(w, m, `{"tools":[{"name":"run","description":"new","inputSchema":{"type":"object"}}]}`)
	})
	nudge(h.connFor("box", nil).suspect)
	eventually(t, "the new list", func() bool { return h.Status()[0].Tools == 1 })
	b.Call(t.Context(), "box__run", "")
	if calls, sessions := len(s.all("POST tools/call")), len(s.all("POST initialize")); calls != 4 || sessions != 3 {
		t.Errorf("%d calls and %d sessions", calls, sessions)
	}
}

// A prompt that the server does not know, and a log level that it does not take, are no
// signs of a lost session for ever either.
func TestOwnErrorsBesideCalls(t *testing.T) {
	for method, sessions := range map[string]int{"prompts/get": 1 + 3, "logging/setLevel": 1} { // at most one more for each prompt
		for name, row := range map[string]struct {
			session string
			status  int
			rpc     string
		}{
			"404":                    {"s-1", 404, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32002,"message":"unknown"}}`},
			"404 without a body":     {"s-1", 404, ""},
			"400 that names session": {"s-1", 400, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32000,"message":"the training session is over"}}`},
			"404, no session":        {"", 404, ""},
		} {
			t.Run(method+" "+name, func(t *testing.T) {
				t.Parallel()
				s := newScript(t)
				s.answer("POST initialize", func(w http.ResponseWriter, _ *http.Request, m heard) {
					if row.session != "" {
						w.Header().Set(headerSession, row.session)
					}
					result(w, m, `{"protocolVersion":"2025-06-18","capabilities":{"tools":{},"prompts":{},"logging":{}},"serverInfo":{"name":"o","version":"1"}}`)
				})
				s.answer("POST prompts/list", func(w http.ResponseWriter, _ *http.Request, m heard) {
					result(w, m, `{"prompts":[{"name":"p1"},{"name":"p2"},{"name":"p3"}]}`)
				})
				for other, text := range map[string]string{"prompts/get": `{"messages":[{"role":"user","content":{"type":"text","text":"Be kind."}}]}`, "logging/setLevel": `{}`} {
					s.answer("POST "+other, func(w http.ResponseWriter, _ *http.Request, m heard) {
						if other != method {
							result(w, m, text)
							return
						}
						w.Header().Set("Content-Type", "application/json")
						w.WriteHeader(row.status)
						if row.rpc != "" {
							fmt.Fprintf(w, row.rpc, m.id)
						}
					})
				}
				h := newTestHost(t, config("box", stateful, s.front))
				toolsOf(t, h, "box")
				c := h.connFor("box", nil)
				asked := 1
				if method == "prompts/get" {
					asked = 2 * 3 // again in the session after the first
				}
				eventually(t, "a session that stays", func() bool {
					st := c.current.Load()
					return len(s.all("POST "+method)) >= asked && st.session != nil && !isClosed(st.session.dead) && isClosed(st.whole)
				})
				for range 2 {
					lists := len(s.all("POST tools/list"))
					nudge(c.suspect)
					eventually(t, "another look", func() bool { return len(s.all("POST tools/list")) > lists })
				}
				if res := toolsOf(t, h, "box").Bind(nil).Call(t.Context(), "box__run", ""); res.Text != "done" {
					t.Errorf("%+v", res)
				}
				if n := len(s.all("POST initialize")); n > sessions {
					t.Errorf("%d sessions", n)
				}
			})
		}
	}
}
