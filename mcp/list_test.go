package mcp

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// onList changes the answers to tools/list.
func (b *toolbox) onList(change func(cursor string, res *sdk.ListToolsResult)) {
	b.onMethod("tools/list", func(cursor string, res sdk.Result) error {
		change(cursor, res.(*sdk.ListToolsResult))
		return nil
	})
}

func TestPages(t *testing.T) {
	for _, kind := range []string{stateful, stateless} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			f := newToolboxWith(&sdk.ServerOptions{PageSize: 2}).serve(t, kind)
			h := newTestHost(t, config("box", kind, f))
			if got := toolsOf(t, h, "box").Tools(); len(got) != 6 {
				t.Errorf("%d tools", len(got))
			}
		})
	}
}

// Listing ends whatever the server sends as cursor.
func TestCursorFaults(t *testing.T) {
	for name, test := range map[string]struct {
		change func(cursor string, res *sdk.ListToolsResult)
		want   int // tools
		lists  int
	}{
		"repeated": {func(_ string, res *sdk.ListToolsResult) { res.NextCursor = "p1" }, 6, 2},
		"two in turn": {func(cursor string, res *sdk.ListToolsResult) {
			res.NextCursor = map[string]string{"": "a", "a": "b", "b": "a"}[cursor]
		}, 6, 3},
		"endless pages": {func(cursor string, res *sdk.ListToolsResult) { res.NextCursor = cursor + "x" }, 6, maxPages},
		"endless tools": {func(cursor string, res *sdk.ListToolsResult) {
			res.NextCursor, res.Tools = cursor+"x", nil
			for i := range 500 {
				res.Tools = append(res.Tools, &sdk.Tool{Name: fmt.Sprintf("t%d_%d", len(cursor), i), InputSchema: json.RawMessage(`{"type":"object"}`)})
			}
		}, maxTools, 5},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			box := newToolbox()
			box.onList(test.change)
			f := box.serve(t, stateful)
			h := newTestHost(t, config("box", stateful, f))
			if got := toolsOf(t, h, "box").Tools(); len(got) != test.want {
				t.Errorf("%d tools, want %d", len(got), test.want)
			}
			if got := f.count("tools/list"); got != test.lists {
				t.Errorf("%d requests, want %d", got, test.lists)
			}
		})
	}
}

// A changed list is seen soon; a running turn keeps the toolset it started with.
func TestListChanged(t *testing.T) {
	for _, kind := range []string{stateful, stateless, plainSSE} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			box := newToolbox()
			box.onList(func(_ string, res *sdk.ListToolsResult) { res.TTLMs = 3_600_000 })
			h := newTestHost(t, config("box", kind, box.serve(t, kind)))
			before := toolsOf(t, h, "box")
			box.add("later", "", `{"content":[{"type":"text","text":"yes"}]}`)
			eventually(t, "the new tool", func() bool { return toolsOf(t, h, "box").Bind(nil).Has("box__later") })
			after := toolsOf(t, h, "box")
			if before.Bind(nil).Has("box__later") || after == before {
				t.Error("a toolset changed")
			}
			if res := after.Bind(nil).Call(t.Context(), "box__later", ""); res.Text != "yes" {
				t.Errorf("%+v", res)
			}
			box.server.RemoveTools("later")
			if res := after.Bind(nil).Call(t.Context(), "box__later", ""); res.Outcome != OutcomeToolError || !strings.Contains(res.Text, "later") {
				t.Errorf("%+v", res)
			}
			eventually(t, "the tool gone", func() bool { return !toolsOf(t, h, "box").Bind(nil).Has("box__later") })
			if got, want := string(toolsOf(t, h, "box").Bind(nil).JSON()), string(before.Bind(nil).JSON()); got != want {
				t.Errorf("other bytes for the same tools:\n%s\n%s", got, want)
			}
		})
	}
}

// A server that announces a change at every listing does not keep us busy, and
// the same list makes no new toolset.
func TestListChangedStorm(t *testing.T) {
	t.Parallel()
	box := newToolbox()
	var lists atomic.Int32
	box.onList(func(_ string, res *sdk.ListToolsResult) {
		lists.Add(1)
		go box.add("pure", "", "{}") // announces
	})
	h := newTestHost(t, config("box", stateful, box.serve(t, stateful)))
	eventually(t, "some lists", func() bool { return lists.Load() >= 3 })
	ts := toolsOf(t, h, "box")
	begin, first := time.Now(), lists.Load()
	eventually(t, "some more", func() bool { return lists.Load() >= first+3 })
	if d := time.Since(begin); d < 2*quietFirst {
		t.Errorf("three lists in %v", d)
	}
	if toolsOf(t, h, "box") != ts {
		t.Error("the same list made another toolset")
	}
}

