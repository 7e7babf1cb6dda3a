package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/mcp-via-llm/mcp-via-llm/schema"
)

// named starts a server with tools of these names.
func named(t *testing.T, name string, tools ...string) Server {
	t.Helper()
	box := newToolbox()
	box.server.RemoveTools("echo", "add_numbers", "fails", "pure", "large", "hang")
	for _, tool := range tools {
		box.add(tool, "", `{"content":[{"type":"text","text":"this is `+name+` `+tool+`"}]}`)
	}
	return config(name, stateful, box.serve(t, stateful))
}

func injected(b *Binding) []string {
	var names []string
	for _, tool := range gjson.Parse("[" + string(b.JSON()) + "]").Array() {
		names = append(names, tool.Get("function.name").String())
	}
	return names
}

func TestToolset(t *testing.T) {
	t.Parallel()
	h := newTestHost(t, named(t, "zoo", "b", "a"), named(t, "kb", "notion.search", "notion_search"), named(t, "ant", "x"))
	ts := toolsOf(t, h, "zoo", "kb", "nobody", "kb")
	want := []string{"kb__notion_search", "kb__notion_search_" + hashOf("kb__notion.search"), "zoo__a", "zoo__b"}
	if got := injected(ts.Bind(nil)); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := ts.Unavailable(); !slices.Equal(got, []string{"nobody"}) {
		t.Errorf("unavailable %q", got)
	}
	if again := toolsOf(t, h, "zoo", "kb", "nobody"); again != ts {
		t.Error("the toolset was built again although nothing changed")
	}
	tool := ts.Tools()[1]
	if tool.Server != "kb" || tool.Original != "notion.search" || tool.Kind != "tool" || tool.Description != "about notion.search" || tool.Tokens != (len(tool.JSON)+3)/4 {
		t.Errorf("%+v", tool)
	}
	for name, text := range map[string]string{"zoo__a": "this is zoo a", want[0]: "this is kb notion_search", want[1]: "this is kb notion.search"} {
		if res := ts.Bind(nil).Call(t.Context(), name, "{}"); res.Text != text {
			t.Errorf("%s went elsewhere: %+v", name, res)
		}
	}
}

func hashOf(full string) string {
	server, tool, _ := strings.Cut(full, "__")
	name := origin{server: server, tool: tool}.hashed(0)
	return name[len(name)-8:]
}

