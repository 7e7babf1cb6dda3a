package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"
)

// dig is a tool that reports progress between pauses.
func dig(box *toolbox, times int, pause time.Duration) {
	box.server.AddTool(&sdk.Tool{Name: "dig", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			for i := range times {
				err := req.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{
					ProgressToken: req.Params.GetProgressToken(), Progress: float64(i + 1), Total: float64(times), Message: fmt.Sprint("layer ", i+1),
				})
				if err != nil {
					return nil, err
				}
				select {
				case <-time.After(pause):
				case <-ctx.Done():
					return nil, ctx.Err()
				}
			}
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "done"}}}, nil
		})
}

// A call may take longer than its timeout as long as it shows progress, on every
// transport.
func TestProgressKeepsACallAlive(t *testing.T) {
	for _, kind := range []string{stateful, stateless, plainSSE} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			box := newToolbox()
			dig(box, 12, 250*time.Millisecond)
			cfg := config("box", kind, box.serve(t, kind))
			cfg.ToolTimeout = 2 * time.Second
			h := newTestHost(t, cfg)
			var mu sync.Mutex
			var told []string
			ctx := WithProgress(t.Context(), func(server, tool, message string, progress, total float64) {
				mu.Lock()
				defer mu.Unlock()
				told = append(told, fmt.Sprintf("%s %s %s %v/%v", server, tool, message, progress, total))
			})
			if res := toolsOf(t, h, "box").Bind(nil).Call(ctx, "box__dig", ""); res.Text != "done" {
				t.Errorf("%+v", res)
			}
			mu.Lock()
			defer mu.Unlock()
			if len(told) != 12 || told[0] != "box dig layer 1 1/12" || told[11] != "box dig layer 12 12/12" {
				t.Errorf("%q", told)
			}
		})
	}
}

// However much progress it shows, a call ends at last, and the server is told.
func TestProgressForEver(t *testing.T) {
	t.Parallel()
	box := newToolbox()
	dig(box, 1000, 50*time.Millisecond)
	cfg := config("box", stateful, box.serve(t, stateful))
	cfg.ToolTimeout, cfg.ToolTimeoutMax = time.Second, 1500*time.Millisecond
	h := newTestHost(t, cfg)
	b := toolsOf(t, h, "box").Bind(nil)
	if res := b.Call(t.Context(), "box__dig", ""); res.Outcome != OutcomeTimeout || !strings.Contains(res.Text, "tool_timeout_max") {
		t.Errorf("%+v", res)
	}
	if res := b.Call(t.Context(), "box__add_numbers", `{"a":1,"b":1}`); res.Text != "2" {
		t.Errorf("the connection did not survive: %+v", res)
	}
}

// Each call brings a token of its own, and what is told under another one, late or
// twice, does no harm.
func TestProgressToken(t *testing.T) {
	t.Parallel()
	s := newScript(t)
	s.answer("POST tools/call", func(w http.ResponseWriter, _ *http.Request, m heard) {
		token := m.get("params._meta.progressToken")
		for _, token := range []string{token.Raw, `"other"`, `7`, `null`} {
			event(w, `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":`+token+`,"progress":1}}`)
		}
		event(w, `{"jsonrpc":"2.0","method":"notifications/progress"}`)
		event(w, `{"jsonrpc":"2.0","id":`+m.id+`,"result":{"content":[{"type":"text","text":"done"}]}}`)
		event(w, `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":`+token.Raw+`,"progress":2}}`)
	})
	h := newTestHost(t, config("box", stateful, s.front))
	b := toolsOf(t, h, "box").Bind(nil)
	told := 0
	ctx := WithProgress(t.Context(), func(_, _, _ string, progress, _ float64) {
		if progress == 1 {
			told++
		}
	})
	for range 2 {
		if res := b.Call(ctx, "box__run", ""); res.Text != "done" {
			t.Errorf("%+v", res)
		}
	}
	calls := s.all("POST tools/call")
	first, second := calls[0].get("params._meta.progressToken"), calls[1].get("params._meta.progressToken")
	if first.Type != gjson.String || first.String() == "" || first.String() == second.String() {
		t.Errorf("tokens %s and %s", first.Raw, second.Raw)
	}
	if told != 2 {
		t.Errorf("told %d times, want 2", told)
	}
}

