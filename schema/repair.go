package schema

import (
	"slices"
	"strings"
)

// kinds are JSON Schema's types, and what servers write for them. Providers
// refuse any other word, and with it the whole request.
var kinds = map[string]string{
	"string": "string", "number": "number", "integer": "integer", "boolean": "boolean", "object": "object", "array": "array", "null": "null",
	"str": "string", "text": "string", "int": "integer", "long": "integer", "float": "number", "double": "number", "decimal": "number",
	"bool": "boolean", "dict": "object", "map": "object", "list": "array", "tuple": "array",
}

// How a keyword's value must look; one that looks otherwise says nothing.
var (
	numberWords = setOf([]string{"minimum", "maximum", "multipleOf", "minLength", "maxLength", "minItems", "maxItems", "minProperties",
		"maxProperties", "exclusiveMinimum", "exclusiveMaximum", "minContains", "maxContains"})
	countWords  = setOf([]string{"minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties", "minContains", "maxContains"})
	stringWords = setOf([]string{"description", "title", "format", "pattern", "$schema", "$id", "$comment", "$anchor", "$recursiveAnchor"})
	// dataWords hold any value, null too.
	dataWords = setOf([]string{"default", "const", "example", "examples", "enum"})
)

// repair mends every schema in n in place. A well-formed schema stays as it is.
func repair(n *node) {
	n.every(liftRequired)
	n.every(func(s *node) {
		exclusive(s, "exclusiveMinimum", "minimum")
		exclusive(s, "exclusiveMaximum", "maximum")
		s.members = slices.DeleteFunc(s.members, func(m member) bool { return !sound(m) })
		repairType(s)
		keepPortable(s)
		tuple(s)
		for i := range s.members {
			repairMember(&s.members[i])
		}
	})
}

// sound reports whether a keyword has a value that it can have.
func sound(m member) bool {
	v := m.value
	switch {
	case dataWords[m.name]:
		return m.name != "enum" || v.isArray() && len(v.items) > 0
	case v.is("null"):
		return false
	case m.name == "description" || m.name == "title":
		return v.isString() || v.isNumber() || v.isBool()
	case m.name == "multipleOf": // nothing is a multiple of 0
		return v.isNumber() && v.raw[0] != '-' && strings.ContainsAny(v.raw, "123456789")
	case numberWords[m.name]:
		return v.isNumber() && !(countWords[m.name] && v.raw[0] == '-')
	case stringWords[m.name]:
		return v.isString()
	case m.name == "required":
		return v.isArray()
	case slices.Contains(schemaList, m.name) && m.name != "items":
		return v.isArray() && slices.ContainsFunc(v.items, (*node).isSchema)
	case m.name == "items" || m.name == "properties": // these have a place to keep
		return true
	case slices.Contains(oneSchema, m.name):
		return v.isSchema()
	case slices.Contains(schemaMap, m.name):
		return v.isObject()
	}
	return true
}

func repairMember(m *member) {
	switch m.name {
	case "description", "title":
		if !m.value.isString() {
			m.value = text(m.value.raw)
		}
	case "required":
		if names := m.value.names(); len(names) != len(m.value.items) || len(setOf(names)) != len(names) {
			m.value = union(array(), m.value)
		}
	case "properties":
		if !m.value.isObject() {
			m.value = object()
		}
		for i := range m.value.members {
			m.value.members[i].value = plain(m.value.members[i].value)
		}
	case "items":
		if !m.value.is("false") {
			m.value = plain(m.value)
		}
	case "anyOf", "oneOf", "allOf", "prefixItems":
		if slices.ContainsFunc(m.value.items, func(item *node) bool { return !item.isObject() }) {
			list := array()
			for _, item := range m.value.items {
				if item.isSchema() {
					list.items = append(list.items, plain(item))
				}
			}
			m.value = list
		}
	}
}

// plain writes a schema as an object: some providers know no others.
func plain(n *node) *node {
	switch {
	case n.isObject():
		return n
	case n.is("false"):
		return object(member{"not", object()})
	}
	return object()
}

// repairType keeps the types that there are.
func repairType(n *node) {
	types := n.types()
	var known []string
	for _, t := range types {
		if kind := kinds[strings.ToLower(t)]; kind != "" && !slices.Contains(known, kind) {
			known = append(known, kind)
		}
	}
	switch {
	case slices.Equal(known, types):
		if len(types) == 0 {
			n.take("type")
		}
	case len(known) == 0:
		n.take("type")
	case len(known) == 1:
		n.set("type", text(known[0]))
	default:
		n.set("type", textList(known))
	}
}

// exclusive turns draft 4's {"minimum": n, "exclusiveMinimum": true} into the
// number of later drafts.
func exclusive(n *node, name, bound string) {
	if v := n.get(name); v.is("true") && n.get(bound).isNumber() {
		n.set(name, n.take(bound))
	}
}

// tuple turns the list form of items (up to 2019-09) into prefixItems.
func tuple(n *node) {
	items := n.get("items")
	if !items.isArray() {
		return
	}
	rest := n.take("additionalItems")
	if !rest.isSchema() {
		rest = object()
	}
	n.set("items", rest)
	if len(items.items) > 0 {
		n.set("prefixItems", items)
	}
}

// liftRequired turns draft 3's {"properties": {"a": {"required": true}}} into a
// list beside the properties.
func liftRequired(n *node) {
	var names []string
	for _, m := range n.get("properties").list() {
		if m.value.isObject() && m.value.get("required").isBool() {
			if m.value.take("required").is("true") {
				names = append(names, m.name)
			}
		}
	}
	if names != nil {
		n.set("required", union(orEmpty(n.get("required")), textList(names)))
	}
}

// list gives the members of an object, none of anything else.
func (n *node) list() []member {
	if n == nil {
		return nil
	}
	return n.members
}

func orEmpty(n *node) *node {
	if n.isArray() {
		return n
	}
	return array()
}

// wellFormed replaces halves of surrogate pairs in JSON text, which providers
// refuse as no JSON at all (RFC 8259, 8.2), and bytes that are not UTF-8.
func wellFormed(raw string) string {
	raw = strings.ToValidUTF8(raw, "\uFFFD")
	if !strings.Contains(raw, `\ud`) && !strings.Contains(raw, `\uD`) {
		return raw
	}
	var b strings.Builder
	for i := 0; i < len(raw); i++ {
		switch {
		case raw[i] != '\\' || i+6 > len(raw):
			b.WriteByte(raw[i])
		case raw[i+1] != 'u':
			b.WriteString(raw[i : i+2])
			i++
		case half(raw[i:]) == 0:
			b.WriteString(raw[i : i+6])
			i += 5
		case half(raw[i:]) == 1 && half(raw[i+6:]) == 2:
			b.WriteString(raw[i : i+12])
			i += 11
		default:
			b.WriteString(`\ufffd`)
			i += 5
		}
	}
	return b.String()
}

// half reports whether s begins with the escape of the first (1) or second (2)
// half of a surrogate pair.
func half(s string) int {
	if len(s) < 6 || s[0] != '\\' || s[1] != 'u' || (s[2] != 'd' && s[2] != 'D') {
		return 0
	}
	switch c := s[3]; {
	case strings.IndexByte("89abAB", c) >= 0:
		return 1
	case strings.IndexByte("cdefCDEF", c) >= 0:
		return 2
	}
	return 0
}
