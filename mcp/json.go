package mcp

import (
	"bytes"

	"github.com/tidwall/gjson"
)

// maxDepth is how deep a server's JSON may nest. The validator recurses, and a
// message of nothing but "[" must not exhaust the stack. The SDK has the same limit.
const maxDepth = 1000

// validJSON reports whether data is one JSON value that does not nest too deeply.
func validJSON(data []byte) bool {
	if bytes.Count(data, []byte("["))+bytes.Count(data, []byte("{")) > maxDepth && depth(data) > maxDepth {
		return false
	}
	return gjson.ValidBytes(data)
}

// depth is the deepest nesting of data, whether or not it is valid.
func depth(data []byte) (deepest int) {
	now, quoted := 0, false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '[' || c == '{':
			now++
			deepest = max(deepest, now)
		case c == ']' || c == '}':
			now--
		}
	}
	return deepest
}