// The client's own function keeps its name, and every call finds its owner.
func TestBindRenamesForTheClient(t *testing.T) {
	t.Parallel()
	h := newTestHost(t, named(t, "knowledge base", "notion_search", "other"))
	ts := toolsOf(t, h, "knowledge base")
	if b := ts.Bind([]string{"book_table", "notion_search"}); b != ts.Bind(nil) {
		t.Error("work was done for a request without a clash")
	}
	hashed := "knowledge_base__notion_search_" + hashOf("knowledge base__notion_search")
	b := ts.Bind([]string{"knowledge_base__notion_search"})
	if got, want := injected(b), []string{hashed, "knowledge_base__other"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if b.Has("knowledge_base__notion_search") || !b.Has(hashed) || !ts.Bind(nil).Has("knowledge_base__notion_search") {
		t.Error("wrong owner")
	}
	if res := b.Call(t.Context(), hashed, "{}"); res.Text != "this is knowledge base notion_search" {
		t.Errorf("%+v", res)
	}
	if got := injected(ts.Bind([]string{"knowledge_base__notion_search", hashed}))[0]; got == hashed || !validName.MatchString(got) {
		t.Errorf("the client has the hashed name too, and ours is %q", got)
	}
}

func TestMaxTools(t *testing.T) {
	t.Parallel()
	h := newTestHost(t, named(t, "b", "b1", "b2"), named(t, "a", "a1", "a2"))
	for _, test := range []struct {
		name          string
		limit         int
		taken         []string
		kept, omitted []string
	}{
		{"no limit", 0, []string{"f"}, []string{"a__a1", "a__a2", "b__b1", "b__b2"}, nil},
		{"room for all", 5, []string{"f"}, []string{"a__a1", "a__a2", "b__b1", "b__b2"}, nil},
		{"the last server of the query gives way", 3, nil, []string{"b__b1", searchName, callName}, []string{"b__b2", "a__a1", "a__a2"}},
		{"the client's functions count", 4, []string{"f"}, []string{"b__b1", searchName, callName}, []string{"b__b2", "a__a1", "a__a2"}},
		{"room for the two alone", 3, []string{"f"}, []string{searchName, callName}, []string{"b__b1", "b__b2", "a__a1", "a__a2"}},
		{"no room for the two", 3, []string{"f", "g"}, []string{"b__b1"}, []string{"b__b2", "a__a1", "a__a2"}},
		{"no room", 2, []string{"f", "g", "h"}, nil, []string{"b__b1", "b__b2", "a__a1", "a__a2"}},
	} {
		ts := h.Toolset(t.Context(), Query{Servers: []string{"b", "a"}, MaxTools: test.limit})
		b := ts.Bind(test.taken)
		if got := injected(b); !slices.Equal(got, test.kept) {
			t.Errorf("%s: kept %q, want %q", test.name, got, test.kept)
		}
		if got := b.Omitted(); !slices.Equal(got, test.omitted) {
			t.Errorf("%s: omitted %q, want %q", test.name, got, test.omitted)
		}
		if test.taken == nil && (len(ts.Tools()) != len(test.kept) || len(ts.Omitted()) != len(test.omitted)) {
			t.Errorf("%s: the toolset says otherwise", test.name)
		}
		for _, name := range test.omitted {
			if !b.Has(name) {
				t.Errorf("%s: %s cannot be called", test.name, name)
			}
		}
	}
}

func TestAllowDeny(t *testing.T) {
	t.Parallel()
	cfg := named(t, "s", "read_file", "read_dir", "write_file", "stat")
	cfg.Allow, cfg.Deny = []string{"read_*", "write_*", "[", "gone"}, []string{"*_dir", "["}
	h := newTestHost(t, cfg)
	if got, want := injected(toolsOf(t, h, "s").Bind(nil)), []string{"s__read_file", "s__write_file"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestUnknownTool(t *testing.T) {
	t.Parallel()
	var events []CallEvent
	cfg := named(t, "wx", "forecast", "now", "radar", "history")
	h := startHost(t, Options{Servers: []Server{cfg}, Observe: func(_ context.Context, e CallEvent) { events = append(events, e) }})
	b := toolsOf(t, h, "wx").Bind(nil)
	res := b.Call(t.Context(), "wx__forcast", "{}")
	if res.Outcome != OutcomeUnknownTool || !res.IsError || !strings.Contains(res.Text, "The nearest names are: wx__forecast.") {
		t.Errorf("%+v", res)
	}
	if res = b.Call(t.Context(), strings.Repeat("\xff", 10000), "{}"); len(res.Text) > 500 || !json.Valid([]byte(`"`+strings.ReplaceAll(res.Text, `"`, "'")+`"`)) {
		t.Errorf("%q", res.Text)
	}
	if b.Call(t.Context(), "wx__now", "{}"); len(events) != 3 {
		t.Fatalf("%d events", len(events))
	}
	if e := events[2]; e.Server != "wx" || e.Tool != "now" || e.Injected != "wx__now" || e.Outcome != OutcomeOK || e.ResultBytes == 0 || e.Duration <= 0 || time.Since(e.Start) > soon {
		t.Errorf("%+v", e)
	}
	if e := events[0]; e.Server != "" || e.Outcome != OutcomeUnknownTool {
		t.Errorf("%+v", e)
	}
}

func TestEmptyBinding(t *testing.T) {
	t.Parallel()
	b := newTestHost(t).Toolset(t.Context(), Query{}).Bind([]string{"f"})
	if len(b.JSON()) != 0 || b.Has("f") || b.Suggest("f") != nil {
		t.Error("not empty")
	}
	if res := b.Call(context.Background(), "f", ""); res.Outcome != OutcomeUnknownTool {
		t.Errorf("%+v", res)
	}
}

// A tool that the provider's dialect cannot have is left out alone.
func TestSchemaDialects(t *testing.T) {
	t.Parallel()
	box := newToolbox()
	box.server.RemoveTools("echo", "add_numbers", "fails", "pure", "large", "hang")
	box.add("fine", `{"type":"object","properties":{"n":{"type":"integer","exclusiveMinimum":0},"s":{"type":"string"}},"required":["s"]}`, `{"content":[{"type":"text","text":"ok"}]}`)
	box.add("large", `{"type":"object","properties":{"`+strings.Repeat("x", schema.MaxBytes)+`":{}}}`, `{"content":[]}`)
	h := newTestHost(t, config("s", stateful, box.serve(t, stateful)))
	for dialect, want := range map[schema.Dialect]string{
		"":                  `{"type":"object","properties":{"n":{"type":"integer","exclusiveMinimum":0},"s":{"type":"string"}},"required":["s"]}}}`,
		schema.Gemini:       `{"type":"object","properties":{"n":{"type":"integer","minimum":1},"s":{"type":"string"}},"required":["s"]}}}`,
		schema.OpenAIStrict: `{"type":"object","properties":{"n":{"type":["integer","null"],"exclusiveMinimum":0},"s":{"type":"string"}},"required":["n","s"],"additionalProperties":false},"strict":true}}`,
	} {
		b := h.Toolset(t.Context(), Query{Servers: []string{"s"}, Schema: dialect}).Bind(nil)
		if got, want := string(b.JSON()), `{"type":"function","function":{"name":"s__fine","description":"about fine","parameters":`+want; got != want {
			t.Errorf("%q: %s", dialect, got)
		}
		res := b.Call(t.Context(), "s__fine", `{"n":null,"s":"x"}`)
		if res.Outcome != OutcomeOK { // null for what is optional says that it is left out
			t.Errorf("%q: %+v", dialect, res)
		}
	}
}

func TestMaxBytes(t *testing.T) {
	t.Parallel()
	var names []string
	for i := range 60 {
		names = append(names, fmt.Sprintf("t%02d", i))
	}
	h := newTestHost(t, named(t, "s", names...))
	all := h.Toolset(t.Context(), Query{Servers: []string{"s"}})
	for _, limit := range []int{len(all.Bind(nil).JSON()) + 1, 6000, 1} {
		b := h.Toolset(t.Context(), Query{Servers: []string{"s"}, MaxBytes: limit, Schema: schema.Gemini}).Bind([]string{callName})
		if limit > 6000 {
			if len(b.Omitted()) != 0 {
				t.Errorf("left out %q", b.Omitted())
			}
			continue
		}
		if n := len(injected(b)) - 2; len(b.JSON()) > limit && n > 0 || n+len(b.Omitted()) != len(names) || len(b.Omitted()) == 0 {
			t.Errorf("%d bytes for %d: %d functions, %d left out", len(b.JSON()), limit, n, len(b.Omitted()))
		}
		through := injected(b)[len(injected(b))-1]
		if res := b.Call(t.Context(), through, `{"name":"s__t59","arguments":"{}"}`); res.Text != "this is s t59" {
			t.Errorf("%s: %+v", through, res)
		}
	}
}