// A list is read again when its ttlMs is over, and in between the server is asked
// for a sign of life, not the SDK's cache.
func TestTTL(t *testing.T) {
	t.Parallel()
	box := newToolboxWith(&sdk.ServerOptions{Capabilities: &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{}}})
	box.onList(func(_ string, res *sdk.ListToolsResult) { res.TTLMs = int(refreshMin / time.Millisecond) })
	f := box.serve(t, stateless)
	h := newTestHost(t, config("box", stateless, f))
	toolsOf(t, h, "box")
	lists, signs := f.count("tools/list"), f.count(methodDiscover)
	nudge(h.connFor("box", nil).suspect)
	eventually(t, "sign of life", func() bool { return f.count(methodDiscover) == signs+1 })
	if f.count("tools/list") != lists {
		t.Error("listed before the time was over")
	}
	box.add("later", "", "{}")
	eventually(t, "the new tool", func() bool { return toolsOf(t, h, "box").Bind(nil).Has("box__later") })
}

func TestServerWithoutTools(t *testing.T) {
	t.Parallel()
	box := newToolbox()
	box.server = sdk.NewServer(&sdk.Implementation{Name: "empty", Version: "1"}, nil)
	for _, kind := range []string{stateful, stateless} {
		h := newTestHost(t, config("box", kind, box.serve(t, kind)))
		if got := toolsOf(t, h, "box"); len(got.Unavailable()) != 0 || len(got.Tools()) != 0 {
			t.Errorf("%s: %+v", kind, h.Status())
		}
	}
}

// Arguments that 2026-07-28 wants in headers too go out from the first call on,
// and after the schema changed.
func TestParamHeaders(t *testing.T) {
	t.Parallel()
	box := newToolbox()
	input := func(header string) string {
		return `{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"` + header + `"}}}`
	}
	box.add("sql", input("Region"), `{"content":[{"type":"text","text":"ok"}]}`)
	h := newTestHost(t, config("box", stateless, box.serve(t, stateless)))
	call := func() Result {
		return toolsOf(t, h, "box").Bind(nil).Call(t.Context(), "box__sql", `{"region":"eu"}`)
	}
	if res := call(); res.Text != "ok" {
		t.Errorf("%+v", res)
	}
	box.add("sql", input("Area"), `{"content":[{"type":"text","text":"ok"}]}`)
	eventually(t, "a call with the other header", func() bool { return call().Text == "ok" })
}

// A turn whose tools were bound before the schema changed sends the new header, too.
func TestParamHeadersOfOldBindings(t *testing.T) {
	t.Parallel()
	box := newToolbox()
	ok := `{"content":[{"type":"text","text":"ok"}]}`
	box.add("sql", `{"type":"object","properties":{"region":{"type":"string"}}}`, ok)
	b := toolsOf(t, newTestHost(t, config("box", stateless, box.serve(t, stateless))), "box").Bind(nil)
	call := func() Result { return b.Call(t.Context(), "box__sql", `{"region":"eu"}`) }
	if res := call(); res.Text != "ok" {
		t.Errorf("%+v", res)
	}
	box.add("sql", `{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}`, ok)
	if res := call(); res.Text == "ok" {
		t.Error("the server does not want the header")
	}
	eventually(t, "a call with the header", func() bool { return call().Text == "ok" })
}

// What the SDK cannot decode does not cost the whole list.
func TestOddListings(t *testing.T) {
	t.Parallel()
	f := serve(t, legacyServer(`{"tools":[
		{"name":"a","description":null,"inputSchema":{"type":["object"],"properties":{"n":{"type":["null","integer"]}}}},
		{"name":"b","title":7,"inputSchema":true},
		{"name":"b","inputSchema":{"type":"object"}},
		{"name":"","inputSchema":{"type":"object"}},
		{"name":"c"}]}`))
	h := newTestHost(t, config("odd", stateful, f))
	if got := len(toolsOf(t, h, "odd").Tools()); got != 3 {
		t.Errorf("%d tools: %+v", got, h.Status())
	}
}
