package mcp

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

// A server that refuses our revision and names others gets one of these, and a
// server that names none that is known is told as it is.
func TestRevisionIsNegotiated(t *testing.T) {
	for name, row := range map[string]struct {
		status int
		refuse string // the error
		takes  string // the only revision that it takes
		want   string // that is agreed on, "" for none
	}{
		"-32602":         {200, `{"code":-32602,"message":"Unsupported protocol version","data":{"supported":["2024-11-05","2025-03-26"],"requested":"2025-11-25"}}`, "2025-03-26", "2025-03-26"},
		"400":            {400, `{"code":-32602,"message":"Unsupported protocol version","data":{"supported":["2024-11-05"]}}`, "2024-11-05", "2024-11-05"},
		"-32004":         {200, `{"code":-32004,"message":"Unsupported protocol version","data":{"supported":["2025-06-18","2099-01-01"]}}`, "2025-06-18", "2025-06-18"},
		"a word":         {200, `{"code":"E_VERSION","message":"no","data":{"supported":["2025-06-18"]}}`, "2025-06-18", "2025-06-18"},
		"a text":         {200, `{"code":-32602,"message":"no","data":{"supported":"2025-06-18"}}`, "2025-06-18", "2025-06-18"},
		"in the text":    {400, `{"code":-32000,"message":"Bad Request: Unsupported protocol version: 2025-11-25 (supported versions: 2025-03-26, 2024-11-05)"}`, "2025-03-26", "2025-03-26"},
		"unknown":        {200, `{"code":-32602,"message":"no","data":{"supported":["2099-01-01"]}}`, "2099-01-01", ""},
		"the one asked":  {200, `{"code":-32602,"message":"no","data":{"supported":["2025-11-25"]}}`, "never", ""},
		"refused always": {200, `{"code":-32602,"message":"no","data":{"supported":["2025-06-18"]}}`, "never", ""},
		"nothing":        {200, `{"code":-32602,"message":"no","data":{"supported":[]}}`, "never", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScript(t)
			s.answer("POST initialize", func(w http.ResponseWriter, r *http.Request, m heard) {
				if m.get("params.protocolVersion").String() == row.takes {
					result(w, m, `{"protocolVersion":"`+row.takes+`","capabilities":{"tools":{}},"serverInfo":{"name":"o","version":"1"}}`)
					return
				}
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(row.status)
				fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":%s}`, m.id, row.refuse)
			})
			h := newTestHost(t, config("box", stateful, s.front))
			ts := toolsOf(t, h, "box")
			if st := h.Status()[0]; st.ProtocolVersion != row.want {
				t.Fatalf("%+v", st)
			}
			if row.want == "" {
				if n := len(s.all("POST initialize")); n > 6 {
					t.Errorf("asked %d times", n)
				}
				return
			}
			if res := ts.Bind(nil).Call(t.Context(), "box__run", ""); res.Text != "done" {
				t.Errorf("%+v", res)
			}
			if n := len(s.all("POST initialize")); n != 2 {
				t.Errorf("asked %d times", n)
			}
		})
	}
}

// A server that only says that it does not take the revision is asked for one after the
// other, and one that writes in plain text is read.
func TestRevisionIsFound(t *testing.T) {
	for name, row := range map[string]struct {
		status int
		refuse string
		takes  string
		asked  int
	}{
		"bare":           {200, `{"code":-32602,"message":"Unsupported protocol version"}`, "2025-03-26", 3},
		"bare, 400":      {400, `{"code":-32602,"message":"Unsupported protocol version"}`, "2024-11-05", 4},
		"names ours":     {200, `{"code":-32602,"message":"Unsupported protocolVersion","data":{"requested":"2025-11-25"}}`, "2025-06-18", 2},
		"text":           {400, "Bad Request: Unsupported protocol version (supported versions: 2025-06-18, 2025-03-26)", "2025-03-26", 3},
		"text, bare":     {400, "unsupported protocol version", "2025-03-26", 3},
		"text, 422":      {422, "Unsupported MCP-Protocol-Version: 2025-11-25", "2025-06-18", 2},
		"long text":      {400, strings.Repeat("Unsupported protocol version. ", 50) + "Use 2024-11-05.", "2024-11-05", 2},
		"never":          {200, `{"code":-32602,"message":"Unsupported protocol version"}`, "", 4},
		"never, by text": {400, "unsupported protocol version", "", 4},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScript(t)
			s.answer("POST initialize", func(w http.ResponseWriter, r *http.Request, m heard) {
				switch {
				case m.get("params.protocolVersion").String() == row.takes:
					result(w, m, `{"protocolVersion":"`+row.takes+`","capabilities":{"tools":{}},"serverInfo":{"name":"o","version":"1"}}`)
				case row.refuse[0] == '{':
					refuse(w, m, row.status, row.refuse)
				default:
					http.Error(w, row.refuse, row.status)
				}
			})
			h := newTestHost(t, config("box", stateful, s.front))
			ts := toolsOf(t, h, "box")
			if row.takes == "" {
				if st := h.Status()[0]; !strings.Contains(strings.ToLower(st.Error), "unsupported protocol version") {
					t.Errorf("%+v", st)
				}
				return
			}
			if res := ts.Bind(nil).Call(t.Context(), "box__run", ""); res.Text != "done" {
				t.Errorf("%+v, %+v", res, h.Status())
			}
			if n := len(s.all("POST initialize")); n != row.asked {
				t.Errorf("asked %d times", n)
			}
		})
	}
}

