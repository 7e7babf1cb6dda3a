package loop

import (
	"fmt"
	"slices"
	"testing"

	"github.com/mcp-via-llm/mcp-via-llm/sessions"
	"github.com/tidwall/gjson"
)

const briefly = `{"model":"m","messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"x"}]`

// Every segment of every turn begins with one and the same system message, and
// what the client sends again is recognised in spite of it.
func TestInstructionsOfServers(t *testing.T) {
	g := newRig(whole(calls("mcp_wx__now", "{}")), whole(says("done")), whole(says("again")))
	g.tools.system = "Answer in rhyme."
	store := sessions.NewMemory(1000, 1<<20)
	defer store.Close() //nolint:errcheck // in memory
	g.memory = g.remember(store)
	defer g.memory.Close(t.Context())
	g.post(briefly + "}")
	g.post(`{"model":"m","messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"x"},{"role":"assistant","content":"done"},{"role":"user","content":"y"}]}`)
	for i := 1; i <= 3; i++ {
		systems := gjson.Get(g.model.asked(i), `messages.#(role=="system")#.content`).Raw
		if systems != `["Answer in rhyme.\n\nBe brief."]` || gjson.Get(g.model.asked(i), "messages.0.role").String() != "system" {
			t.Errorf("request %d has %s", i, systems)
		}
	}
	if got := gjson.Get(g.model.asked(3), "messages.#.role").Raw; got != `["system","user","assistant","tool","assistant","user"]` {
		t.Errorf("the second turn's roles: %s", got)
	}
}

// Instructions alone are enough for a turn; where nothing else is injected they
// are not either.
func TestInstructionsWithoutTools(t *testing.T) {
	for name, tt := range map[string]struct{ more, want string }{
		"no tools":    {"}", `{"model":"m","messages":[{"role":"system","content":"Answer in rhyme.\n\nBe brief."},{"role":"user","content":"x"}]}`},
		"no calls":    {`,"tool_choice":"none"}`, briefly + `,"tool_choice":"none"}`},
		"untouchable": {`,"n":2}`, briefly + `,"n":2}`},
	} {
		g := newRig(whole(says("done")))
		g.tools.names, g.tools.system = nil, "Answer in rhyme."
		w := g.post(briefly + tt.more)
		if got := g.model.asked(1); got != tt.want {
			t.Errorf("%s: the model got %s", name, got)
		}
		if injected := name == "no tools"; gjson.Get(w.Body.String(), "extensions").Exists() != injected {
			t.Errorf("%s: the client got %s", name, w.Body)
		}
	}
}

// What the client and the operator read is what really ran, and what had no room.
func TestCallsThroughAnotherTool(t *testing.T) {
	for _, streaming := range []bool{false, true} {
		answer := whole
		if streaming {
			answer = func(s string) answerFunc { return streamed(asStream(s)) }
		}
		g := newRig(answer(calls("mcp_hub__call", `{"name":"mcp_fs__read"}`, "mcp_wx__now", "{}", "mcp_hub__call", "{}")), answer(says("done")))
		g.tools.names = append([]string{"mcp_hub__call"}, mcpNames...)
		g.tools.omitted = make([]string, maxOmitted+5)
		for i := range g.tools.omitted {
			g.tools.omitted[i] = fmt.Sprint("mcp_x__", i)
		}
		body := g.post(fmt.Sprintf("%s,\"stream\":%v}", question, streaming)).Body.String()
		ext := gjson.Get(body, "extensions.mcp_via_llm")
		if streaming {
			ext = gjson.Parse(read(body).extensions[0])
		}
		if got := ext.Get("mcp_tools_called").Raw; got != `["mcp_fs__read","mcp_wx__now"]` {
			t.Errorf("called %s", got)
		}
		if omitted := ext.Get("tools_omitted").Array(); len(omitted) != maxOmitted || omitted[0].String() != "mcp_x__0" || ext.Get("tools_omitted_total").Int() != maxOmitted+5 {
			t.Errorf("omitted %s", ext.Raw)
		}
		report := g.reports[0]
		if got := report.Calls; len(got) != 3 || !slices.ContainsFunc(got, func(c CallReport) bool { return c.Name == "mcp_fs__read" }) || report.Omitted != maxOmitted+5 {
			t.Errorf("%+v", report)
		}
	}
}
