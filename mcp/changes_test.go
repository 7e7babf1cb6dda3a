package mcp

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"
)

// A server that does not say that it has resources or prompts is not asked.
func TestNotAskedWithoutTheCapability(t *testing.T) {
	for _, kind := range []string{stateful, stateless} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			h, f := library(t, kind, newToolbox())
			all(t, h, "box")
			for _, method := range []string{"resources/list", "resources/templates/list", "prompts/list", "prompts/get"} {
				if n := f.count(method); n != 0 {
					t.Errorf("%s: asked %d times", method, n)
				}
			}
		})
	}
}

// What does not come, or comes wrong, costs itself alone.
func TestOtherListsNeverCostTools(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func(w http.ResponseWriter, r *http.Request){
		"refused":    func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusInternalServerError) },
		"broken":     func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "{") },
		"never ends": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newLibrary(nil).serve(t, stateful)
			f.on(func(w http.ResponseWriter, r *http.Request, body []byte) bool {
				if isMethod(body, "resources/list") || isMethod(body, "prompts/list") {
					answer(w, r)
					return true
				}
				return false
			})
			cfg := config("box", stateful, f)
			cfg.ConnectTimeout = 2 * time.Second
			h := newTestHost(t, cfg)
			b := all(t, h, "box").Bind(nil)
			if res := b.Call(t.Context(), "box__pure", ""); res.Text != "pure" {
				t.Errorf("%+v, %+v", res, h.Status())
			}
			eventually(t, "what can be listed", func() bool { return all(t, h, "box").Bind(nil).Has("mcp_resource__box__row") })
			if b := all(t, h, "box").Bind(nil); b.Has("mcp_resource__box__notes") || b.System() != "" || h.Status()[0].State != "connected" {
				t.Errorf("%q, %+v", injected(b), h.Status())
			}
		})
	}
}

// Each list ends, whatever the server sends as cursor.
func TestCursorFaultsOfOtherLists(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		next  func(cursor string) string
		pages int
	}{
		"repeated": {func(string) string { return "p1" }, 2},
		"empty":    {func(string) string { return "" }, 1},
		"endless":  {func(cursor string) string { return cursor + "x" }, maxPages},
		"two":      {func(cursor string) string { return map[string]string{"": "x"}[cursor] }, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			box := newLibrary(nil)
			box.onMethod("resources/list", func(cursor string, res sdk.Result) error {
				res.(*sdk.ListResourcesResult).NextCursor = row.next(cursor)
				return nil
			})
			box.onMethod("resources/templates/list", func(cursor string, res sdk.Result) error {
				res.(*sdk.ListResourceTemplatesResult).NextCursor = row.next(cursor)
				return nil
			})
			box.onMethod("prompts/list", func(cursor string, res sdk.Result) error {
				res.(*sdk.ListPromptsResult).NextCursor = row.next(cursor)
				return nil
			})
			h, f := library(t, stateful, box)
			all(t, h, "box")
			if st := h.Status()[0]; st.Resources != 4 || st.ResourceTemplates != 1 || st.Prompts != 1 || st.SystemPrompts != 2 {
				t.Errorf("%+v", st)
			}
			for _, method := range []string{"resources/list", "resources/templates/list", "prompts/list"} {
				if n := f.count(method); n != row.pages {
					t.Errorf("%s: %d requests, want %d", method, n, row.pages)
				}
			}
		})
	}
}

// A list that is slow and never ends gives what came in time, and keeps nobody waiting
// for the others.
func TestListThatIsSlow(t *testing.T) {
	t.Parallel()
	box := newLibrary(nil)
	var looks atomic.Int32
	for _, method := range []string{"tools/list", "resources/list"} {
		box.onMethod(method, func(cursor string, res sdk.Result) error {
			time.Sleep(60 * time.Millisecond)
			switch res := res.(type) {
			case *sdk.ListToolsResult:
				if cursor == "" {
					looks.Add(1)
				}
				res.NextCursor = cursor + "x"
			case *sdk.ListResourcesResult:
				res.NextCursor = cursor + "x"
			}
			return nil
		})
	}
	f := box.serve(t, stateful)
	f.on(func(_ http.ResponseWriter, r *http.Request, body []byte) bool {
		if isMethod(body, "resources/templates/list") {
			<-r.Context().Done()
			return true
		}
		return false
	})
	cfg := config("box", stateful, f)
	cfg.ConnectTimeout = 2 * time.Second
	h := newTestHost(t, cfg)
	came := func() bool {
		b := all(t, h, "box").Bind(nil)
		return b.Has("box__echo") && b.Has("mcp_resource__box__notes") && b.System() != ""
	}
	eventually(t, "what came", came)
	before := looks.Load()
	eventually(t, "two looks that end, and a third", func() bool {
		nudge(h.connFor("box", nil).suspect)
		return looks.Load() >= before+3
	})
	if !came() || h.Status()[0].State != "connected" {
		t.Errorf("%+v", h.Status())
	}
}

