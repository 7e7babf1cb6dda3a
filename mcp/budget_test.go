package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
	"pgregory.net/rapid"
)

// crowd starts a server with many tools, and a library beside it.
func crowd(t *testing.T, tools int) *Host {
	t.Helper()
	box := newToolbox()
	box.server.RemoveTools("echo", "add_numbers", "fails", "pure", "large", "hang")
	for i := range tools - 1 {
		box.add(fmt.Sprintf("get_%04d", i), `{"type":"object","properties":{"id":{"type":"integer"}},"required":["id"]}`, `{"content":[{"type":"text","text":"got `+fmt.Sprint(i)+`"}]}`)
	}
	box.add("zzz_forecast", `{"type":"object","properties":{"city":{"type":"string","description":"Name of the town"}}}`, `{"content":[{"type":"text","text":"rain"}]}`)
	return newTestHost(t, config("crowd", stateful, box.serve(t, stateful)), config("box", stateful, newLibrary(nil).serve(t, stateful)))
}

func limited(t *testing.T, h *Host, limit int, servers ...string) *Toolset {
	t.Helper()
	all(t, h, servers...) // connected
	return h.Toolset(t.Context(), Query{Servers: servers, Resources: true, Prompts: true, MaxTools: limit})
}

// Two thousand tools fit a provider that takes 128 functions: the rest is found by
// searching and called by name.
func TestTwoThousandTools(t *testing.T) {
	t.Parallel()
	h := crowd(t, maxTools)
	ts := limited(t, h, 128, "crowd", "box")
	b := ts.Bind([]string{"a", "b", "c"})
	names := injected(b)
	if len(names) != 125 || !slices.Equal(names[123:], []string{searchName, callName}) || names[0] != "crowd__get_0000" || names[122] != "crowd__get_0122" {
		t.Errorf("%d: %q", len(names), names)
	}
	if got := len(b.Omitted()); got != maxTools+6+4+1+1-123 || !strings.HasPrefix(b.Omitted()[got-1], "mcp_resource__box__") {
		t.Errorf("%d left out", got)
	}
	if b.System() == "" {
		t.Error("instructions take no room")
	}
	res := b.Call(t.Context(), searchName, `{"query":"weather forecast for a town","limit":3}`)
	found := gjson.Get(res.Text, "tools.0")
	if res.IsError || found.Get("name").String() != "crowd__zzz_forecast" || found.Get("parameters.properties.city.type").String() != "string" || found.Get("description").String() != "about zzz_forecast" {
		t.Errorf("%s", res.Text)
	}
	for _, arguments := range []string{`{"name":"crowd__zzz_forecast","arguments":{"city":"Oslo"}}`, `{"name":"crowd__zzz_forecast"}`, `{"name":"crowd__zzz_forecast","arguments":"{\"city\":\"Oslo\"}"}`} {
		if res := b.Call(t.Context(), callName, arguments); res.Text != "rain" {
			t.Errorf("%s: %+v", arguments, res)
		}
		if runs := b.Runs(callName, arguments); runs != "crowd__zzz_forecast" {
			t.Errorf("%s runs %q", arguments, runs)
		}
	}
	if res := b.Call(t.Context(), "crowd__get_1500", `{"id":1}`); res.Text != "got 1500" {
		t.Errorf("called by its name: %+v", res)
	}
	if again := ts.Bind([]string{"c", "a", "b"}); again != b || string(limited(t, crowd(t, maxTools), 128, "crowd", "box").Bind([]string{"a", "b", "c"}).JSON()) != string(b.JSON()) {
		t.Error("not the same for the same functions, or on another replica")
	}
}

