package policy

import (
	"context"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"
	"go.opentelemetry.io/otel/trace"
)

// guarded is a guard with these rules, and what it has observed and recorded.
func guarded(t *testing.T, s Settings, limits ServerLimits) (g *Guard, observed *[]string, records func(n int) []string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	audit, _ := newFileAudit(t, AuditTarget{File: path})
	s.Client, observed = "team", &[]string{}
	g = &Guard{Profile: compiled(t, s), Limits: limitsOf(limits), Audit: audit, Identity: "me", Request: "r1",
		Observe: func(c Call, why *Refusal, _ time.Duration) { *observed = append(*observed, c.Name+" "+why.Outcome) }}
	return g, observed, func(n int) []string { return lines(t, path, n) }
}

func ok(context.Context) string { return "ok" }

func TestGuard(t *testing.T) {
	g, observed, records := guarded(t,
		Settings{Deny: []string{"web__*"}, Constraints: []Constraint{
			{Tool: "files__write", Rule: `args.path != "/etc"`, Message: "not there."}, {Tool: "kb__*", Rule: "args.n < 3"}}},
		ServerLimits{Limit: Limit{Rate: Rate{2, time.Hour}, Burst: 2}})
	rows := []struct {
		call             Call
		outcome, message string
	}{
		{Call{Name: "files__read", Tool: read, Arguments: json.RawMessage(`{}`)}, "", ""},
		{Call{Name: "files__write", Tool: write, Arguments: json.RawMessage(`{"path":"/etc"}`)}, "denied", "The call was not made: not there."},
		{Call{Name: "kb__find_1a2b3c4d", Tool: hashed, Arguments: json.RawMessage(`{}`)}, "denied", "The call was not made: a rule of the operator does not allow these arguments."},
		{Call{Name: "web__search", Tool: search, Arguments: json.RawMessage(`{}`)}, "denied", "The call was not made: this tool, or what it would read, is not allowed here."},
		{Call{Name: "nobody", Arguments: json.RawMessage(`x`), Unfit: true}, "", ""},
		{Call{Name: "files__write", Tool: write, Arguments: json.RawMessage(`{"path":`), Unfit: true}, "", ""},
		{Call{Name: "mcp_search_tools", Tool: Tool{Names: []string{"mcp_search_tools"}}, Arguments: json.RawMessage(`{}`)}, "", ""},
		{Call{Name: "files__write", Tool: write, Arguments: json.RawMessage(`{"path":"/x"}`)}, "", ""},
		{Call{Name: "files__write", Tool: write, Arguments: json.RawMessage(`{"path":"/x"}`)}, "rate_limited",
			`The call was not made: the MCP server "files" may be called 2 times per hour, and that is used up. Try again in 1800 s.`},
	}
	for _, row := range rows {
		ran := false
		refused := g.Call(t.Context(), &row.call, func(context.Context) string { ran = true; return "ok" })
		if refused == nil {
			refused = &Refusal{}
		}
		if refused.Outcome != row.outcome || refused.Message != row.message || ran != (row.outcome == "") {
			t.Errorf("%s %s: ran %v, %+v", row.call.Name, row.call.Arguments, ran, refused)
		}
	}
	if want := []string{"files__write denied", "kb__find_1a2b3c4d denied", "web__search denied", "files__write rate_limited"}; !slices.Equal(*observed, want) {
		t.Errorf("observed %q", *observed)
	}
	var got []string
	for _, line := range records(len(rows)) {
		r := gjson.Parse(line)
		got = append(got, strings.Join([]string{r.Get("client").String(), r.Get("identity").String(), r.Get("request_id").String(), r.Get("server").String(),
			r.Get("tool").String(), r.Get("outcome").String(), r.Get("reason").String()}, "|"))
	}
	want := []string{
		"team|me|r1|files|read|ok|", "team|me|r1|files|write|denied|constraints[0] is false", "team|me|r1|kb|fi.nd|denied|constraints[1] fails: no such key",
		"team|me|r1|web|search|denied|tools", "team|me|r1|||ok|", "team|me|r1|files|write|ok|", "team|me|r1|||ok|", "team|me|r1|files|write|ok|", "team|me|r1|files|write|rate_limited|rate of 2/h",
	}
	if !slices.Equal(got, want) {
		t.Errorf("recorded\n%s", strings.Join(got, "\n"))
	}
}

