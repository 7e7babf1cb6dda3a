package mcp

import (
	"bytes"
	"unsafe"

	"github.com/tidwall/gjson"
)

// maxDepth is how deep a server's JSON may nest. The validator recurses, and a
// message of nothing but "[" must not exhaust the stack. The SDK has the same limit.
const maxDepth = 1000

// flat gives a server's JSON with null in the place of whatever nests too deeply, so
// that one bad tool in a list, or one odd member of a result, does not take the rest.
func flat(data []byte) []byte {
	if !deep(data) {
		return data
	}
	out := make([]byte, 0, len(data))
	now, quoted := 0, false
	for i := 0; i < len(data); i++ {
		c := data[i]
		keep := now <= maxDepth
		switch {
		case quoted && c == '\\':
			if i++; keep && i < len(data) {
				out = append(out, c, data[i])
			}
			continue
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '[' || c == '{':
			if now++; now == maxDepth+1 {
				out = append(out, "null"...)
			}
			keep = now <= maxDepth
		case c == ']' || c == '}':
			now--
		}
		if keep {
			out = append(out, c)
		}
	}
	return out
}

func deep(data []byte) bool {
	return bytes.Count(data, []byte("["))+bytes.Count(data, []byte("{")) > maxDepth && depth(data) > maxDepth
}

// validJSON reports whether data is one JSON value that does not nest too deeply.
func validJSON(data []byte) bool {
	return !deep(data) && gjson.ValidBytes(data)
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

// parse is gjson.ParseBytes without its copy: data must not change any more. A
// result of many megabytes is held once, not once for each look at it.
func parse(data []byte) gjson.Result {
	return gjson.Parse(unsafe.String(unsafe.SliceData(data), len(data)))
}

// bytesOf gives the bytes of a string, which must not be changed.
func bytesOf(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }
