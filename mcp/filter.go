package mcp

import (
	"encoding/json"
	"slices"
)

// Filter chooses among what the servers of a query offer. What it does not keep
// is not offered, takes no room, and cannot be called by any name.
type Filter interface {
	// Key is the same for two filters only if they keep the same.
	Key() string
	// Keep says whether a tool, resource or prompt is kept. It must give the same
	// answer whenever it is asked the same.
	Keep(Tool) bool
}

// ruleNames are the names by which rules know a tool with that injected name. The
// second keeps a rule in force when another tool comes to want the same name.
func ruleNames(injected string, o origin) []string {
	if plain := clean(o.full()); plain != injected {
		return []string{injected, plain}
	}
	return []string{injected}
}

// Resolve gives the tool that a call of this name with these arguments would run,
// and the arguments that its server would get. The error is for a call that
// [Binding.Call] would refuse: there is no such tool (then the tool is empty), or
// the arguments do not fit. A tool that reads a resource has its URI in its normal forms,
// and by way of a template the names of the listed resource with that URI too, after its own: a rule
// for it must not be passed by.
func (b *Binding) Resolve(name, arguments string) (Tool, json.RawMessage, error) {
	e, arguments := b.target(name, arguments)
	if e == nil || e.builtIn(callName) {
		return Tool{}, nil, &callError{OutcomeUnknownTool, "there is no such tool"}
	}
	args, err := e.arguments(arguments)
	tool := e.Tool
	if err == nil && (e.tool.kind == KindResource || e.tool.kind == KindTemplate) {
		var uri string
		uri, err = e.tool.address(args)
		tool.URI, tool.LiteralURI = normalURI(uri), literalURI(uri)
		tool.RuleNames = slices.Concat(tool.RuleNames, e.listed[sameURI(uri)])
	}
	return tool, args, err
}
