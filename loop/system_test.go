package loop

import (
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
