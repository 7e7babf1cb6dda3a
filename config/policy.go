package config

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/mcp-via-llm/mcp-via-llm/policy"
)

// ClientTools selects among what the servers of a profile offer, by globs over the
// names that the model gets: server__tool, mcp_resource__server__name and
// mcp_prompt__server__name. What is left out is not shown to the model and cannot be
// called. "*" is any run of characters, "?" one character, "[…]" a class. A glob that
// matches nothing that the servers offer is said in the log, and by `tools`.
type ClientTools struct {
	// Allow keeps only what it matches. Absent: all. Empty: nothing. A resource template
	// that is kept reads whatever its URI can be, save what deny drops.
	Allow []string `yaml:"allow"`
	// Deny drops what it matches, also what is allowed. As approve and constraints, it
	// holds for a listed resource also where a template would read it.
	Deny []string `yaml:"deny"`
	// ReadOnly keeps only tools that change nothing, on their server's word (see
	// servers.*.trust_annotations), and resources and prompts. Default false.
	ReadOnly bool `yaml:"read_only"`
}

// Constraint is a rule over the arguments of the tools that match. A call that it
// does not hold for, or cannot be decided for, is not made: the model is told.
type Constraint struct {
	// Tool is a glob, as in clients.*.tools.
	Tool string `yaml:"tool"`
	// Rule is a CEL expression (https://cel.dev) that is true for calls that may be
	// made. It knows args (the arguments: args.path), tool (the server's own name),
	// server, client, identity and uri (of the resource that the call reads, by its own
	// function or a template's; "" for other calls), CEL's standard functions and strings extension,
	// optional values (args.?path.orValue("")), and cleanPath, which takes "." and
	// ".." out of a path, also out of that of a URI: cleanPath(args.path).startsWith("/data/").
	// The uri is the same for all ways of writing one, as for deny: scheme and host in
	// lower case, nothing %-encoded, without "." and "..", repeated slashes and one at the
	// end of a path, user, default port and fragment, and the query of a file:
	// uri.startsWith("file:///pub/"). A rule with an address of another form is
	// refused. Where servers may read an address in two ways the rule must hold for both.
	Rule string `yaml:"rule"`
	// Message tells the model why the call was not made. Default: a general one.
	Message string `yaml:"message"`
}

// Approve names tools whose calls the user must approve. As a plain text it is the
// glob.
type Approve struct {
	// Tool is a glob, as in clients.*.tools.
	Tool string `yaml:"tool"`
	// UnlessReadOnly asks for no approval of tools that change nothing, on their
	// server's word (see servers.*.trust_annotations). Default false.
	UnlessReadOnly bool `yaml:"unless_read_only"`
}

func (a *Approve) short() *string { return &a.Tool }

// Limits bound the calls of a server, in each replica of the service. A call over
// the rate waits a few seconds for its turn, and one over the concurrency as long
// as a call may take; then it is not made, and the model is told when to try again.
// Callers (profile and identity) take turns.
type Limits struct {
	// Rate is a number of calls per s, m or h: 10/s, 600/m. Default: any number.
	Rate string `yaml:"rate"`
	// Burst is how many calls may begin at once after a pause. Default: what the
	// rate gives in a second, at least 1.
	Burst int `yaml:"burst"`
	// Concurrency is how many calls may run at once. Default: any number.
	Concurrency int `yaml:"concurrency"`
	// Tools are further limits, by globs over the server's own names of its tools.
	// Each tool has such a limit for itself; where several match, all count.
	Tools map[string]ToolLimits `yaml:"tools"`
}

// ToolLimits bound the calls of one tool, as the limits of its server do.
type ToolLimits struct {
	// Rate is a number of calls per s, m or h. Default: any number.
	Rate string `yaml:"rate"`
	// Burst is how many calls may begin at once after a pause. Default: what the
	// rate gives in a second, at least 1.
	Burst int `yaml:"burst"`
	// Concurrency is how many calls may run at once. Default: any number.
	Concurrency int `yaml:"concurrency"`
}

// Audit is a record of every call: when, who, on whose behalf, which tool, which
// arguments, and what became of it. Calls that are not made are in it too, and where the
// user is asked about one, a line of the event mcp_question: of a question that nobody
// answers there is no other. Results are never in it.
type Audit struct {
	// File gets one JSON line for each call: a path, which is opened again when the
	// file was moved away (or at SIGHUP), or stderr. Where logs go out over
	// OpenTelemetry, each line is a log record there, too. Default "" (off: no
	// records anywhere).
	File string `yaml:"file"`
	// Arguments are recorded as their digest (SHA-256 of their canonical JSON,
	// RFC 8785; default) or in full, in the file and over OpenTelemetry alike.
	Arguments string `yaml:"arguments"`
}

// How the audit log has arguments.
const (
	ArgumentsDigest = "digest"
	ArgumentsFull   = "full"
)

func (a *Audit) setDefaults() { a.Arguments = ArgumentsDigest }

// Target is where the records go.
func (a *Audit) Target() policy.AuditTarget {
	return policy.AuditTarget{File: a.File, Full: a.Arguments == ArgumentsFull}
}

