package policy

import (
	"fmt"
	"regexp"
	"strings"

	celast "cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
)

var (
	// address is what looks like the beginning of a URI: scheme, slashes, host and path.
	address = regexp.MustCompile(`^([A-Za-z][A-Za-z0-9+.-]*:)(//?)([^/?#]*)([^?#]*)`)
	// crooked is what no path in normal form has in it.
	crooked = regexp.MustCompile(`//|/\.\.?(/|$)|%[0-9A-Fa-f]{2}|\\`)
)

// checkAddresses refuses a rule over uri that compares it with what it never is: where
// the rule says "not", it would hold for everything.
func checkAddresses(ast *celast.AST) error {
	overURI := false
	whole := map[int64]bool{} // ids of the texts that are compared with the whole of something
	celast.PreOrderVisit(ast.Expr(), celast.NewExprVisitor(func(e celast.Expr) {
		overURI = overURI || e.Kind() == celast.IdentKind && e.AsIdent() == "uri"
		if e.Kind() != celast.CallKind {
			return
		}
		switch call := e.AsCall(); call.FunctionName() {
		case operators.Equals, operators.NotEquals, operators.In:
			for _, arg := range call.Args() {
				whole[arg.ID()] = true
				if arg.Kind() == celast.ListKind {
					for _, element := range arg.AsList().Elements() {
						whole[element.ID()] = true
					}
				}
			}
		}
	}))
	if !overURI {
		return nil
	}
	var wrong error
	celast.PreOrderVisit(ast.Expr(), celast.NewExprVisitor(func(e celast.Expr) {
		if wrong != nil || e.Kind() != celast.LiteralKind {
			return
		}
		text, _ := e.AsLiteral().Value().(string)
		if why := notNormal(text, whole[e.ID()]); why != "" {
			at := ast.SourceInfo().GetStartLocation(e.ID())
			wrong = fmt.Errorf("%d:%d: uri is never like %q: %s", at.Line(), at.Column()+1, text, why)
		}
	}))
	return wrong
}

// notNormal says why no address in normal form is text, or begins with it.
func notNormal(text string, whole bool) string {
	parts := address.FindStringSubmatch(text)
	if parts == nil {
		return ""
	}
	scheme, slashes, host, path := parts[1], parts[2], parts[3], parts[4]
	switch {
	case scheme != strings.ToLower(scheme) || host != strings.ToLower(host):
		return "its scheme and host are in lower case"
	case slashes == "/":
		return "two slashes follow its scheme"
	case crooked.MatchString(host + path):
		return `nothing in it is %-encoded, and its path has no ".", ".." or empty parts`
	case whole && len(path) > 1 && strings.HasSuffix(path, "/"):
		return "no slash is at the end of its path"
	}
	return ""
}
