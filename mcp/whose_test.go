package mcp

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"
)

// A question on a call's own stream is of that call.
func TestWhoIsAskedOnAStream(t *testing.T) {
	t.Parallel()
	box := newToolbox()
	both := make(chan struct{}, 2)
	box.server.AddTool(&sdk.Tool{Name: "confirm", InputSchema: map[string]any{"type": "object"}},
		func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			both <- struct{}{}
			for len(both) < 2 {
				time.Sleep(time.Millisecond)
			}
			res, err := req.Session.Elicit(ctx, &sdk.ElicitParams{Message: string(req.Params.Arguments)})
			if err != nil {
				return nil, err
			}
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: res.Action}}}, nil
		})
	cfg := config("box", stateful, box.serve(t, stateful))
	cfg.Elicitation = true
	h := newTestHost(t, cfg)
	b := toolsOf(t, h, "box").Bind(nil)
	askers := map[string]*answerer{"ann": {answer: `{"action":"accept"}`}, "bob": {answer: `{"action":"decline"}`}}
	var group sync.WaitGroup
	for who, asker := range askers {
		group.Go(func() {
			res := b.Call(WithAsker(t.Context(), asker), "box__confirm", `{"of":"`+who+`"}`)
			if want := gjson.Get(asker.answer, "action").String(); res.Text != want {
				t.Errorf("%s: %+v", who, res)
			}
			if asked := asker.questions(); len(asked) != 1 || !strings.Contains(asked[0], who) {
				t.Errorf("%s was asked %q", who, asked)
			}
		})
	}
	group.Wait()
}

// One that comes on a common stream is of the only call that runs,
func TestTheOnlyCallIsAsked(t *testing.T) {
	t.Parallel()
	cfg, _ := lines(t, "box", map[string][]string{
		"tools/call": {elicitSure},
		"":           {`{"jsonrpc":"2.0","id":3,"result":{"content":[{"type":"text","text":"done"}]}}`, `{"jsonrpc":"2.0","id":4,"result":{"content":[{"type":"text","text":"done"}]}}`},
	})
	cfg.Elicitation = true
	asker := &answerer{answer: `{"action":"accept"}`}
	h := newTestHost(t, cfg)
	if res := toolsOf(t, h, "box").Bind(nil).Call(WithAsker(t.Context(), asker), "box__run", ""); res.Text != "done" || len(asker.questions()) != 1 {
		t.Errorf("%+v, asked %q", res, asker.questions())
	}
}

// or of none.
func TestNobodyIsAsked(t *testing.T) {
	t.Parallel()
	cfg, seen := lines(t, "box", map[string][]string{"tools/call": {}, "notifications/cancelled": {elicitSure}})
	cfg.Elicitation = true
	h := newTestHost(t, cfg)
	b := toolsOf(t, h, "box").Bind(nil)
	asker := &answerer{answer: `{"action":"accept"}`}
	ctx, cancel := context.WithCancel(WithAsker(t.Context(), asker))
	var group sync.WaitGroup
	for range 2 {
		group.Go(func() { b.Call(ctx, "box__run", "") })
	}
	calls := func(key string) (n int) {
		for _, m := range seen() {
			if m.key == key {
				n++
			}
		}
		return n
	}
	eventually(t, "two calls", func() bool { return calls("tools/call") == 2 })
	third, end := context.WithCancel(t.Context())
	group.Go(func() { b.Call(third, "box__other", "") })
	eventually(t, "three calls", func() bool { return calls("tools/call") == 3 })
	end() // makes the script ask while two calls run
	eventually(t, "an answer", func() bool {
		for _, m := range seen() {
			if m.key == "" && m.id == `"srv-1"` {
				return m.get("result.action").String() == "decline" && strings.Contains(m.body, "which running request")
			}
		}
		return false
	})
	if asked := asker.questions(); len(asked) > 0 {
		t.Errorf("asked %q", asked)
	}
	cancel() // and now it asks while one runs
	group.Wait()
}

// A server that asks without end holds only so much here, and its call goes on.
func TestQuestionsWithoutEnd(t *testing.T) {
	t.Parallel()
	s := newScript(t)
	release := make(chan struct{})
	s.answer("POST answer", func(w http.ResponseWriter, r *http.Request, _ heard) {
		select { // the server takes no answer for now
		case <-release:
		case <-r.Context().Done():
		}
		w.WriteHeader(http.StatusAccepted)
	})
	s.answer("POST tools/call", func(w http.ResponseWriter, _ *http.Request, m heard) {
		for i := range 20 * maxReplies {
			event(w, strings.Replace(pinged, "2,", fmt.Sprint(i, ","), 1))
		}
		event(w, `{"jsonrpc":"2.0","id":`+m.id+`,"result":{"content":[{"type":"text","text":"done"}]}}`)
	})
	h := newTestHost(t, config("box", stateful, s.front))
	if res := toolsOf(t, h, "box").Bind(nil).Call(t.Context(), "box__run", ""); res.Text != "done" {
		t.Errorf("%+v", res)
	}
	eventually(t, "answers", func() bool { return len(s.all("POST answer")) == maxReplies })
	close(release)
	if res := toolsOf(t, h, "box").Bind(nil).Call(t.Context(), "box__pure", ""); res.Text != "done" {
		t.Errorf("%+v", res)
	}
}