// What needs the user's approval runs with it only, and both is recorded.
func TestApprovedCalls(t *testing.T) {
	g, observed, records := guarded(t, Settings{Approve: []Approve{{Tool: "files__write"}}}, ServerLimits{})
	c := Call{Name: "files__write", Tool: write, Arguments: json.RawMessage(`{}`)}
	if refused := g.Call(t.Context(), &c, ok); refused == nil || refused.Outcome != OutcomeDenied || refused.Reason != "approve" {
		t.Errorf("without approval: %+v", refused)
	}
	c.Approved = true
	if refused := g.Call(t.Context(), &c, ok); refused != nil {
		t.Errorf("with it: %+v", refused)
	}
	c.Approved = false
	for _, decision := range []string{DecisionDenied, DecisionLate, DecisionUnaskable} {
		g.Declined(t.Context(), c, decision)
	}
	if len(*observed) != 4 {
		t.Errorf("observed %q", *observed)
	}
	var got []string
	for _, line := range records(5) {
		r := gjson.Parse(line)
		got = append(got, r.Get("outcome").String()+"|"+r.Get("decision").String()+"|"+r.Get("approved_by").String())
	}
	if want := []string{"denied||", "ok|approved|me", "denied|denied|", "denied|late|", "denied|unaskable|"}; !slices.Equal(got, want) {
		t.Errorf("recorded %q", got)
	}
}

// A call that panics gives its place back and is recorded.
func TestGuardStandsAPanic(t *testing.T) {
	g, _, records := guarded(t, Settings{}, ServerLimits{Limit: Limit{Concurrency: 1}, Wait: time.Millisecond})
	c := Call{Name: "files__read", Tool: read, Arguments: json.RawMessage(`{}`)}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic is gone")
			}
		}()
		g.Call(t.Context(), &c, func(context.Context) string { panic("x") })
	}()
	if refused := g.Call(t.Context(), &c, ok); refused != nil {
		t.Errorf("%+v", refused)
	}
	if got := gjson.Get(records(2)[0], "outcome").String(); got != "failed" {
		t.Errorf("recorded as %q", got)
	}
}

func TestApproval(t *testing.T) {
	g, _, _ := guarded(t, Settings{
		Approve:     []Approve{{Tool: "*", UnlessReadOnly: true}},
		Constraints: []Constraint{{Tool: "files__write", Rule: `args.path != "/etc"`}},
	}, ServerLimits{})
	for _, row := range []struct {
		call Call
		want bool
	}{
		{Call{Tool: write, Arguments: json.RawMessage(`{"path":"/x"}`)}, true},
		{Call{Tool: write, Arguments: json.RawMessage(`{"path":"/etc"}`)}, false}, // refused anyway
		{Call{Tool: write, Arguments: json.RawMessage(`{}`), Unfit: true}, false},
		{Call{Tool: read, Arguments: json.RawMessage(`{}`)}, false},
		{Call{Arguments: json.RawMessage(`{}`)}, false},
	} {
		if got := g.Approval(row.call); got != row.want {
			t.Errorf("%v %s: %v", row.call.Tool.Names, row.call.Arguments, got)
		}
	}
}

func TestRecordsHaveTheTrace(t *testing.T) {
	g, _, records := guarded(t, Settings{}, ServerLimits{})
	span := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1, 2}, SpanID: trace.SpanID{3}})
	g.Call(trace.ContextWithSpanContext(t.Context(), span), &Call{Name: "files__read", Tool: read}, ok)
	g.Call(t.Context(), &Call{Name: "files__read", Tool: read}, ok)
	all := records(2)
	if got := gjson.Get(all[0], "trace_id").String(); got != "01020000000000000000000000000000" || gjson.Get(all[1], "trace_id").Exists() {
		t.Errorf("%q", all)
	}
}
