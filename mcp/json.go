package mcp

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"
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

// repeatedMember gives the name of a member that an object in valid JSON has twice.
// Parsers differ in which of the two counts (RFC 8259, section 4), so a rule might
// be checked with one value and the server use the other.
func repeatedMember(text string) (name string, twice bool) {
	type level struct {
		seen map[string]bool
		name bool // a name comes next; never in an array
	}
	levels := make([]level, 0, 8)
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case '{':
			levels = append(levels, level{map[string]bool{}, true})
		case '[':
			levels = append(levels, level{})
		case '}', ']':
			levels = levels[:len(levels)-1]
		case ',':
			in := &levels[len(levels)-1]
			in.name = in.seen != nil
		case '"':
			start := i
			for i++; text[i] != '"'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
			if len(levels) == 0 || !levels[len(levels)-1].name {
				continue
			}
			in := &levels[len(levels)-1]
			name := memberName(text[start : i+1])
			if in.seen[name] {
				return name, true
			}
			in.seen[name], in.name = true, false
		}
	}
	return "", false
}

// memberName is what a name in JSON stands for.
func memberName(quoted string) (name string) {
	name = quoted[1 : len(quoted)-1]
	if strings.Contains(name, `\`) || !utf8.ValidString(name) {
		_ = json.Unmarshal([]byte(quoted), &name) // valid JSON
	}
	return name
}
