package mcp

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// only keeps the tools that have one of these names for rules.
type only []string

func (o only) Key() string { return "only " + o[0] }

func (o only) Keep(t Tool) bool {
	return slices.ContainsFunc(t.RuleNames, func(name string) bool { return slices.Contains(o, name) })
}

// What a filter leaves out cannot be seen, called or suggested, and takes no room;
// what it keeps has the name that it has without a filter.
func TestFilter(t *testing.T) {
	t.Parallel()
	h := newTestHost(t, named(t, "kb", "notion.search", "notion_search", "other"))
	toolsOf(t, h, "kb") // connected
	ask := func(f Filter) *Toolset {
		return h.Toolset(t.Context(), Query{Servers: []string{"kb"}, MaxTools: 1, Filter: f})
	}
	other := ask(only{"kb__other"})
	b := other.Bind(nil)
	if got := injected(b); !slices.Equal(got, []string{"kb__other"}) || len(other.Omitted()) != 0 {
		t.Errorf("got %q, omitted %v", got, other.Omitted())
	}
	if res := b.Call(t.Context(), "kb__notion_search", "{}"); res.Outcome != OutcomeUnknownTool || b.Has("kb__notion_search") || b.Suggest("kb__notion_searc") != nil {
		t.Errorf("a tool that is left out: %+v", res)
	}
	if ask(only{"kb__other"}) != other {
		t.Error("the toolset was built again for the same filter")
	}
	hashed := "kb__notion_search_" + hashOf("kb__notion.search")
	if got := injected(ask(only{hashed}).Bind(nil)); !slices.Equal(got, []string{hashed}) {
		t.Errorf("by its injected name: %q", got)
	}
	if got := ask(only{"kb__notion_search"}).Tools()[0]; !slices.Equal(got.RuleNames, []string{"kb__notion_search"}) {
		t.Errorf("%+v", got)
	}
	if ts := ask(only{"kb__notion_search"}); len(ts.Omitted()) != 1 {
		t.Errorf("both tools want that name, and one has no room: %v", ts.Omitted())
	}
}

// The names for rules do not follow what a client calls its own functions.
func TestRuleNamesStay(t *testing.T) {
	t.Parallel()
	h := newTestHost(t, named(t, "kb", "read"))
	b := toolsOf(t, h, "kb").Bind([]string{"kb__read"})
	tool := b.List()[0]
	if tool.Name == "kb__read" || !slices.Equal(tool.RuleNames, []string{"kb__read"}) {
		t.Errorf("%+v", tool)
	}
}

func TestResolve(t *testing.T) {
	t.Parallel()
	h := newTestHost(t, config("box", stateful, newToolbox().serve(t, stateful)))
	b := toolsOf(t, h, "box").Bind(nil)
	tool, args, err := b.Resolve("box__add_numbers", ` {"a":1, "b":2} `)
	if err != nil || tool.Server != "box" || tool.Original != "add_numbers" || tool.ReadOnly || string(args) != `{"a":1, "b":2}` {
		t.Errorf("%+v, %s, %v", tool, args, err)
	}
	if tool, args, err := b.Resolve("box__pure", ""); err != nil || !tool.ReadOnly || string(args) != "{}" {
		t.Errorf("%+v, %s, %v", tool, args, err)
	}
	var unfit *errArguments
	if tool, _, err := b.Resolve("box__add_numbers", `{"a":"x"}`); !errors.As(err, &unfit) || tool.Original != "add_numbers" {
		t.Errorf("%+v, %v", tool, err)
	}
	if tool, _, err := b.Resolve("box__nothing", "{}"); err == nil || tool.Name != "" {
		t.Errorf("%+v, %v", tool, err)
	}
}

// What a filter leaves out is not found by the search, nor reached by the call.
func TestFilterBehindTheBudget(t *testing.T) {
	t.Parallel()
	h := newTestHost(t, named(t, "kb", "a", "b", "c", "secret"))
	toolsOf(t, h, "kb") // connected
	ts := h.Toolset(t.Context(), Query{Servers: []string{"kb"}, MaxTools: 2, Filter: only{"kb__a", "kb__b", "kb__c"}})
	b := ts.Bind(nil)
	if got := injected(b); !slices.Equal(got, []string{searchName, callName}) || len(b.Omitted()) != 3 {
		t.Fatalf("got %q, omitted %q", got, b.Omitted())
	}
	if res := b.Call(t.Context(), searchName, `{"query":""}`); strings.Contains(res.Text, "secret") || !strings.Contains(res.Text, "kb__c") {
		t.Errorf("found: %+v", res)
	}
	const hidden, shown = `{"name":"kb__secret","arguments":{}}`, `{"name":"kb__c","arguments":{"x":1}}`
	if res := b.Call(t.Context(), callName, hidden); res.Outcome != OutcomeUnknownTool || strings.Contains(res.Text, "this is") {
		t.Errorf("called: %+v", res)
	}
	if tool, _, err := b.Resolve(callName, hidden); err == nil || tool.Name != "" {
		t.Errorf("resolved: %+v, %v", tool, err)
	}
	if tool, args, err := b.Resolve(callName, shown); err != nil || tool.Name != "kb__c" || tool.Server != "kb" || string(args) != `{"x":1}` {
		t.Errorf("resolved: %+v, %s, %v", tool, args, err)
	}
	if tool, _, err := b.Resolve(searchName, `{"query":"x"}`); err != nil || tool.Server != "" {
		t.Errorf("resolved: %+v, %v", tool, err)
	}
}

// without keeps everything but what has this name.
type without string

func (w without) Key() string { return "without " + string(w) }

func (w without) Keep(t Tool) bool { return t.Name != string(w) }

// A resource that is read by way of a template is known by the names of both.
func TestTemplatesResolve(t *testing.T) {
	t.Parallel()
	box := newToolbox()
	read := func(_ context.Context, r *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
		return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: r.Params.URI, Text: "read " + r.Params.URI}}}, nil
	}
	for _, name := range []string{"open", "secret"} {
		box.server.AddResource(&sdk.Resource{Name: name, URI: "file:///" + name}, read)
	}
	box.server.AddResourceTemplate(&sdk.ResourceTemplate{Name: "any", URITemplate: "{+uri}"}, read)
	h, _ := library(t, stateful, box)
	const secret, template = "mcp_resource__box__secret", "mcp_resource__box__any"
	for _, filter := range []Filter{nil, without(secret)} {
		b := h.Toolset(t.Context(), Query{Servers: []string{"box"}, Resources: true, Filter: filter}).Bind(nil)
		for uri, want := range map[string]string{
			"file:///other": template, "file:///secret": template + " " + secret, "FILE://localhost/a/%2E./secret": template + " " + secret,
		} {
			tool, _, err := b.Resolve(template, `{"uri":"`+uri+`"}`)
			if got := strings.Join(tool.RuleNames, " "); err != nil || got != want || tool.URI != normalURI(uri) || tool.LiteralURI != literalURI(uri) {
				t.Errorf("%s resolves to %q of %q, %v", uri, got, tool.URI, err)
			}
		}
		if res := b.Call(t.Context(), template, `{"uri":"file:///secret"}`); res.Text != "read file:///secret" {
			t.Errorf("%+v", res)
		}
		if tool, _, err := b.Resolve("mcp_resource__box__open", `{}`); err != nil || tool.URI != "file:///open" || len(tool.RuleNames) != 1 {
			t.Errorf("%+v, %v", tool, err)
		}
	}
}
