package mcp

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

// hi begins a stream with a comment.
func hi(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprint(w, ": hi\n\n")
	w.(http.Flusher).Flush()
}

// resumable begins a stream with an event that has an id and no message.
func resumable(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprint(w, "id: 7\nretry: 1\ndata:\n\n")
	w.(http.Flusher).Flush()
}

func resume(do func(w http.ResponseWriter)) func(*script) {
	return func(s *script) {
		s.answer("GET", func(w http.ResponseWriter, _ *http.Request, m heard) {
			if m.header.Get("Last-Event-ID") != "7" {
				w.WriteHeader(http.StatusMethodNotAllowed)
				return
			}
			do(w)
		})
	}
}

func status(code int) func(w http.ResponseWriter) {
	return func(w http.ResponseWriter) { w.WriteHeader(code) }
}

// streamEnds are ways in which a call can end without an answer.
var streamEnds = map[string]struct {
	call   func(w http.ResponseWriter)
	resume func(*script)
	says   string
}{
	"a comment, then the end":     {hi, nil, "the connection to MCP server \"box\" broke during the call"},
	"a comment, then a reset":     {func(w http.ResponseWriter) { hi(w); panic(http.ErrAbortHandler) }, nil, "broke during the call"},
	"half an event":               {func(w http.ResponseWriter) { hi(w); fmt.Fprint(w, `data: {"jsonrpc":"2.0","id":`) }, nil, ""},
	"half an answer":              {func(w http.ResponseWriter) { w.Header().Set("Content-Length", "99"); fmt.Fprint(w, `{"jsonrpc"`) }, nil, ""},
	"an event with an id":         {resumable, resume(status(405)), notResumed},
	"resumed with 500":            {resumable, resume(status(500)), notResumed},
	"resumed with 404":            {resumable, resume(status(404)), notResumed},
	"resumed with 400":            {resumable, resume(status(400)), notResumed},
	"resumed with a reset":        {resumable, resume(func(http.ResponseWriter) { panic(http.ErrAbortHandler) }), notResumed},
	"resumed, and ends once more": {resumable, resume(hi), ""},
	"a notification, the end":     {func(w http.ResponseWriter) { event(w, `{"jsonrpc":"2.0","method":"notifications/x"}`) }, nil, "broke during the call"},
	"an answer to nothing":        {func(w http.ResponseWriter) { event(w, `{"jsonrpc":"2.0"}`) }, nil, ""},
	"no answer in JSON":           {func(w http.ResponseWriter) { w.Header().Set("Content-Type", "application/json"); fmt.Fprint(w, `[]`) }, nil, "did not answer the request"},
	"a page":                      {func(w http.ResponseWriter) { fmt.Fprint(w, "<html>sign in") }, nil, `content type "text/html"`},
	"an error of a gateway":       {func(w http.ResponseWriter) { fmt.Fprint(w, `{"error":"no backend"}`) }, nil, `content type "text/plain"`},
	"a word":                      {func(w http.ResponseWriter) { fmt.Fprint(w, "ok") }, nil, `content type "text/plain"`},
	"202":                         {status(202), nil, ""},
}

// A server that goes away in a call fails that call at once, with a message for the
// model, and the call is not sent again. Calls on other streams go on, and so does
// the session where the server still knows it.
func TestStreamEndsInACall(t *testing.T) {
	for name, test := range streamEnds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScript(t)
			if test.resume != nil {
				test.resume(s)
			}
			begun, open := make(chan bool, 1), make(chan bool)
			s.answer("POST tools/call", func(w http.ResponseWriter, r *http.Request, m heard) {
				if m.get("params.name").String() == "pure" {
					event(w, `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}`)
					begun <- true
					<-open
					event(w, `{"jsonrpc":"2.0","id":`+m.id+`,"result":{"content":[{"type":"text","text":"done"}]}}`)
					return
				}
				test.call(w)
			})
			cfg := config("box", stateful, s.front)
			cfg.ToolTimeout = 2 * soon
			h := newTestHost(t, cfg)
			b := toolsOf(t, h, "box").Bind(nil)
			other := make(chan Result, 1)
			go func() { other <- b.Call(t.Context(), "box__pure", "") }()
			await(t, "another call", begun)
			res := b.Call(t.Context(), "box__run", "")
			if res.Outcome == OutcomeTimeout || !res.IsError || !strings.Contains(res.Text, test.says) || !strings.Contains(res.Text, "may or may not have") {
				t.Errorf("%+v", res)
			}
			n := 0
			for _, m := range s.all("POST tools/call") {
				if m.get("params.name").String() == "run" {
					n++
				}
			}
			if n != 1 {
				t.Errorf("the call was sent %d times", n)
			}
			close(open)
			if res := await(t, "the other call", other); res.Text != "done" {
				t.Errorf("the other call: %+v", res)
			}
			if n := len(s.all("POST initialize")); n != 1 {
				t.Errorf("%d sessions", n)
			}
		})
	}
}

// The same on the transport of 2024-11-05, where a refused message must not end the
// connection that carries all calls.
func TestPostRefusedOverSSE(t *testing.T) {
	for _, status := range []int{400, 413, 429, 500, 503} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			t.Parallel()
			box := newToolbox()
			f := box.serve(t, plainSSE)
			h := newTestHost(t, config("box", plainSSE, f))
			b := toolsOf(t, h, "box").Bind(nil)
			other := make(chan Result, 1)
			go func() { other <- b.Call(t.Context(), "box__hang", "") }()
			await(t, "start of the call", box.started)
			var refused atomic.Int32
			f.on(func(w http.ResponseWriter, _ *http.Request, body []byte) bool {
				if isMethod(body, "tools/call") && strings.Contains(string(body), "add_numbers") && refused.Add(1) == 1 {
					w.WriteHeader(status)
					return true
				}
				return false
			})
			res := b.Call(t.Context(), "box__add_numbers", `{"a":1,"b":1}`)
			if res.Outcome != OutcomeFailed || !strings.Contains(res.Text, fmt.Sprint("HTTP ", status)) {
				t.Errorf("%+v", res)
			}
			if res := b.Call(t.Context(), "box__add_numbers", `{"a":1,"b":1}`); res.Text != "2" {
				t.Errorf("%+v", res)
			}
			close(box.release)
			if res := await(t, "the other call", other); res.Text != "released" {
				t.Errorf("%+v", res)
			}
		})
	}
}

// When the stream of a 2024-11-05 server ends, its calls end; when it does not know
// the session any more, a call is sent once more on a new one.
func TestSessionOverSSE(t *testing.T) {
	t.Parallel()
	box := newToolbox()
	f := box.serve(t, plainSSE)
	h := newTestHost(t, config("box", plainSSE, f))
	b := toolsOf(t, h, "box").Bind(nil)
	done := make(chan Result, 1)
	go func() { done <- b.Call(t.Context(), "box__hang", "") }()
	await(t, "start of the call", box.started)
	f.CloseClientConnections()
	if res := await(t, "result", done); res.Outcome != OutcomeFailed {
		t.Errorf("%+v", res)
	}
	if n, _ := box.called("hang"); n != 1 {
		t.Errorf("the call ran %d times", n)
	}
	eventually(t, "a new session", func() bool { return b.Call(t.Context(), "box__add_numbers", `{"a":1,"b":1}`).Text == "2" })
	var gone atomic.Pointer[string]
	f.on(func(w http.ResponseWriter, r *http.Request, body []byte) bool {
		if r.Method == http.MethodPost {
			gone.CompareAndSwap(nil, &r.URL.RawQuery)
		}
		if first := gone.Load(); r.Method == http.MethodPost && *first == r.URL.RawQuery {
			http.Error(w, "session not found", http.StatusNotFound)
			return true
		}
		return false
	})
	before, _ := box.called("add_numbers")
	if res := b.Call(t.Context(), "box__add_numbers", `{"a":2,"b":1}`); res.Text != "3" {
		t.Errorf("%+v", res)
	}
	if after, _ := box.called("add_numbers"); after != before+1 {
		t.Errorf("the call ran %d times", after-before)
	}
}
