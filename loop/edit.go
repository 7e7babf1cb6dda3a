package loop

import (
	"slices"

	"github.com/tidwall/gjson"

	"github.com/mcp-via-llm/mcp-via-llm/chat"
)

// edit is what the request of a round has besides the client's own.
func (t *turn) edit(round int) chat.Edit {
	dialect := chat.Dialects[t.client.Dialect]
	e := chat.Edit{System: t.tools.System(), Tools: t.tools.JSON(), Replace: t.replacements(), Append: t.added, AskUsage: !dialect.NoUsage}
	bare := len(e.Tools) == 0 && !t.req.HasTools()
	if bare {
		e.Tools = t.gone()
	}
	switch {
	case (bare || round > t.client.MaxIterations) && len(e.Tools) > 0 && !dialect.NoNone:
		e.Choice = chat.NoCalls
	case round > 1 || t.midway:
		e.Choice = chat.FreeChoice
	}
	return e
}

// gone defines the functions that the hidden history calls, for a request that has no
// others: the servers may be away, or not wanted any more. Anthropic and Bedrock refuse
// calls in a request without functions ("toolConfig must be defined").
func (t *turn) gone() []byte {
	var names []string
	var out []byte
	see := func(raw []byte) {
		for _, name := range gjson.GetBytes(raw, "tool_calls.#.function.name").Array() {
			if name := name.String(); !slices.Contains(names, name) {
				if names = append(names, name); len(out) > 0 {
					out = append(out, ',')
				}
				out = append(out, `{"type":"function","function":{"name":`+encode(name)+`,"description":"This function is not available now.","parameters":{"type":"object","properties":{}}}}`...)
			}
		}
	}
	for _, u := range t.history {
		for _, p := range u.pieces {
			see(p.raw)
		}
	}
	for _, raw := range t.added {
		see(raw)
	}
	return out
}
