package mcp

import (
	"fmt"
	"net/http"
	"testing"
)

// An answer belongs to the request whose id it has, on whatever stream it comes; an
// id that nobody has is nobody's.
func TestAnswersOnOtherStreams(t *testing.T) {
	t.Parallel()
	s := newScript(t)
	first, swapped := make(chan string, 1), make(chan bool)
	text := func(id, what string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":%q}]}}`, id, what)
	}
	s.answer("POST tools/call", func(w http.ResponseWriter, _ *http.Request, m heard) {
		if m.get("params.name").String() == "pure" {
			event(w, text("999999", "nobody's"))
			first <- m.id
			<-swapped
			event(w, text(m.id, "for pure"))
			return
		}
		id := <-first
		event(w, text(id, "for pure")) // on the stream of run
		event(w, text(m.id, "for run"))
		close(swapped)
	})
	b := toolsOf(t, newTestHost(t, config("box", stateful, s.front)), "box").Bind(nil)
	pure := make(chan Result, 1)
	go func() { pure <- b.Call(t.Context(), "box__pure", "") }()
	if res := b.Call(t.Context(), "box__run", ""); res.Text != "for run" {
		t.Errorf("run: %+v", res)
	}
	if res := await(t, "the other call", pure); res.Text != "for pure" {
		t.Errorf("pure: %+v", res)
	}
}

// An error is one, whatever stands beside it.
func TestErrorBesideAResult(t *testing.T) {
	t.Parallel()
	for _, result := range []string{"null", "{}"} {
		s := newScript(t)
		s.answer("POST tools/call", func(w http.ResponseWriter, _ *http.Request, m heard) {
			event(w, `{"jsonrpc":"2.0","id":`+m.id+`,"result":`+result+`,"error":{"code":-32000,"message":"boom"}}`)
		})
		b := toolsOf(t, newTestHost(t, config("box", stateful, s.front)), "box").Bind(nil)
		if res := b.Call(t.Context(), "box__run", ""); !res.IsError || res.Outcome != OutcomeToolError {
			t.Errorf("%s: %+v", result, res)
		}
	}
}
