package chat

import (
	"strconv"
	"strings"
	"unsafe"

	segmentio "github.com/segmentio/encoding/json"
	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
)

// maxDepth is how deep JSON may nest, the same limit as encoding/json: the
// validator recurses, and a body of nothing but "[" must not exhaust the stack.
const maxDepth = 10000

// validJSON says whether s is one JSON value and not nested too deeply.
func validJSON(s string) bool {
	if strings.Count(s, "[")+strings.Count(s, "{") > maxDepth && depth(s) > maxDepth {
		return false
	}
	return segmentio.Valid(unsafe.Slice(unsafe.StringData(s), len(s))) // which only reads
}

// depth is the deepest nesting of s, whether or not it is valid.
func depth(s string) (deepest int) {
	now, quoted := 0, false
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case quoted:
			switch c {
			case '\\':
				i++
			case '"':
				quoted = false
			}
		case c == '"':
			quoted = true
		case c == '[' || c == '{':
			now++
			deepest = max(deepest, now)
		case c == ']' || c == '}':
			now--
		}
	}
	return deepest
}

// isObject says whether s is exactly one JSON object.
func isObject(s string) bool {
	s = strings.TrimLeft(s, " \t\r\n")
	return strings.HasPrefix(s, "{") && validJSON(s)
}

// quote encodes s as a JSON string. Unlike json.Marshal it leaves <, > and & as
// they are; bytes that are not UTF-8 become U+FFFD.
func quote(s string) string {
	return text(segmentio.AppendEscape(make([]byte, 0, len(s)+2), s, 0))
}

// set puts raw at path in the JSON object s; every other byte stays.
func set(s, path, raw string) string {
	out, err := sjson.SetRaw(s, path, raw)
	if err != nil {
		return s // only an empty path fails, and paths here are constants
	}
	// sjson drops white space after the closing brace when it adds a member.
	if end := strings.TrimRight(s, " \t\r\n"); len(end) < len(s) && strings.HasSuffix(out, "}") {
		out += s[len(end):]
	}
	return out
}

// remove takes the member at path out of the JSON object s.
func remove(s, path string) string {
	out, err := sjson.Delete(s, path)
	if err != nil {
		return s
	}
	return out
}

// present says whether a member is there and not null.
func present(v gjson.Result) bool { return v.Exists() && v.Type != gjson.Null }

// View is b as a string without copying; b must not change afterwards.
func View(b []byte) string { return text(b) }

// text views b as a string without copying; b must not change afterwards.
func text(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

func formatInt(n int64) string { return strconv.FormatInt(n, 10) }

func formatFloat(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }
