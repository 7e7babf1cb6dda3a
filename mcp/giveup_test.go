package mcp

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	againSure = `{"jsonrpc":"2.0","id":"srv-2","method":"elicitation/create","params":` + sure + `}`
	doneText  = `"result":{"content":[{"type":"text","text":"done"}]}}`
)

// giveUp makes a call, and cancels it once the server has it.
func giveUp(t *testing.T, b *Binding, name, arguments string, arrived func() bool) *answerer {
	t.Helper()
	alice := &answerer{answer: `{"action":"accept"}`}
	ctx, cancel := context.WithCancel(WithAsker(t.Context(), alice))
	var group sync.WaitGroup
	group.Go(func() {
		if res := b.Call(ctx, name, arguments); res.Outcome != OutcomeCancelled {
			t.Errorf("%+v", res)
		}
	})
	eventually(t, "the call", arrived)
	cancel()
	group.Wait()
	return alice
}

// A question on a common stream may be of a call that was given up, as long as that
// was not answered.
func TestGivenUpCallsMayAsk(t *testing.T) {
	t.Parallel()
	for late, answer := range map[string]string{
		"a result": `{"jsonrpc":"2.0","id":run-ID,` + doneText,
		"an error": `{"jsonrpc":"2.0","id":run-ID,"error":{"code":0,"message":"cancelled"}}`,
	} {
		cfg, seen := lines(t, "box", map[string][]string{
			"tools/call run":   {},
			"tools/call other": {elicitSure},
			` "srv-1"`:         {answer, againSure},
			` "srv-2"`:         {`{"jsonrpc":"2.0","id":other-ID,` + doneText},
		})
		cfg.Elicitation = true
		b := toolsOf(t, newTestHost(t, cfg), "box").Bind(nil)
		alice := giveUp(t, b, "box__run", "", func() bool { return has(seen(), "tools/call") })
		bob := &answerer{answer: `{"action":"accept"}`}
		if res := b.Call(WithAsker(t.Context(), bob), "box__other", ""); res.Text != "done" {
			t.Errorf("%s: %+v", late, res)
		}
		if len(alice.questions()) != 0 || len(bob.questions()) != 1 {
			t.Errorf("%s: asked %q and %q", late, alice.questions(), bob.questions())
		}
		for _, m := range seen() {
			want := map[string]string{`"srv-1"`: "decline", `"srv-2"`: "accept"}[m.id]
			if m.key == "" && (m.get("result.action").String() != want || want == "decline" && !strings.Contains(m.body, "given up")) {
				t.Errorf("%s: %s", late, m.body)
			}
		}
	}
}

// Reading a resource is no different.
func TestGivenUpReadsMayAsk(t *testing.T) {
	t.Parallel()
	cfg, seen := lines(t, "box", map[string][]string{
		"initialize":               {`{"jsonrpc":"2.0","id":ID,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"resources":{}},"serverInfo":{"name":"l","version":"1"}}}`},
		"resources/list":           {`{"jsonrpc":"2.0","id":ID,"result":{"resources":[{"name":"notes","uri":"box://notes"}]}}`},
		"resources/templates/list": {`{"jsonrpc":"2.0","id":ID,"result":{"resourceTemplates":[]}}`},
		"resources/read":           {},
		"tools/call other":         {elicitSure},
		` "srv-1"`:                 {`{"jsonrpc":"2.0","id":other-ID,` + doneText},
	})
	cfg.Elicitation = true
	b := all(t, newTestHost(t, cfg), "box").Bind(nil)
	giveUp(t, b, "mcp_resource__box__notes", "", func() bool { return has(seen(), "resources/read") })
	bob := &answerer{answer: `{"action":"accept"}`}
	if res := b.Call(WithAsker(t.Context(), bob), "box__other", ""); res.Text != "done" || len(bob.questions()) != 0 {
		t.Errorf("%+v, asked %q", res, bob.questions())
	}
}

func has(all []heard, key string) bool {
	for _, m := range all {
		if m.key == key {
			return true
		}
	}
	return false
}

// Over HTTP that holds for the stream that a session has beside those of its calls.
func TestGivenUpCallsMayAskOverHTTP(t *testing.T) {
	t.Parallel()
	s := newScript(t)
	common, replies := make(chan string), make(chan heard, 1)
	s.answer("GET", func(w http.ResponseWriter, r *http.Request, _ heard) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.(http.Flusher).Flush()
		for {
			select {
			case message := <-common:
				event(w, message)
			case <-r.Context().Done():
				return
			}
		}
	})
	s.answer("POST answer", func(w http.ResponseWriter, _ *http.Request, m heard) {
		w.WriteHeader(http.StatusAccepted)
		replies <- m
	})
	alices := make(chan string, 1)
	s.answer("POST tools/call", func(w http.ResponseWriter, r *http.Request, m heard) {
		if m.get("params.name").String() == "run" {
			alices <- m.id
			<-r.Context().Done()
			return
		}
		common <- elicitSure
		if m := <-replies; m.get("result.action").String() != "decline" {
			t.Errorf("%s", m.body)
		}
		common <- `{"jsonrpc":"2.0","id":` + <-alices + `,` + doneText
		common <- againSure
		if m := <-replies; m.get("result.action").String() != "accept" {
			t.Errorf("%s", m.body)
		}
		result(w, m, `{"content":[{"type":"text","text":"done"}]}`)
	})
	cfg := config("box", stateful, s.front)
	cfg.Elicitation = true
	b := toolsOf(t, newTestHost(t, cfg), "box").Bind(nil)
	s.await(t, "GET")
	alice := giveUp(t, b, "box__run", "", func() bool { return len(s.all("POST tools/call")) == 1 })
	bob := &answerer{answer: `{"action":"accept"}`}
	if res := b.Call(WithAsker(t.Context(), bob), "box__pure", ""); res.Text != "done" {
		t.Errorf("%+v", res)
	}
	if len(alice.questions()) != 0 || len(bob.questions()) != 1 {
		t.Errorf("asked %q and %q", alice.questions(), bob.questions())
	}
}

// A server that heeds the cancellation never answers the call, so that one counts as
// over after a while.
func TestGivenUpCallsAreForgotten(t *testing.T) {
	t.Parallel()
	cfg, seen := lines(t, "box", map[string][]string{
		"tools/call run":   {},
		"tools/call other": {elicitSure},
		` "srv-1"`:         {`{"jsonrpc":"2.0","id":other-ID,` + doneText},
	})
	cfg.Elicitation, cfg.ToolTimeout = true, time.Second
	b := toolsOf(t, newTestHost(t, cfg), "box").Bind(nil)
	giveUp(t, b, "box__run", "", func() bool { return has(seen(), "tools/call") })
	bob := &answerer{answer: `{"action":"accept"}`}
	eventually(t, "a question of the call that runs alone", func() bool {
		b.Call(WithAsker(t.Context(), bob), "box__other", "")
		return len(bob.questions()) > 0
	})
}
