package mcp

import (
	"slices"
	"strings"
)

// Owns reports whether name is in the namespace of what these servers offer,
// whether or not there is such a tool: the model has then misspelt one of them.
func Owns(servers []string, name string) bool {
	prefix, _, found := strings.Cut(name, "__")
	return found && (prefix == "mcp_resource" || prefix == "mcp_prompt" ||
		slices.ContainsFunc(servers, func(server string) bool { return strings.HasPrefix(name, clean(server)+"__") }))
}

// Hints gives what a tool's server says of a call: that it changes nothing, and
// that making it again does no harm (MCP 2025-11-25, ToolAnnotations). Both are
// false for a name that is no tool.
func (b *Binding) Hints(name, _ string) (readOnly, repeatable bool) {
	i, ok := b.byName[name]
	if !ok {
		return false, false
	}
	t := b.entries[i].tool
	return t.readOnly, t.repeatable
}
