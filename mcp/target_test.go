package mcp

import "testing"

// A name may pass from one tool to another, of the same server or of another; what
// it stood for does not, and does not depend on how it is called.
func TestTargetOfANameThatMoves(t *testing.T) {
	t.Parallel()
	const object, answer = `{"type":"object"}`, `{"content":[{"type":"text","text":"ok"}]}`
	inner, outer := newToolbox(), newToolbox()
	outer.add("w", object, answer)
	outer.add("ap_pr", object, answer)
	outer.add("ap.pr", object, answer)
	h := newTestHost(t, config("a", stateful, inner.serve(t, stateful)), config("a__b", stateful, outer.serve(t, stateful)))
	now := func() *Binding { return limited(t, h, 4, "a", "a__b").Bind(nil) }
	type call struct{ name, arguments string }
	same := func(name string) []call {
		return []call{{name, "{}"}, {callName, `{"name":"` + name + `","arguments":{}}`}}
	}
	before := map[call]string{}
	for _, name := range []string{"a__b__w", "a__b__ap_pr"} {
		for _, c := range same(name) {
			before[c] = now().Target(c.name, c.arguments)
		}
		if direct := before[same(name)[0]]; direct == "" || direct != before[same(name)[1]] {
			t.Errorf("%s is %q, and %q through %s", name, direct, before[same(name)[1]], callName)
		}
	}
	if got := now().Target("a__b__none", "{}"); got != "" {
		t.Errorf("what is not there is %q", got)
	}
	inner.add("b__w", object, answer)
	outer.server.RemoveTools("ap_pr")
	eventually(t, "both names have moved", func() bool {
		for c, target := range before {
			b := now()
			if !b.Has(c.name) || b.Target(c.name, c.arguments) == "" || b.Target(c.name, c.arguments) == target {
				return false
			}
		}
		return true
	})
}
