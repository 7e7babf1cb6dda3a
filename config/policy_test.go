package config

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcp-via-llm/mcp-via-llm/policy"
)

func TestPolicyOfAClient(t *testing.T) {
	c := mustLoad(t, `
servers: {"my files": {command: [x]}}
clients:
  none: {}
  some:
    tools: {allow: [], deny: ["my_files__w*"], read_only: true}
    constraints: [{tool: "*", rule: "args.n < 3", message: no}]
    approve: ["my_*", {tool: "*", unless_read_only: true}]
`)
	none, some := c.Clients["none"], c.Clients["some"]
	if got := none.Policy("none"); !cmp.Equal(got, policy.Settings{Client: "none"}) {
		t.Errorf("%+v", got)
	}
	want := policy.Settings{
		Client: "some", Allow: []string{}, Deny: []string{"my_files__w*"}, ReadOnly: true,
		Constraints: []policy.Constraint{{Tool: "*", Rule: "args.n < 3", Message: "no"}},
		Approve:     []policy.Approve{{Tool: "my_*"}, {Tool: "*", UnlessReadOnly: true}},
	}
	if diff := cmp.Diff(want, some.Policy("some")); diff != "" {
		t.Error(diff)
	}
}

func TestLimitsOfAServer(t *testing.T) {
	c := mustLoad(t, `
servers:
  none: {command: [x]}
  some: {command: [x], tool_timeout: 5s, limits: {rate: 600/m, burst: 7, concurrency: 2, tools: {"w*": {rate: 1/h}, "r*": {concurrency: 9}}}}
`)
	none, some := c.Servers["none"], c.Servers["some"]
	if diff := cmp.Diff(policy.ServerLimits{Tools: map[string]policy.Limit{}, Wait: time.Minute}, none.Policy()); diff != "" {
		t.Error(diff)
	}
	want := policy.ServerLimits{
		Limit: policy.Limit{Rate: policy.Rate{Calls: 600, Per: time.Minute}, Burst: 7, Concurrency: 2},
		Tools: map[string]policy.Limit{"w*": {Rate: policy.Rate{Calls: 1, Per: time.Hour}}, "r*": {Concurrency: 9}},
		Wait:  5 * time.Second,
	}
	if diff := cmp.Diff(want, some.Policy()); diff != "" {
		t.Error(diff)
	}
}

func TestAuditTarget(t *testing.T) {
	for text, want := range map[string]policy.AuditTarget{
		"": {}, "audit: {file: stderr}": {File: "stderr"}, "audit: {file: audit.jsonl, arguments: full}": {File: "audit.jsonl", Full: true},
	} {
		if got := mustLoad(t, text).Audit.Target(); got != want {
			t.Errorf("%q: %+v", text, got)
		}
	}
}
