package mcp

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidwall/gjson"
)

// What a server gets slightly wrong in an answer costs nothing.
func TestOddAnswers(t *testing.T) {
	const done = `"result":{"content":[{"type":"text","text":"done"}]}`
	asJSON := func(body string) func(w http.ResponseWriter, m heard) {
		return func(w http.ResponseWriter, m heard) {
			w.Header().Set("Content-Type", "application/json; charset=utf-8")
			fmt.Fprint(w, strings.ReplaceAll(body, "ID", m.id))
		}
	}
	asEvents := func(stream string) func(w http.ResponseWriter, m heard) {
		return func(w http.ResponseWriter, m heard) {
			w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
			fmt.Fprint(w, strings.ReplaceAll(stream, "ID", m.id))
		}
	}
	as := func(media, body string) func(w http.ResponseWriter, m heard) {
		return func(w http.ResponseWriter, m heard) {
			w.Header()["Content-Type"] = nil
			if media != "" {
				w.Header().Set("Content-Type", media)
			}
			fmt.Fprint(w, strings.ReplaceAll(body, "ID", m.id))
		}
	}
	for name, answer := range map[string]func(w http.ResponseWriter, m heard){
		"a byte order mark":       asJSON("\ufeff" + `{"jsonrpc":"2.0","id":ID,` + done + `}`),
		"text/plain":              as("text/plain; charset=utf-8", `{"jsonrpc":"2.0","id":ID,`+done+`}`),
		"text/html, a mark":       as("text/html", "\ufeff\n"+`{"jsonrpc":"2.0","id":ID,`+done+`}`),
		"no type":                 as("", ` [{"jsonrpc":"2.0","id":ID,`+done+`}]`),
		"a broken type":           as("json;;", `{"jsonrpc":"2.0","id":ID,`+done+`}`),
		"JSON-RPC's own type":     as("application/json-rpc", `{"jsonrpc":"2.0","id":ID,`+done+`}`),
		"events as text/plain":    as("text/plain", "event: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":ID,"+done+"}\n\n"),
		"events without a type":   as("", "\ufeffdata: {\"jsonrpc\":\"2.0\",\"id\":ID,"+done+"}\n\n"),
		"the id as text":          asJSON(`{"jsonrpc":"2.0","id":"ID",` + done + `}`),
		"the id as a fraction":    asJSON(`{"jsonrpc":"2.0","id":ID.0,` + done + `}`),
		"no id":                   asJSON(`{"jsonrpc":"2.0",` + done + `}`),
		"no version":              asJSON(`{"id":ID,` + done + `}`),
		"a batch":                 asJSON(`[{"jsonrpc":"2.0","method":"notifications/x"},{"jsonrpc":"2.0","id":ID,` + done + `}]`),
		"blanks and a last line":  asJSON("\n " + `{"jsonrpc":"2.0","id":ID,` + done + `}` + "\n\n"),
		"unknown blocks":          asJSON(`{"jsonrpc":"2.0","id":ID,"result":{"resultType":"complete","content":[{"type":"text","text":"done"}],"isError":null,"_meta":7}}`),
		"event: the id as text":   asEvents("data: {\"jsonrpc\":\"2.0\",\"id\":\"ID\"," + done + "}\n\n"),
		"event: a batch":          asEvents("data: [{\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\"},{\"jsonrpc\":\"2.0\",\"id\":ID," + done + "}]\n\n"),
		"event: over two lines":   asEvents("data: {\"jsonrpc\":\"2.0\",\ndata: \"id\":ID," + done + "}\n\n"),
		"event: carriage returns": asEvents("event: message\r\ndata: {\"jsonrpc\":\"2.0\",\"id\":ID," + done + "}\r\n\r\n"),
		"event: no blank line":    asEvents("data: {\"jsonrpc\":\"2.0\",\"id\":ID," + done + "}\n"),
		"event: words before":     asEvents("data: welcome\n\nevent: greeting\ndata: {\"a\":1}\n\n: c\n\ndata:\n\ndata: {\"jsonrpc\":\"2.0\",\"id\":ID," + done + "}\n\n"),
		"event: a byte order":     asEvents("\ufeffdata: {\"jsonrpc\":\"2.0\",\"id\":ID," + done + "}\n\n"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScript(t)
			s.answer("POST tools/call", func(w http.ResponseWriter, _ *http.Request, m heard) { answer(w, m) })
			cfg := config("box", stateful, s.front)
			cfg.ToolTimeout = 5 * time.Second
			h := newTestHost(t, cfg)
			b := toolsOf(t, h, "box").Bind(nil)
			for range 2 {
				if res := b.Call(t.Context(), "box__run", ""); res.Text != "done" {
					t.Errorf("%+v", res)
				}
			}
			if n := len(s.all("POST initialize")); n != 1 {
				t.Errorf("%d sessions", n)
			}
		})
	}
}

