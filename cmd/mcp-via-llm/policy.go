package main

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/mcp-via-llm/mcp-via-llm/config"
	"github.com/mcp-via-llm/mcp-via-llm/loop"
	"github.com/mcp-via-llm/mcp-via-llm/mcp"
	"github.com/mcp-via-llm/mcp-via-llm/policy"
)

// profiles compiles the rules of all client profiles.
func profiles(cfg *config.Config) map[string]*policy.Profile {
	all := map[string]*policy.Profile{}
	for name, client := range cfg.Clients {
		profile, err := policy.NewProfile(client.Policy(name))
		if err != nil {
			panic(err) // the configuration has compiled it once
		}
		all[name] = profile
	}
	return all
}

// limits are those of all servers.
func limits(cfg *config.Config) map[string]policy.ServerLimits {
	all := map[string]policy.ServerLimits{}
	for name, server := range cfg.Servers {
		all[name] = server.Policy()
	}
	return all
}

// newAudit starts the audit log.
func (a *app) newAudit(cfg *config.Config) *policy.Audit {
	return policy.NewAudit(policy.AuditOptions{Target: cfg.Audit.Target(), Stderr: os.Stderr, Log: a.log, Logs: a.telemetry.Logs, Count: a.telemetry.Audit})
}

// reopenAudit opens the audit log again at each SIGHUP, as log rotators send it.
func (a *app) reopenAudit(ctx context.Context) {
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Ignore(syscall.SIGHUP) // it would end the process, which may be draining
	for {
		select {
		case <-ctx.Done():
			return
		case <-hangup:
			a.audit.Reopen()
		}
	}
}

// closeAudit writes the last records.
func (a *app) closeAudit() {
	ctx, cancel := context.WithTimeout(context.Background(), flushTime)
	defer cancel()
	a.audit.Close(ctx)
}

// guard stands in front of the tools of one request.
func (s *snapshot) guard(c *loop.Client, r *http.Request, identity string) policy.Guard {
	return policy.Guard{
		Profile:  s.profiles[c.Name],
		Limits:   &s.app.limits,
		Audit:    s.app.audit,
		Identity: identity,
		Request:  r.Header.Get("X-Request-Id"),
		Observe: func(call policy.Call, why *policy.Refusal, waited time.Duration) {
			s.app.telemetry.ToolCall(r.Context(), call.Tool.Server, call.Tool.Original, why.Outcome, waited)
			s.app.log.InfoContext(r.Context(), "an mcp call was not made", "client", c.Name, "server", call.Tool.Server, "tool", call.Tool.Original,
				"outcome", why.Outcome, "reason", why.Reason)
		},
	}
}

// filter lets the MCP host leave out what a profile must not see.
type filter struct{ *policy.Profile }

func (f filter) Keep(t mcp.Tool) bool { return f.Profile.Keep(ruled(t)) }

// ruled is a tool as rules see it. To read a resource or a prompt changes nothing.
func ruled(t mcp.Tool) policy.Tool {
	return policy.Tool{Names: t.RuleNames, Server: t.Server, Original: t.Original, ReadOnly: t.ReadOnly || t.Kind != mcp.KindTool,
		URI: t.URI, LiteralURI: t.LiteralURI}
}

// ruledCall is a call as rules see it: what it comes to, whatever function stands
// between.
func (t *toolset) ruledCall(name, arguments string) policy.Call {
	tool, args, err := t.Resolve(name, arguments)
	if args == nil {
		args = json.RawMessage(arguments)
	}
	return policy.Call{Name: cmp.Or(tool.Name, name), Tool: ruled(tool), Arguments: args, Unfit: err != nil}
}

// Declined records a call that waited for the user and does not run.
func (t *toolset) Declined(ctx context.Context, name, arguments, why string) {
	t.guard.Declined(ctx, t.ruledCall(name, arguments), why)
}

// Asked records that the user is asked about a call.
func (t *toolset) Asked(ctx context.Context, name, arguments string) {
	t.guard.Asked(ctx, t.ruledCall(name, arguments))
}

// Refused records a call that the loop does not make.
func (t *toolset) Refused(ctx context.Context, name, arguments, outcome string) {
	t.guard.Refused(ctx, t.ruledCall(name, arguments), outcome)
}

// Approval says whether the operator wants the user asked before this call runs.
func (t *toolset) Approval(name, arguments string) bool {
	return len(t.guard.Profile.Approve) > 0 && t.guard.Approval(t.ruledCall(name, arguments))
}