// A server that agrees on a revision and refuses its header afterwards gets a session of
// one that it names, whether it does so at once or later.
func TestRevisionIsRefusedAfterwards(t *testing.T) {
	for name, row := range map[string]struct {
		later  bool
		refuse func(w http.ResponseWriter, m heard)
	}{
		"text": {false, func(w http.ResponseWriter, _ heard) {
			http.Error(w, "Bad Request: Unsupported protocol version (supported versions: 2025-06-18, 2025-03-26)", http.StatusBadRequest)
		}},
		"an error": {false, func(w http.ResponseWriter, m heard) {
			refuse(w, m, 400, `{"code":-32000,"message":"Bad Request: Unsupported protocol version: 2025-11-25 (supported versions: 2025-06-18)"}`)
		}},
		"no names": {false, func(w http.ResponseWriter, _ heard) {
			http.Error(w, "Unsupported protocol version", http.StatusBadRequest)
		}},
		"later, text": {true, func(w http.ResponseWriter, _ heard) {
			http.Error(w, "Bad Request: Unsupported protocol version (supported versions: 2025-06-18, 2025-03-26)", http.StatusBadRequest)
		}},
		"later, an error": {true, func(w http.ResponseWriter, m heard) {
			refuse(w, m, 400, `{"code":-32022,"message":"no","data":{"supported":["2025-06-18"],"requested":"2025-11-25"}}`)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScript(t)
			var strict atomic.Bool
			strict.Store(!row.later)
			s.answer("POST initialize", func(w http.ResponseWriter, r *http.Request, m heard) {
				result(w, m, `{"protocolVersion":"`+m.get("params.protocolVersion").String()+`","capabilities":{"tools":{}},"serverInfo":{"name":"o","version":"1"}}`)
			})
			for _, key := range []string{"POST notifications/initialized", "GET", "POST tools/list", "POST tools/call"} {
				s.answer(key, func(w http.ResponseWriter, r *http.Request, m heard) {
					if strict.Load() && m.header.Get(headerVersion) != "2025-06-18" {
						row.refuse(w, m)
						return
					}
					s.small(w, r, m)
				})
			}
			h := newTestHost(t, config("box", stateful, s.front))
			b := toolsOf(t, h, "box").Bind(nil)
			if strict.Swap(true); row.later {
				if res := b.Call(t.Context(), "box__run", ""); !res.IsError {
					t.Errorf("%+v", res)
				}
				eventually(t, "another session", func() bool { return h.Status()[0].ProtocolVersion == "2025-06-18" })
			}
			if res := toolsOf(t, h, "box").Bind(nil).Call(t.Context(), "box__run", ""); res.Text != "done" || h.Status()[0].ProtocolVersion != "2025-06-18" {
				t.Errorf("%+v, %+v", res, h.Status())
			}
			if n := len(s.all("POST initialize")); n != 2 {
				t.Errorf("asked %d times", n)
			}
		})
	}
}

// The same over stdio, where the process must be started once more.
func TestRevisionIsNegotiatedOverStdio(t *testing.T) {
	t.Parallel()
	cfg, seen := lines(t, "box", map[string][]string{"initialize": {
		`{"jsonrpc":"2.0","id":ID,"error":{"code":-32602,"message":"Unsupported protocol version","data":{"supported":["2025-03-26"]}}}`,
	}})
	h := newTestHost(t, cfg)
	toolsOf(t, h, "box")
	var asked []string
	for _, m := range seen() {
		if m.key == methodInitialize {
			asked = append(asked, m.get("params.protocolVersion").String())
		}
	}
	if got := strings.Join(asked[:2], " "); got != "2025-11-25 2025-03-26" {
		t.Errorf("%q", asked)
	}
}