// A call through mcp_call_tool is held to everything that a call of its target is.
func TestCallThrough(t *testing.T) {
	t.Parallel()
	var events []CallEvent
	h := crowd(t, 20)
	h.opts.Observe = func(_ context.Context, e CallEvent) { events = append(events, e) }
	b := limited(t, h, 10, "crowd", "box").Bind(nil)
	through := func(name, arguments string) string {
		return fmt.Sprintf(`{"name":%q,"arguments":%s}`, name, arguments)
	}
	for _, row := range []struct{ arguments, outcome, text string }{
		{through("crowd__get_0015", `{"id":"x"}`), OutcomeInvalidArguments, "crowd__get_0015 was not called: its arguments do not fit. /id"},
		{through("crowd__get_0015", `[1]`), OutcomeInvalidArguments, "crowd__get_0015 was not called"},
		{through("crowd__get_0015", `"no JSON"`), OutcomeInvalidArguments, "crowd__get_0015 was not called"},
		{through("crowd__get_001", `{}`), OutcomeUnknownTool, `There is no function "crowd__get_001". The nearest names are: crowd__get_0001`},
		{through("get_0015", `{"id":1}`), OutcomeUnknownTool, "The nearest names are: crowd__get_0015"},
		{through(callName, `{}`), OutcomeInvalidArguments, "cannot call itself"},
		{`{"arguments":{}}`, OutcomeInvalidArguments, callName + " was not called"},
		{`{"name":"","arguments":{}}`, OutcomeInvalidArguments, callName + " was not called"},
		{`no JSON`, OutcomeInvalidArguments, callName + " was not called"},
		{through("box__fails", `{}`), OutcomeToolError, "box__fails failed: disk full"},
		{through("crowd__get_0001", `{"id":1}`), OutcomeOK, "got 1"}, // it is offered too
		{through("mcp_resource__box__notes", `{}`), OutcomeOK, "Buy milk."},
		{through(searchName, `{"query":"forecast"}`), OutcomeOK, "zzz_forecast"},
	} {
		res := b.Call(t.Context(), callName, row.arguments)
		if res.Outcome != row.outcome || !strings.Contains(res.Text, row.text) || res.IsError == (row.outcome == OutcomeOK) {
			t.Errorf("%s: %+v", row.arguments, res)
		}
		tool, args, err := b.Resolve(callName, row.arguments)
		if refused := row.outcome == OutcomeInvalidArguments || row.outcome == OutcomeUnknownTool; refused != (err != nil) {
			t.Errorf("%s: resolved to %+v, %s, %v", row.arguments, tool, args, err)
		}
	}
	if e := events[9]; e.Injected != "box__fails" || e.Server != "box" || e.Tool != "fails" || e.Outcome != OutcomeToolError {
		t.Errorf("%+v", e)
	}
	for name, want := range map[string]bool{"box__pure": true, "box__echo": false, "mcp_resource__box__notes": true, "nothing": false, searchName: true} {
		if readOnly, repeatable := b.Hints(callName, through(name, `{}`)); readOnly != want || repeatable != want {
			t.Errorf("%s: %v, %v", name, readOnly, repeatable)
		}
	}
	if tool, args, err := b.Resolve(callName, through("crowd__get_0015", `{"id": 7}`)); err != nil || tool.Name != "crowd__get_0015" || string(args) != `{"id": 7}` {
		t.Errorf("%+v, %s, %v", tool, args, err)
	}
}

// The search shows what there is room for, and says what else there is.
func TestSearchAnswers(t *testing.T) {
	t.Parallel()
	b := limited(t, crowd(t, 100), 10, "crowd", "box").Bind(nil)
	for arguments, want := range map[string]struct{ shown, more int }{
		`{"query":"","limit":3}`:    {3, 101},
		`{"query":" "}`:             {defaultFound, 94},
		`{"query":"get"}`:           {defaultFound, 81},
		`{"query":"qwertyuiop"}`:    {0, 0},
		`{"query":"get","limit":1}`: {1, 90},
	} {
		res := b.Call(t.Context(), searchName, arguments)
		if n := len(gjson.Get(res.Text, "tools").Array()); !json.Valid([]byte(res.Text)) || n != want.shown || int(gjson.Get(res.Text, "more").Int()) != want.more {
			t.Errorf("%s: %s", arguments, res.Text)
		}
	}
	for _, arguments := range []string{`{}`, `{"query":7}`, `{"query":"x","limit":0}`, `{"query":"x","limit":51}`, `[`} {
		if res := b.Call(t.Context(), searchName, arguments); res.Outcome != OutcomeInvalidArguments {
			t.Errorf("%s: %+v", arguments, res)
		}
	}
}

