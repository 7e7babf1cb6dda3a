package mcp

import (
	"fmt"
	"net/http"
	"strings"
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
