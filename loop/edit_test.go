package loop

import (
	"testing"
	"testing/synctest"

	"github.com/tidwall/gjson"
)

// A history with calls goes out with functions, also when none are left: providers refuse
// calls in a request without any.
func TestHistoryWithoutTools(t *testing.T) {
	const gone = `[{"type":"function","function":{"name":"mcp_mail__send","description":"This function is not available now.","parameters":{"type":"object","properties":{}}}},` +
		`{"type":"function","function":{"name":"mcp_clock__now","description":"This function is not available now.","parameters":{"type":"object","properties":{}}}}]`
	for name, tt := range map[string]struct {
		dialect, members string // of the client's request, besides the messages
		left             []string
		tools, choice    string
	}{
		"no tools":           {"", `"model":"m"`, nil, gone, "none"},
		"an empty list":      {"", `"tools":[]`, nil, gone, "none"},
		"null":               {"", `"tools":null`, nil, gone, "none"},
		"none chosen":        {"", `"tool_choice":"none"`, nil, gone, "none"},
		"no choice of none":  {"bedrock", `"model":"m"`, nil, gone, ""},
		"the client has one": {"", `"tools":[{"type":"function","function":{"name":"book_table"}}]`, nil, `[{"type":"function","function":{"name":"book_table"}}]`, ""},
		"some are left": {"", `"model":"m"`, []string{"mcp_mail__send"},
			`[{"type":"function","function":{"name":"mcp_mail__send","parameters":{"type":"object","properties":{}}}}]`, ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			rigs, _, _ := replicas(t, 1)
			g := rigs[0]
			g.client.Dialect = tt.dialect
			g.answer(whole(calls("mcp_mail__send", "{}", "mcp_clock__now", "{}")), whole(calls("mcp_mail__send", "{}")), whole(says("Done.")), whole(says("Bye.")))
			g.post(`{"messages":[` + asks + `]}`)
			g.tools.names, g.tools.unavailable = tt.left, []string{"mail"}
			w := g.post(`{` + tt.members + `,"messages":[` + asks + `,{"role":"assistant","content":"Done."},` + thanks + `]}`)
			asked := g.model.asked(4)
			if got := gjson.Get(asked, "tools").Raw; got != tt.tools {
				t.Errorf("%s: tools %s", name, got)
			}
			if got := gjson.Get(asked, "tool_choice").String(); got != tt.choice {
				t.Errorf("%s: tool_choice %q", name, got)
			}
			if w.Code != 200 || !gjson.Valid(asked) || len(gjson.Get(asked, `messages.#(role=="tool")#`).Array()) != 3 {
				t.Errorf("%s: %d, the model was asked %s", name, w.Code, asked)
			}
		})
	}
}
