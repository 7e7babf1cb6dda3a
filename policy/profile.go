// Package policy decides which tools a client may see, which calls may run and
// when, and keeps a record of who called what.
//
// It knows nothing of MCP or of turns: whoever runs calls describes them to a
// [Guard] and lets it run them.
package policy

import (
	"encoding/json"
	"path"
	"slices"
)

// Outcomes of a call that was not made.
const (
	OutcomeDenied      = "denied"       // a rule, or the user, does not allow it
	OutcomeRateLimited = "rate_limited" // a limit of its server or tool is used up
	OutcomeCancelled   = "cancelled"    // the caller's context ended while it waited
)

// Tool is what rules look at. The zero value is a function that is no server's:
// no rule is for it.
type Tool struct {
	// Names are what rules know it by. The first is the one that the operator is
	// shown; the others are for rules that restrict, so that a tool does not escape
	// one because another tool came to want its name.
	Names    []string
	Server   string // as configured
	Original string // the server's own name
	ReadOnly bool   // it changes nothing, as far as that is believed
	// URI is of the resource that the call reads, in one form for all that are the
	// same; "" for none. LiteralURI is that for another reading of the address, if it
	// has two: a rule must hold for both.
	URI, LiteralURI string
}

// Settings are the rules of one client profile. Globs are those of path.Match,
// over the names of tools.
type Settings struct {
	Client string // the profile's name
	// Allow keeps only what it matches; nil keeps all, and empty nothing. Deny
	// drops, also what is allowed. ReadOnly keeps only tools that change nothing.
	Allow, Deny []string
	ReadOnly    bool
	// Constraints must all hold for the arguments of the tools that they are for.
	Constraints []Constraint
	// Approve are the tools whose calls need the user's approval.
	Approve []Approve
}

// Approve asks for approval of the calls of the tools that match.
type Approve struct {
	Tool           string
	UnlessReadOnly bool
}

// Profile is the compiled rules of a client profile; immutable.
type Profile struct {
	Settings
	key         string
	constraints []*constraint
}

// NewProfile compiles the rules. An error is one of a constraint, see [CheckRule].
func NewProfile(s Settings) (*Profile, error) {
	key, err := json.Marshal([]any{s.Allow, s.Deny, s.ReadOnly})
	if err != nil {
		return nil, err
	}
	p := &Profile{Settings: s, key: string(key)}
	for _, c := range s.Constraints {
		compiled, err := compile(c)
		if err != nil {
			return nil, err
		}
		p.constraints = append(p.constraints, compiled)
	}
	return p, nil
}

// Key is the same for profiles that keep the same tools.
func (p *Profile) Key() string { return p.key }

// Keep says whether the client may see and call the tool.
func (p *Profile) Keep(t Tool) bool {
	switch {
	case p.ReadOnly && !t.ReadOnly:
		return false
	case p.Allow != nil && !matchAny(p.Allow, t.Names[:min(1, len(t.Names))]):
		return false
	}
	return !matchAny(p.Deny, t.Names)
}

// asks says whether calls of the tool need the user's approval.
func (p *Profile) asks(t Tool) bool {
	return slices.ContainsFunc(p.Approve, func(a Approve) bool {
		return match(a.Tool, t.Names) && !(a.UnlessReadOnly && t.ReadOnly)
	})
}

// Match says whether a glob matches one of the names.
func Match(glob string, names ...string) bool { return match(glob, names) }

func matchAny(globs, names []string) bool {
	return slices.ContainsFunc(globs, func(glob string) bool { return match(glob, names) })
}

// match says whether the glob matches one of the names. A malformed one, which
// the configuration refuses, matches none.
func match(glob string, names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		ok, _ := path.Match(glob, name)
		return ok
	})
}