const late = `{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"late"}]}}`

// A cancelled call is cancelled at the server by its id. The connection stays, and
// the answer that comes all the same is ignored.
func TestCancelOverHTTP(t *testing.T) {
	t.Parallel()
	s := newScript(t)
	begun := make(chan heard, 1)
	s.answer("POST tools/call", func(w http.ResponseWriter, r *http.Request, m heard) {
		if m.get("params.name").String() == "pure" {
			s.small(w, r, m)
			return
		}
		event(w, `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"begun"}}`)
		begun <- m
		s.await(t, "POST notifications/cancelled")
		event(w, strings.ReplaceAll(late, "ID", m.id))
	})
	h := newTestHost(t, config("box", stateful, s.front))
	b := toolsOf(t, h, "box").Bind(nil)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan Result, 1)
	go func() { done <- b.Call(ctx, "box__run", "") }()
	call := await(t, "call", begun)
	cancel()
	if res := await(t, "result", done); res.Outcome != OutcomeCancelled {
		t.Errorf("%+v", res)
	}
	told := s.await(t, "POST notifications/cancelled")
	if told.get("params.requestId").Raw != call.id || told.header.Get(headerSession) != "s-1" || told.id != "" {
		t.Errorf("told %s for call %s", told.body, call.id)
	}
	if res := b.Call(t.Context(), "box__pure", ""); res.Text != "done" || len(s.all("POST initialize")) != 1 {
		t.Errorf("%+v, %d sessions", res, len(s.all("POST initialize")))
	}
}

func TestCancelOverStdio(t *testing.T) {
	t.Parallel()
	cfg, seen := lines(t, "box", map[string][]string{
		"tools/call":              {},
		methodCancelled:           {strings.ReplaceAll(late, "ID", "3"), strings.ReplaceAll(late, "ID", "4"), strings.ReplaceAll(late, "ID", `"9999"`)},
		"notifications/something": {},
	})
	h := newTestHost(t, cfg)
	b := toolsOf(t, h, "box").Bind(nil)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan Result, 1)
	go func() { done <- b.Call(ctx, "box__run", "") }()
	find := func(key string) (all []heard) {
		for _, m := range seen() {
			if m.key == key {
				all = append(all, m)
			}
		}
		return all
	}
	eventually(t, "call", func() bool { return len(find("tools/call")) == 1 })
	cancel()
	if res := await(t, "result", done); res.Outcome != OutcomeCancelled {
		t.Errorf("%+v", res)
	}
	eventually(t, "cancellation", func() bool { return len(find(methodCancelled)) == 1 })
	if got, want := find(methodCancelled)[0].get("params.requestId").Raw, find("tools/call")[0].id; got != want {
		t.Errorf("cancelled %s, called %s", got, want)
	}
	if st := h.Status()[0]; st.State != "connected" || len(find("initialize")) != 1 {
		t.Errorf("%+v", st)
	}
}

// A notification that the server does not take does not end the session.
func TestCancelRefused(t *testing.T) {
	for _, status := range []int{400, 404, 405, 500} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			t.Parallel()
			s := newScript(t).modern() // without a session, so that 404 says nothing about one
			s.answer("POST notifications/cancelled", func(w http.ResponseWriter, _ *http.Request, _ heard) {
				http.Error(w, "no such method", status)
			})
			s.answer("POST tools/call", func(w http.ResponseWriter, r *http.Request, m heard) {
				if m.get("params.name").String() == "pure" {
					result(w, m, `{"resultType":"complete","content":[{"type":"text","text":"done"}]}`)
					return
				}
				<-r.Context().Done()
			})
			cfg := config("box", stateful, s.front)
			cfg.ToolTimeout = 100 * time.Millisecond
			h := newTestHost(t, cfg)
			b := toolsOf(t, h, "box").Bind(nil)
			if res := b.Call(t.Context(), "box__run", ""); res.Outcome != OutcomeTimeout {
				t.Errorf("%+v", res)
			}
			s.await(t, "POST notifications/cancelled")
			if res := b.Call(t.Context(), "box__pure", ""); res.Text != "done" {
				t.Errorf("%+v", res)
			}
			if n := len(s.all("POST server/discover")); n > 2 { // one to connect, one to look whether it lives
				t.Errorf("%d sessions", n)
			}
		})
	}
}
