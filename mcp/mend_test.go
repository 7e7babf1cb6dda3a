package mcp

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

// phrased makes a server of any transport, that answers methods with texts in which ID
// stands for the request's id. Those of the rest are as a small server gives them.
func phrased(t *testing.T, kind string, texts map[string]string) Server {
	switch kind {
	case stdio:
		script := map[string][]string{}
		for method, text := range texts {
			script[method] = []string{text}
		}
		cfg, _ := lines(t, "box", script)
		return cfg
	case plainSSE:
		return config("box", plainSSE, serve(t, oldServer(texts)))
	}
	s := newScript(t)
	for method, text := range texts {
		s.answer("POST "+method, func(w http.ResponseWriter, _ *http.Request, m heard) {
			body := strings.ReplaceAll(text, "ID", m.id)
			if kind == "events" {
				event(w, body)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, body)
		})
	}
	return config("box", stateful, s.front)
}

// oldServer is a server of 2024-11-05 for one client.
func oldServer(texts map[string]string) http.Handler {
	all := map[string]string{
		"initialize": `{"jsonrpc":"2.0","id":ID,"result":{"protocolVersion":"2024-11-05","capabilities":{"tools":{}},"serverInfo":{"name":"o","version":"1"}}}`,
		"tools/list": `{"jsonrpc":"2.0","id":ID,"result":{"tools":[{"name":"run","inputSchema":{"type":"object"}},{"name":"pure","inputSchema":{"type":"object"}}]}}`,
		"tools/call": `{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"done"}]}}`,
	}
	for method, text := range texts {
		all[method] = text
	}
	answers := make(chan string, 100)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, "event: endpoint\ndata: /messages\n\n")
			w.(http.Flusher).Flush()
			for {
				select {
				case text := <-answers:
					event(w, text)
				case <-r.Context().Done():
					return
				}
			}
		}
		body, _ := io.ReadAll(r.Body)
		w.WriteHeader(http.StatusAccepted)
		method, id := gjson.GetBytes(body, "method").String(), gjson.GetBytes(body, "id").Raw
		if id != "" && method != "" {
			text := cmp.Or(all[method], `{"jsonrpc":"2.0","id":ID,"error":{"code":-32601,"message":"method not found"}}`)
			answers <- strings.ReplaceAll(text, "ID", id)
		}
	})
}

var transports = []string{"json", "events", stdio, plainSSE}

// An answer belongs to its request in whatever spelling, and an error is told, of
// whatever types it is; neither costs anybody else the session.
func TestOddlySpelledAnswers(t *testing.T) {
	const done = `"result":{"content":[{"type":"text","text":"done"}]}`
	for name, row := range map[string]struct{ answer, want string }{
		"text id":            {`{"jsonrpc":"2.0","id":"ID",` + done + `}`, "done"},
		"fraction id":        {`{"jsonrpc":"2.0","id":ID.0,` + done + `}`, "done"},
		"no version":         {`{"id":ID,` + done + `}`, "done"},
		"version as number":  {`{"jsonrpc":2.0,"id":ID,` + done + `}`, "done"},
		"no id":              {`{"jsonrpc":"2.0",` + done + `}`, "done"},
		"null id":            {`{"jsonrpc":"2.0","id":null,` + done + `}`, "done"},
		"null method":        {`{"jsonrpc":"2.0","id":ID,"method":null,` + done + `}`, "done"},
		"error null":         {`{"jsonrpc":"2.0","id":ID,"error":null,` + done + `}`, "done"},
		"error false":        {`{"jsonrpc":"2.0","id":ID,"error":false,` + done + `}`, "done"},
		"error empty":        {`{"jsonrpc":"2.0","id":ID,"error":"",` + done + `}`, "done"},
		"error text":         {`{"jsonrpc":"2.0","id":ID,"error":"plain text"}`, "server error: plain text"},
		"error text, bare":   {`{"id":ID,"error":"plain text"}`, "server error: plain text"},
		"error list":         {`{"jsonrpc":"2.0","id":ID,"error":["a","b"]}`, `server error: ["a","b"]`},
		"error, null id":     {`{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"inside"}}`, "server error: inside (code -32603)"},
		"code is a word":     {`{"jsonrpc":"2.0","id":ID,"error":{"code":"E_BAD","message":"bad"}}`, "server error: E_BAD: bad"},
		"code is a numeral":  {`{"jsonrpc":"2.0","id":ID,"error":{"code":"-32001","message":"bad"}}`, "server error: bad (code -32001)"},
		"code is a fraction": {`{"jsonrpc":"2.0","id":ID,"error":{"code":-32000.0,"message":"bad","data":{"a":1}}}`, `server error: bad (code -32000); data: {"a":1}`},
		"code is half":       {`{"jsonrpc":"2.0","id":ID,"error":{"code":1.5,"message":"bad","data":7}}`, "server error: 1.5: bad; data: 7"},
		"code is large":      {`{"jsonrpc":"2.0","id":ID,"error":{"code":1e300,"message":"bad","data":"x"}}`, `server error: 1e300: bad; data: "x"`},
		"no code":            {`{"jsonrpc":"2.0","id":ID,"error":{"message":"bad"}}`, "server error: bad"},
		"message is object":  {`{"jsonrpc":"2.0","id":ID,"error":{"code":-1,"message":{"why":"bad"}}}`, `server error: {"why":"bad"} (code -1)`},
		"message is null":    {`{"jsonrpc":"2.0","id":ID,"error":{"code":-1,"message":null}}`, "server error:  (code -1)"},
		"neither":            {`{"jsonrpc":"2.0","id":ID}`, "neither a result nor an error"},
	} {
		for _, kind := range transports {
			t.Run(name+"/"+kind, func(t *testing.T) {
				t.Parallel()
				h := newTestHost(t, phrased(t, kind, map[string]string{"tools/call": row.answer}))
				b := toolsOf(t, h, "box").Bind(nil)
				since := h.Status()[0].Since
				for range 2 {
					res := b.Call(t.Context(), "box__run", "")
					if strings.TrimPrefix(res.Text, "box__run failed: ") != row.want && !(name == "neither" && strings.Contains(res.Text, row.want)) {
						t.Errorf("%+v", res)
					}
				}
				if st := h.Status()[0]; st.State != "connected" || !st.Since.Equal(since) {
					t.Errorf("the session ended: %+v", st)
				}
			})
		}
	}
}