func TestSearchIsBounded(t *testing.T) {
	t.Parallel()
	box := newToolbox()
	for i := range 30 {
		box.add(fmt.Sprintf("wide_%02d", i), `{"type":"object","properties":{"x":{"type":"string","description":"`+strings.Repeat("x", 2000)+`"}}}`, "{}")
	}
	box.add("widest", `{"type":"object","properties":{"giant":{"type":"string","description":"`+strings.Repeat("giant ", 9000)+`"}}}`, "{}")
	h := newTestHost(t, config("box", stateful, box.serve(t, stateful)))
	b := limited(t, h, 3, "box").Bind(nil)
	res := b.Call(t.Context(), searchName, `{"query":"wide","limit":50}`)
	if n := len(gjson.Get(res.Text, "tools").Array()); len(res.Text) > maxFoundBytes+100 || n < 5 || !json.Valid([]byte(res.Text)) {
		t.Errorf("%d bytes, %d functions", len(res.Text), n)
	}
	res = b.Call(t.Context(), searchName, `{"query":"giant","limit":1}`)
	if first := gjson.Get(res.Text, "tools.0"); first.Get("name").String() != "box__widest" || first.Get("parameters").Exists() || !strings.Contains(first.Get("description").String(), "too long") {
		t.Errorf("%s", res.Text)
	}
}

// A client's own function of that name wins, and the two still know each other.
func TestClientOwnsTheNamesOfTheBudget(t *testing.T) {
	t.Parallel()
	b := limited(t, crowd(t, 20), 10, "crowd", "box").Bind([]string{callName, "box__echo"})
	names := injected(b)
	if len(names) != 8 || names[6] != searchName || !strings.HasPrefix(names[7], callName+"_") {
		t.Fatalf("%q", names)
	}
	if b.Has(callName) || !strings.Contains(string(b.JSON()), "Call what it finds with "+names[7]+".") {
		t.Errorf("%s", b.JSON())
	}
	if res := b.Call(t.Context(), names[7], `{"name":"box__pure","arguments":{}}`); res.Text != "pure" {
		t.Errorf("%+v", res)
	}
}

func TestBudgetIsKept(t *testing.T) {
	t.Parallel()
	h := crowd(t, 20)
	all(t, h, "crowd", "box")
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(0, 40).Draw(t, "limit")
		var taken []string
		for i := range rapid.IntRange(0, 45).Draw(t, "own") {
			taken = append(taken, rapid.SampledFrom([]string{fmt.Sprint("f", i), fmt.Sprintf("crowd__get_%04d", i), "mcp_resource__box__notes", searchName, callName}).Draw(t, "name"))
		}
		slices.Sort(taken)
		taken = slices.Compact(taken)
		servers := rapid.Permutation([]string{"crowd", "box"}).Draw(t, "servers")
		b := h.Toolset(t.Context(), Query{Servers: servers, Resources: true, Prompts: true, MaxTools: limit}).Bind(taken)
		names := injected(b)
		if limit > 0 && len(names) > 0 && len(names)+len(taken) > limit {
			t.Fatalf("%d and %d are over %d", len(names), len(taken), limit)
		}
		const everything = 20 + 6 + 4 + 1 + 1
		extra := 0
		for _, name := range names {
			if slices.Contains(taken, name) {
				t.Fatalf("%s is the client's", name)
			}
			if b.byName[name].conn == nil {
				extra++
			}
		}
		if len(names)-extra+len(b.Omitted()) != everything || extra > 0 != (len(b.Omitted()) > 0 && limit-len(taken) >= 2) {
			t.Fatalf("%d offered, %d left out, %d through which to reach them", len(names), len(b.Omitted()), extra)
		}
		for i, e := range b.omitted { // resources and prompts go first
			if e.Kind == KindTool && i > 0 && b.omitted[i-1].Kind != KindTool {
				t.Fatalf("%s is left out after %s", e.Name, b.omitted[i-1].Name)
			}
			if !b.Has(e.Name) || slices.Contains(taken, e.Name) {
				t.Fatalf("%s cannot be called", e.Name)
			}
		}
	})
}

// Where there is no room for the functions that reach the rest, the log says so, once.
func TestNoRoomToSearch(t *testing.T) {
	t.Parallel()
	box := newToolbox()
	var log buffer
	h := startHost(t, Options{Servers: []Server{config("box", stateful, box.serve(t, stateful))}, Log: logTo(&log)})
	ts := limited(t, h, 3, "box")
	for _, row := range []struct{ taken, want, told int }{{0, 3, 0}, {1, 2, 0}, {2, 1, 1}, {2, 1, 1}, {3, 0, 2}, {4, 0, 2}} {
		var taken []string
		for i := range row.taken {
			taken = append(taken, fmt.Sprint("own", i))
		}
		b := ts.Bind(taken)
		if n := strings.Count(log.String(), "cannot be reached"); len(b.List()) != row.want || b.Has(searchName) != (row.want > 1) || n != row.told {
			t.Errorf("%d of the client's: %q, told %d times", row.taken, injected(b), n)
		}
	}
}