func (a *Audit) validate(r *report, at string) {
	r.oneOf(join(at, "arguments"), a.Arguments, ArgumentsDigest, ArgumentsFull)
	key := join(at, "file")
	switch a.File {
	case "", policy.Stderr:
		return
	case "stdout", "-":
		r.add(key, "%q is not possible; write stderr, or a path (./%s for a file of that name)", r.shown(key, a.File), a.File)
		return
	}
	if info, err := os.Stat(filepath.Dir(a.File)); err != nil || !info.IsDir() {
		r.add(key, "%q is in a directory that is not here; create it, or write stderr", r.shown(key, a.File))
	} else if info, err := os.Stat(a.File); err == nil && info.IsDir() {
		r.add(key, "%q is a directory; name a file in it", r.shown(key, a.File))
	}
}

// Policy gives the rules of the profile of that name.
func (c *Client) Policy(name string) policy.Settings {
	s := policy.Settings{Client: name, Allow: c.Tools.Allow, Deny: c.Tools.Deny, ReadOnly: c.Tools.ReadOnly}
	for _, constraint := range c.Constraints {
		s.Constraints = append(s.Constraints, policy.Constraint(constraint))
	}
	for _, approve := range c.Approve {
		s.Approve = append(s.Approve, policy.Approve(approve))
	}
	return s
}

func (c *Client) validatePolicy(r *report, at string, servers map[string]Server) {
	r.toolGlobs(join(at, "tools.allow"), c.Tools.Allow, servers)
	r.toolGlobs(join(at, "tools.deny"), c.Tools.Deny, servers)
	for i, constraint := range c.Constraints {
		one := index(join(at, "constraints"), i)
		r.toolGlob(join(one, "tool"), constraint.Tool, servers)
		key := join(one, "rule")
		if err := policy.CheckRule(constraint.Rule); err != nil && r.shown(key, constraint.Rule) != constraint.Rule {
			r.add(key, "is not a rule in CEL after its expansion")
		} else if err != nil {
			r.add(key, "is not a rule in CEL: %v", err)
		}
	}
	for i, approve := range c.Approve {
		key := index(join(at, "approve"), i)
		if long := join(key, "tool"); r.given(long) {
			key = long
		}
		r.toolGlob(key, approve.Tool, servers)
	}
}

func (r *report) toolGlobs(at string, globs []string, servers map[string]Server) {
	for i, glob := range globs {
		r.toolGlob(index(at, i), glob, servers)
	}
}

// toolGlob reports a glob over injected names that is none, or that can match no
// tool of any server: a rule that does nothing without a word is worse than none.
func (r *report) toolGlob(at, glob string, servers map[string]Server) {
	r.glob(at, glob)
	if bad := strings.IndexFunc(glob, func(c rune) bool { return !inNames(c) && !strings.ContainsRune(`*?[]^\`, c) }); bad >= 0 {
		r.add(at, "matches no tool: names have letters of ASCII, digits, _ and - only, such as server__tool")
		return
	}
	rest := literal(glob)
	given, _, whole := strings.Cut(rest, "__")
	if !whole {
		return
	}
	var known []string
	for _, name := range sortedKeys(servers) {
		name = injected(name)
		if strings.HasPrefix(rest, name+"__") || strings.HasPrefix(name, given+"__") {
			return
		}
		known = append(known, name)
	}
	r.add(at, "matches no tool: no server is named %q%s", r.shown(at, given), hint(given, known, "configured"))
}

func inNames(c rune) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-'
}

// injected is a server's name as it is in the names of tools.
func injected(server string) string {
	return strings.Map(func(c rune) rune {
		if inNames(c) {
			return c
		}
		return '_'
	}, server)
}

// Policy gives the limits of the server's calls.
func (s *Server) Policy() policy.ServerLimits {
	limits := policy.ServerLimits{
		Limit: ToolLimits{s.Limits.Rate, s.Limits.Burst, s.Limits.Concurrency}.policy(),
		Tools: map[string]policy.Limit{},
		Wait:  s.ToolTimeout,
	}
	for glob, l := range s.Limits.Tools {
		limits.Tools[glob] = l.policy()
	}
	return limits
}

func (l ToolLimits) policy() policy.Limit {
	limit := policy.Limit{Burst: l.Burst, Concurrency: l.Concurrency}
	if l.Rate != "" {
		limit.Rate, _ = policy.ParseRate(l.Rate) // validated
	}
	return limit
}

func (l *Limits) validate(r *report, at string) {
	ToolLimits{l.Rate, l.Burst, l.Concurrency}.validate(r, at)
	for _, glob := range sortedKeys(l.Tools) {
		key := join(join(at, "tools"), glob)
		r.glob(key, glob)
		l.Tools[glob].validate(r, key)
	}
}

func (l ToolLimits) validate(r *report, at string) {
	if key := join(at, "rate"); l.Rate != "" {
		if _, err := policy.ParseRate(l.Rate); err != nil {
			r.add(key, "%v", err)
		}
	}
	key := join(at, "burst")
	if r.given(key) {
		r.positive(key, l.Burst)
	}
	if l.Burst != 0 && l.Rate == "" {
		r.add(key, "is of no use without a rate")
	}
	if key := join(at, "concurrency"); r.given(key) {
		r.positive(key, l.Concurrency)
	}
}