// A line of a log is no answer, even if it is JSON with an error in it.
func TestLogLinesAreNoAnswers(t *testing.T) {
	t.Parallel()
	cfg, _ := lines(t, "box", map[string][]string{"tools/call": {
		`{"level":"error","error":"no such row"}`, `{"level":"info","id":null,"result":"ok"}`, `{"method":"GET","path":"/"}`, `{"id":{"a":1},"result":1}`,
		`[]`, `null`, `42`, `{}`, `{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"done"}]}}`,
	}})
	b := toolsOf(t, newTestHost(t, cfg), "box").Bind(nil)
	for range 2 {
		if res := b.Call(t.Context(), "box__run", ""); res.Text != "done" {
			t.Errorf("%+v", res)
		}
	}
}

// With several requests on their way, an answer without an id is nobody's.
func TestAnswerOfNobody(t *testing.T) {
	t.Parallel()
	cfg, _ := lines(t, "box", map[string][]string{
		"tools/call run": {},
		"tools/call other": {
			`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"whose?"}}`,
			`{"jsonrpc":"2.0","id":run-ID,"result":{"content":[{"type":"text","text":"for run"}]}}`,
			`{"jsonrpc":"2.0","id":other-ID,"result":{"content":[{"type":"text","text":"for other"}]}}`,
		},
	})
	h := newTestHost(t, cfg)
	b := toolsOf(t, h, "box").Bind(nil)
	run := make(chan Result, 1)
	go func() { run <- b.Call(t.Context(), "box__run", "") }()
	eventually(t, "the first call", func() bool { return len(h.Status()[0].Calls) == 1 })
	if res := b.Call(t.Context(), "box__other", ""); res.Text != "for other" {
		t.Errorf("%+v", res)
	}
	if res := await(t, "the first answer", run); res.Text != "for run" {
		t.Errorf("%+v", res)
	}
}

// An answer that does not decode fails its call at once, and the first of two counts.
func TestBrokenAndRepeatedLines(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		answer []string
		want   string
	}{
		"NaN":      {[]string{`{"jsonrpc":"2.0","id":ID,"result":{"content":[],"structuredContent":{"x":NaN}}}`}, brokenJSON},
		"id last":  {[]string{`{"result":{"content":[],"structuredContent":{"x":Infinity}},"jsonrpc":"2.0","id":ID}`}, brokenJSON},
		"cut":      {[]string{`{"jsonrpc":"2.0","id":ID,"result":{"content":[`}, brokenJSON},
		"repeated": {[]string{`{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"first"}]}}`, `{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"second"}]}}`}, "first"},
		"both":     {[]string{`{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"first"}]}}`, `{"jsonrpc":"2.0","id":ID,"error":{"code":1,"message":"second"}}`}, "first"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg, seen := lines(t, "box", map[string][]string{"tools/call": row.answer})
			b := toolsOf(t, newTestHost(t, cfg), "box").Bind(nil)
			for range 20 {
				if res := b.Call(t.Context(), "box__run", ""); !strings.Contains(res.Text, row.want) {
					t.Errorf("%+v", res)
				}
			}
			n := 0
			for _, m := range seen() {
				if m.key == methodInitialize {
					n++
				}
			}
			if n != 1 {
				t.Errorf("%d sessions", n)
			}
		})
	}
}
