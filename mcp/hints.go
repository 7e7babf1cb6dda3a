package mcp

import (
	"strings"

	"github.com/tidwall/gjson"
)

// Owns reports whether name is in the namespace of the tools of this request,
// whether or not there is such a tool: the model has then misspelt one of them.
func (b *Binding) Owns(name string) bool {
	if b.Has(name) {
		return true
	}
	for _, e := range b.entries {
		if strings.HasPrefix(name, clean(e.Server)+"__") {
			return true
		}
	}
	return false
}

// Hints gives what a tool's server says of it: that a call changes nothing, and
// that calling again does no harm (MCP 2025-11-25, ToolAnnotations). Both are
// false for a name that is no tool.
func (b *Binding) Hints(name string) (readOnly, repeatable bool) {
	i, ok := b.byName[name]
	if !ok {
		return false, false
	}
	t := b.entries[i].tool
	return gjson.Get(t.raw, "annotations.readOnlyHint").Bool(), t.repeatable
}