// A message of nothing but brackets ends its call, not the process.
func TestDeepNesting(t *testing.T) {
	t.Parallel()
	s := newScript(t)
	bomb := `{"jsonrpc":"2.0","id":1,"result":` + strings.Repeat("[", 12<<20)
	asEvent := false
	s.answer("POST tools/call", func(w http.ResponseWriter, _ *http.Request, m heard) {
		if asEvent {
			event(w, bomb)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, bomb)
	})
	h := newTestHost(t, config("box", stateful, s.front))
	b := toolsOf(t, h, "box").Bind(nil)
	for _, asEvent = range []bool{false, true} {
		if res := b.Call(t.Context(), "box__run", ""); res.Outcome != OutcomeFailed || !strings.Contains(res.Text, brokenJSON) {
			t.Errorf("%+v", res)
		}
	}
	if n := len(s.all("POST initialize")); n != 1 {
		t.Errorf("%d sessions", n)
	}
	if res := b.Call(t.Context(), "box__run", strings.Repeat(`{"a":`, 1<<20)); res.Outcome != OutcomeInvalidArguments {
		t.Errorf("%+v", res)
	}
}

// Reading stops at a limit, on every transport, and the rest goes on.
func TestGiantAnswers(t *testing.T) {
	pour := func(w http.ResponseWriter, sent *atomic.Int64) {
		block := strings.Repeat("x", 1<<20)
		for range 300 {
			n, err := fmt.Fprint(w, block)
			sent.Add(int64(n))
			if err != nil {
				return
			}
		}
	}
	for _, kind := range []string{"application/json", "text/event-stream"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			var sent atomic.Int64
			s := newScript(t)
			s.answer("POST tools/call", func(w http.ResponseWriter, r *http.Request, m heard) {
				if m.get("params.name").String() == "pure" {
					s.small(w, r, m)
					return
				}
				w.Header().Set("Content-Type", kind)
				if kind == "text/event-stream" {
					fmt.Fprint(w, "id: 1\ndata: ")
				}
				fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"`, m.id)
				pour(w, &sent)
			})
			h := newTestHost(t, config("box", stateful, s.front))
			b := toolsOf(t, h, "box").Bind(nil)
			if res := b.Call(t.Context(), "box__run", ""); res.Outcome != OutcomeFailed || !strings.Contains(res.Text, tooLarge) {
				t.Errorf("%+v", res)
			}
			if n := sent.Load(); n > 2*maxMessage {
				t.Errorf("%d bytes were taken", n)
			}
			if res := b.Call(t.Context(), "box__pure", ""); res.Text != "done" || len(s.all("POST initialize")) != 1 {
				t.Errorf("%+v, %d sessions", res, len(s.all("POST initialize")))
			}
		})
	}
	t.Run(stdio, func(t *testing.T) {
		t.Parallel()
		starts := filepath.Join(t.TempDir(), "starts")
		cfg, seen := lines(t, "box", map[string][]string{"tools/call": {"giant"}})
		cfg.Env["COUNT_FILE"] = starts
		h := newTestHost(t, cfg)
		b := toolsOf(t, h, "box").Bind(nil)
		if res := b.Call(t.Context(), "box__run", ""); res.Outcome != OutcomeFailed || !strings.Contains(res.Text, tooLarge) {
			t.Errorf("%+v", res)
		}
		n := 0
		for _, m := range seen() {
			if m.key == "initialize" {
				n++
			}
		}
		if st := h.Status()[0]; st.State != "connected" || n != 1 {
			t.Errorf("%+v after %d starts", st, n)
		}
	})
}

func TestOversizeLineNamesItsRequest(t *testing.T) {
	for text, want := range map[string]string{
		`{"jsonrpc":"2.0","id":5,"result":{"content":[…]}}`:                     "5",
		`{"id":"a b","result":{`:                                                `"a b"`,
		`{"result":{"id":1},"jsonrpc":"2.0","id":7}`:                            "7",
		`{"jsonrpc":"2.0","result":{"content":"\"id\":3}"},"id":8}`:             "8",
		`{"result":{"x":1},"id": 9 , "jsonrpc":"2.0" } `:                        "9",
		`{"jsonrpc":"2.0","result":{"structuredContent":{"id":5}}}`:             "",
		`{"jsonrpc":"2.0","id":5,"method":"sampling/createMessage","params":{}`: "",
		`{"jsonrpc":"2.0","method":"notifications/message","params":{"id":5}}`:  "",
		`no JSON`: "",
		``:        "",
	} {
		over := oversize{head: []byte(text), tail: []byte(text)}
		if !strings.HasPrefix(text, `{"jsonrpc":"2.0","id"`) && !strings.HasPrefix(text, `{"id"`) {
			over.head = []byte(text[:min(len(text), 12)])
		}
		id, ok := over.answers()
		if got := rawID(id); ok != (want != "") || ok && got != want {
			t.Errorf("%s: %s, %v", text, got, ok)
		}
	}
	if gjson.Get(`{"a":1`, "a").Int() != 1 {
		t.Error("the parser reads no beginnings any more")
	}
}
