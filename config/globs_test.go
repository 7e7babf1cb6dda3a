package config

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestToolGlobs(t *testing.T) {
	c := mustLoad(t, `
servers: {s: {command: [x], limits: {tools: {"w*": {rate: 1/s}}}}, a.b: {command: [x]}, a_b: {command: [x]}}
clients:
  team-a:
    tools:
      allow: ["s__*", "*"]
      deny: [a_b__x, mcp_prompt__s__y, 's\__z']
    constraints: [{tool: s__t, rule: "true"}]
    approve: ["mcp_*", {tool: s__u}]
`)
	want := []Glob{
		{"clients.team-a.tools.allow[0]", "s__*", "s", true},
		{"clients.team-a.tools.allow[1]", "*", "", true},
		{"clients.team-a.tools.deny[0]", "a_b__x", "", false},
		{"clients.team-a.tools.deny[1]", "mcp_prompt__s__y", "s", false},
		{"clients.team-a.tools.deny[2]", `s\__z`, "", false},
		{"clients.team-a.constraints[0].tool", "s__t", "s", false},
		{"clients.team-a.approve[0]", "mcp_*", "", false},
		{"clients.team-a.approve[1]", "s__u", "s", false},
	}
	if diff := cmp.Diff(want, c.ToolGlobs("team-a")); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]Glob{{`servers.s.limits.tools["w*"]`, "w*", "s", false}}, c.LimitGlobs("s")); diff != "" {
		t.Error(diff)
	}
	if p := c.At("clients.team-a.tools.deny[1]", "x"); p.Line != 7 {
		t.Errorf("line %d", p.Line)
	}
}
