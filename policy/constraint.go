package policy

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"strings"
	"sync"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/ext"
)

// Constraint is a rule over the arguments of the tools that match a glob. The
// rule is CEL (https://cel.dev) with the variables
//
//	args      the arguments, a map; whole numbers within 64 bits are exact
//	tool      the server's own name of the tool
//	server    the name of the server
//	client    the name of the client profile
//	identity  who sent the request, as the log has it
//	uri       of the resource that the call reads, as [Tool] has it; "" for any other call
//
// and the functions of the standard library and its strings extension, optional
// values (args.?path.orValue("")), and cleanPath(string), which takes the "." and
// ".." out of a path, or out of the path of a URI, as the text says, without a look at
// any file system.
type Constraint struct {
	Tool    string
	Rule    string
	Message string // for the model, when the rule does not hold; "" for a general one
}

// costLimit bounds what one evaluation may cost, in CEL's own units: about one for
// each operation, and for each ten characters of a text that is searched. It is
// what Kubernetes grants one rule.
const costLimit = 1_000_000

type constraint struct {
	Constraint
	program cel.Program
}

// environment is what rules are checked against.
var environment = sync.OnceValues(func() (*cel.Env, error) {
	return cel.NewEnv(
		cel.Variable("args", cel.MapType(cel.StringType, cel.DynType)),
		cel.Variable("tool", cel.StringType),
		cel.Variable("server", cel.StringType),
		cel.Variable("client", cel.StringType),
		cel.Variable("identity", cel.StringType),
		cel.Variable("uri", cel.StringType),
		cel.CrossTypeNumericComparisons(true), // args.n < 5 for 4.5 too
		cel.OptionalTypes(),
		ext.Strings(),
		cel.Function("cleanPath", cel.Overload("clean_path_string", []*cel.Type{cel.StringType}, cel.StringType,
			cel.UnaryBinding(func(v ref.Val) ref.Val {
				s, ok := v.Value().(string)
				if !ok {
					return types.MaybeNoSuchOverloadErr(v)
				}
				return types.String(cleanPath(s))
			}))),
	)
})

// authority begins a URI up to its path (RFC 3986, section 3).
var authority = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*://[^/?#]*`)

// cleanPath is path.Clean that leaves what is ahead of the path of a URI alone.
func cleanPath(text string) string {
	head := authority.FindString(text)
	if head == "" {
		return path.Clean(text)
	}
	if text == head {
		return text
	}
	return head + path.Clean("/"+text[len(head):])
}

// CheckRule compiles a rule and checks its types. The error says where in the rule
// something is wrong, as line:column, both from 1.
func CheckRule(rule string) error {
	_, err := compile(Constraint{Rule: rule})
	return err
}

func compile(c Constraint) (*constraint, error) {
	env, err := environment()
	if err != nil {
		return nil, err
	}
	if strings.TrimSpace(c.Rule) == "" {
		return nil, errors.New("1:1: it is empty")
	}
	ast, issues := env.Compile(c.Rule)
	if issues.Err() != nil {
		var errs []string
		for _, e := range issues.Errors() {
			errs = append(errs, fmt.Sprintf("%d:%d: %s", e.Location.Line(), e.Location.Column()+1, e.Message))
		}
		return nil, errors.New(strings.Join(errs, "; "))
	}
	if t := ast.OutputType(); !t.IsExactType(cel.BoolType) && !t.IsExactType(cel.DynType) {
		return nil, fmt.Errorf("1:1: gives %s, not true or false", t)
	}
	if err := checkAddresses(ast.NativeRep()); err != nil {
		return nil, err
	}
	program, err := env.Program(ast, cel.CostLimit(costLimit))
	if err != nil {
		return nil, err
	}
	return &constraint{Constraint: c, program: program}, nil
}

// against says why the call may not run; "" if it may. The text has nothing of the
// arguments.
func (c *constraint) against(variables map[string]any) (reason string) {
	defer func() {
		if recover() != nil { // a rule must not end the process; its value may quote arguments
			reason = "fails: internal error"
		}
	}()
	out, _, err := c.program.Eval(variables)
	switch {
	case err != nil:
		// What follows the first of these may be a part of the arguments.
		kind := err.Error()
		if end := strings.IndexAny(kind, ":\"'`"); end >= 0 {
			kind = kind[:end]
		}
		return "fails: " + strings.TrimSpace(kind)
	case out == types.True:
		return ""
	case out == types.False:
		return "is false"
	}
	return "is neither true nor false"
}

// readings are what the address of the resource may mean.
func (t Tool) readings() []string {
	if t.LiteralURI == "" || t.LiteralURI == t.URI {
		return []string{t.URI}
	}
	return []string{t.URI, t.LiteralURI}
}

// against gives the first constraint that the call does not meet, and why; nil if
// it meets all. args are canonical; nil for arguments that have no canonical form.
func (p *Profile) against(t Tool, args []byte, identity string) (*constraint, string) {
	var variables map[string]any
	for i, c := range p.constraints {
		if !match(c.Tool, t.Names) {
			continue
		}
		if variables == nil {
			decoded, err := decode(args)
			if err != nil {
				return c, fmt.Sprintf("constraints[%d] cannot be asked: the arguments name something twice, or are no proper text", i)
			}
			variables = map[string]any{"args": decoded, "tool": t.Original, "server": t.Server, "client": p.Client, "identity": identity}
		}
		for _, uri := range t.readings() {
			variables["uri"] = uri
			if reason := c.against(variables); reason != "" {
				return c, fmt.Sprintf("constraints[%d] %s", i, reason)
			}
		}
	}
	return nil, ""
}
