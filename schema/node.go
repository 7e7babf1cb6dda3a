package schema

import (
	"errors"
	"slices"
	"strings"

	segmentio "github.com/segmentio/encoding/json"
	"github.com/tidwall/gjson"
)

const (
	// maxDepth bounds the nesting of JSON: a level of properties has two. The
	// deepest schemas of published servers have about 30.
	maxDepth = 200
	// maxNodes bounds the values of one schema: MaxInput has room for as many.
	maxNodes = 50_000
	// maxExpanded bounds them after references are put in place. MaxBytes has room
	// for half of them.
	maxExpanded = 20_000
)

var (
	errDeep    = errors.New("input schema is nested too deeply")
	errMany    = errors.New("input schema expands to too many values")
	errInvalid = errors.New("input schema is not valid JSON")
)

// node is a JSON value: an object if members is not nil, an array if items is
// not nil, else the text of a scalar.
type node struct {
	members []member
	items   []*node
	raw     string
}

type member struct {
	name  string // decoded
	value *node
}

func scalar(raw string) *node    { return &node{raw: raw} }
func text(s string) *node        { return scalar(quote(s)) }
func array(items ...*node) *node { return &node{items: append([]*node{}, items...)} }
func object(members ...member) *node {
	return &node{members: append([]member{}, members...)}
}

// quote encodes s as a JSON string. Unlike json.Marshal it leaves <, > and & as they are.
func quote(s string) string {
	return string(segmentio.AppendEscape(make([]byte, 0, len(s)+2), s, 0))
}

// parse reads JSON text. Of two members with one name the last counts.
func parse(raw string) (*node, error) {
	if depth(raw) > maxDepth {
		return nil, errDeep
	}
	if !gjson.Valid(raw) {
		return nil, errInvalid
	}
	left := maxNodes
	n := build(gjson.Parse(raw), &left)
	if left < 0 {
		return nil, errMany
	}
	return n, nil
}

// depth is the deepest nesting of JSON text, whether or not it is valid: gjson
// validates by recursion.
func depth(raw string) (deepest int) {
	now, quoted := 0, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			now++
			deepest = max(deepest, now)
		case c == '}' || c == ']':
			now--
		}
	}
	return deepest
}

func build(value gjson.Result, left *int) *node {
	if *left--; *left < 0 {
		return scalar("null")
	}
	switch {
	case value.IsObject():
		n := object()
		places := map[string]int{}
		value.ForEach(func(key, v gjson.Result) bool {
			child := build(v, left)
			if i, ok := places[key.Str]; ok {
				n.members[i].value = child
			} else {
				places[key.Str] = len(n.members)
				n.members = append(n.members, member{key.Str, child})
			}
			return *left >= 0
		})
		return n
	case value.IsArray():
		n := array()
		value.ForEach(func(_, v gjson.Result) bool {
			n.items = append(n.items, build(v, left))
			return *left >= 0
		})
		return n
	}
	return scalar(strings.TrimSpace(value.Raw))
}

func (n *node) isObject() bool { return n != nil && n.members != nil }
func (n *node) isArray() bool  { return n != nil && n.items != nil }
func (n *node) isString() bool { return n != nil && strings.HasPrefix(n.raw, `"`) }
func (n *node) is(raw string) bool {
	return n != nil && n.raw == raw
}
func (n *node) isBool() bool { return n.is("true") || n.is("false") }
func (n *node) isNumber() bool {
	return n != nil && n.raw != "" && strings.Contains("-0123456789", n.raw[:1])
}

// isSchema reports whether n can be a schema: an object, true or false.
func (n *node) isSchema() bool { return n.isObject() || n.isBool() }

// str is the decoded text of a string, "" for anything else.
func (n *node) str() string {
	if !n.isString() {
		return ""
	}
	return gjson.Parse(n.raw).Str
}

// get gives a member's value, nil if there is none.
func (n *node) get(name string) *node {
	if n != nil {
		for _, m := range n.members {
			if m.name == name {
				return m.value
			}
		}
	}
	return nil
}

func (n *node) has(name string) bool { return n.get(name) != nil }

// set replaces a member in its place, or adds it at the end.
func (n *node) set(name string, value *node) {
	for i := range n.members {
		if n.members[i].name == name {
			n.members[i].value = value
			return
		}
	}
	n.members = append(n.members, member{name, value})
}

// take removes a member and gives its value, nil if there was none.
func (n *node) take(name string) *node {
	value := n.get(name)
	if value != nil {
		n.members = slices.DeleteFunc(n.members, func(m member) bool { return m.name == name })
	}
	return value
}

// copy is a deep copy.
func (n *node) copy() *node {
	c := &node{raw: n.raw}
	if n.members != nil {
		c.members = make([]member, len(n.members))
		for i, m := range n.members {
			c.members[i] = member{m.name, m.value.copy()}
		}
	}
	if n.items != nil {
		c.items = make([]*node, len(n.items))
		for i, item := range n.items {
			c.items[i] = item.copy()
		}
	}
	return c
}

// String is compact JSON.
func (n *node) String() string {
	var b strings.Builder
	n.write(&b)
	return b.String()
}

func (n *node) write(b *strings.Builder) {
	switch {
	case n.members != nil:
		b.WriteByte('{')
		for i, m := range n.members {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(quote(m.name))
			b.WriteByte(':')
			m.value.write(b)
		}
		b.WriteByte('}')
	case n.items != nil:
		b.WriteByte('[')
		for i, item := range n.items {
			if i > 0 {
				b.WriteByte(',')
			}
			item.write(b)
		}
		b.WriteByte(']')
	default:
		b.WriteString(n.raw)
	}
}