// Servers may have resources and know nothing of templates.
func TestMethodThatIsNotThere(t *testing.T) {
	t.Parallel()
	box := newLibrary(nil)
	box.onMethod("resources/templates/list", func(string, sdk.Result) error { return errors.New("unused") })
	f := box.serve(t, stateful)
	f.on(func(w http.ResponseWriter, r *http.Request, body []byte) bool {
		if !isMethod(body, "resources/templates/list") {
			return false
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"Method not found"}}`, gjson.GetBytes(body, "id").Raw)
		return true
	})
	h := newTestHost(t, config("box", stateful, f))
	if b := all(t, h, "box").Bind(nil); !b.Has("mcp_resource__box__notes") || b.Has("mcp_resource__box__row") {
		t.Errorf("%q", injected(b))
	}
}

// A changed list of any kind is seen soon, and a running turn keeps what it has.
func TestOtherListsChanged(t *testing.T) {
	for _, kind := range []string{stateful, stateless, plainSSE} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			box := newLibrary(nil)
			h, _ := library(t, kind, box)
			before := all(t, h, "box").Bind(nil)
			box.shelve("later", &sdk.ResourceContents{Text: "late"})
			box.prompt("zeal", "Be keen.")
			eventually(t, "the new resource", func() bool { return all(t, h, "box").Bind(nil).Has("mcp_resource__box__later") })
			eventually(t, "the new instruction", func() bool {
				return strings.HasSuffix(all(t, h, "box").Bind(nil).System(), "Write British English.\n\nBe keen.")
			})
			box.prompt("zeal", "Be calm.") // the list stays the same, and the text does not
			eventually(t, "the changed instruction", func() bool { return strings.HasSuffix(all(t, h, "box").Bind(nil).System(), "Be calm.") })
			if before.Has("mcp_resource__box__later") || strings.Contains(before.System(), "Be") {
				t.Error("a binding changed")
			}
			box.server.RemoveResources("box://later")
			box.server.RemovePrompts("zeal")
			eventually(t, "all gone", func() bool {
				now := all(t, h, "box").Bind(nil)
				return string(now.JSON()) == string(before.JSON()) && now.System() == before.System()
			})
		})
	}
}

// A storm on one list neither hides the changes of another nor goes on for ever.
func TestStormOnOneList(t *testing.T) {
	t.Parallel()
	box := newLibrary(nil)
	var lists atomic.Int32
	box.onMethod("resources/list", func(string, sdk.Result) error {
		lists.Add(1)
		go box.shelve("notes", &sdk.ResourceContents{Text: "again"}) // announces
		return nil
	})
	h, _ := library(t, stateful, box)
	eventually(t, "some lists", func() bool { return lists.Load() >= 3 })
	begin, first := time.Now(), lists.Load()
	box.prompt("zeal", "Be keen.")
	eventually(t, "the new instruction", func() bool { return strings.Contains(all(t, h, "box").Bind(nil).System(), "Be keen.") })
	eventually(t, "some more", func() bool { return lists.Load() >= first+3 })
	if d := time.Since(begin); d < 2*quietFirst {
		t.Errorf("three lists in %v", d)
	}
}

// ttlMs says how long a list stays, and nobody asks before.
func TestTTLOfResources(t *testing.T) {
	t.Parallel()
	box := newLibrary(&sdk.ServerOptions{Capabilities: &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{}, Resources: &sdk.ResourceCapabilities{}, Prompts: &sdk.PromptCapabilities{}}})
	box.onMethod("resources/list", func(_ string, res sdk.Result) error {
		res.(*sdk.ListResourcesResult).TTLMs = int(refreshMin / time.Millisecond)
		return nil
	})
	box.onMethod("prompts/list", func(_ string, res sdk.Result) error {
		res.(*sdk.ListPromptsResult).TTLMs = 3_600_000
		return nil
	})
	h, f := library(t, stateless, box)
	all(t, h, "box")
	lists := f.count("prompts/list")
	box.shelve("later", &sdk.ResourceContents{Text: "late"}) // not announced
	eventually(t, "the new resource", func() bool { return all(t, h, "box").Bind(nil).Has("mcp_resource__box__later") })
	if f.count("prompts/list") != lists {
		t.Error("prompts were listed before their time was over")
	}
}

// A server that was away at first comes back with everything at once: nobody sees
// its tools without its instructions.
func TestComesBackWhole(t *testing.T) {
	t.Parallel()
	addr, listen := reserve(t)
	h := newTestHost(t, Server{Name: "box", URL: "http://" + addr})
	all(t, h, "box")
	box := newLibrary(nil)
	box.onMethod("prompts/list", func(string, sdk.Result) error {
		time.Sleep(300 * time.Millisecond) // longer than tools/list takes
		return nil
	})
	t.Cleanup(box.endSessions)
	server := &httptest.Server{Listener: listen(), Config: &http.Server{Handler: box.handler(stateful)}}
	server.Start()
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	eventually(t, "the server", func() bool {
		b := all(t, h, "box").Bind(nil)
		if b.Has("box__echo") && (b.System() == "" || !b.Has("mcp_resource__box__notes")) {
			t.Fatalf("%q, instructions %q", injected(b), b.System())
		}
		return b.Has("box__echo")
	})
}

// The pause after a refresh grows while announcements bring nothing, or never end.
func TestRest(t *testing.T) {
	f := freshness{quiet: quietFirst}
	for range freeChanges {
		if f.rest(true, true); f.quiet != quietFirst {
			t.Fatalf("%v after %d changes", f.quiet, f.changes)
		}
	}
	for _, changed := range []bool{true, false, true} {
		before := f.quiet
		if f.rest(true, changed); f.quiet != 2*before {
			t.Errorf("%v after %v", f.quiet, before)
		}
	}
	for range 100 {
		f.rest(true, true)
	}
	if f.quiet != quietLimit {
		t.Errorf("%v", f.quiet)
	}
	if f.rest(false, false); f.quiet != quietFirst || f.changes != 0 {
		t.Errorf("%+v", f)
	}
}
