package mcp

import (
	"slices"
	"strings"
)

// Owns reports whether name is in the namespace of what these servers offer,
// whether or not there is such a function: the model has then misspelt one of them,
// or remembers one.
func Owns(servers []string, name string) bool {
	if name == searchName || name == callName {
		return true
	}
	prefix, _, found := strings.Cut(name, "__")
	return found && (prefix == resourcePrefix || prefix == promptPrefix ||
		slices.ContainsFunc(servers, func(server string) bool { return strings.HasPrefix(name, clean(server)+"__") }))
}

// Hints gives what a tool's server says of a call: that it changes nothing, and
// that making it again does no harm (MCP 2025-11-25, ToolAnnotations). Both are
// false for a name that is no tool. Reading resources and prompts is both.
func (b *Binding) Hints(name, arguments string) (readOnly, repeatable bool) {
	e, _ := b.target(name, arguments)
	if e == nil {
		return false, false
	}
	return e.tool.readOnly, e.tool.repeatable
}
