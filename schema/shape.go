package schema

import "slices"

// shape is a schema sorted for a dialect with few keywords: alternatives of one
// type each, and whether null is allowed beside them.
type shape struct {
	any         bool // any value; parts say nothing then
	nullable    bool
	description string
	title       *node
	initial     *node   // the default
	parts       []*node // schemas with one "type" each; none: nothing but null
}

// typed lists the keywords that only count for one type.
var typed = map[string]map[string]bool{
	"string": setOf([]string{"minLength", "maxLength", "pattern", "format", "contentEncoding", "contentMediaType", "contentSchema"}),
	"number": setOf([]string{"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "format"}),
	"array": setOf([]string{"items", "prefixItems", "additionalItems", "contains", "minContains", "maxContains", "minItems", "maxItems",
		"uniqueItems", "unevaluatedItems"}),
	"object": setOf([]string{"properties", "required", "additionalProperties", "patternProperties", "propertyNames", "minProperties",
		"maxProperties", "dependentRequired", "dependentSchemas", "dependencies", "unevaluatedProperties"}),
}

func keywordsOf(kind string) map[string]bool {
	if kind == "integer" {
		kind = "number"
	}
	return typed[kind]
}

// foreign reports whether a keyword counts for other types than kind only.
func foreign(name, kind string) bool {
	if keywordsOf(kind)[name] {
		return false
	}
	for _, words := range typed {
		if words[name] {
			return true
		}
	}
	return false
}

// shaper sorts schemas, within a budget for what it must copy.
type shaper struct{ left int }

func (sh *shaper) copy(n *node) *node {
	if sh.left < 0 {
		return n
	}
	sh.left -= n.size(sh.left)
	return n.copy()
}

// shape sorts a schema. It takes n apart.
func (sh *shaper) shape(n *node) *shape {
	s := &shape{}
	if !n.isObject() {
		s.any = true
		return s
	}
	sum(n)
	s.nullable = n.take("nullable").is("true")
	s.description = n.take("description").str()
	s.title, s.initial = n.take("title"), n.take("default")
	list := alternatives(n)
	if list == nil {
		sh.addTypes(s, n)
		return s
	}
	for _, branch := range list {
		if sh.left < 0 {
			break // nothing comes of this
		}
		inner := sh.shape(sh.join(branch, n))
		s.nullable = s.nullable || inner.nullable
		s.any = s.any || inner.any
		for _, part := range inner.parts {
			if said := inner.description; said != "" && part.get("description") == nil {
				part.set("description", text(said))
			}
			s.parts = append(s.parts, part)
		}
	}
	return s
}

// alternatives takes anyOf and oneOf; nil if there are none. If there are both,
// the second is told, not joined.
func alternatives(n *node) []*node {
	list, one := n.take("anyOf"), n.take("oneOf")
	if list == nil {
		list, one = one, nil
	}
	if list == nil {
		return nil
	}
	if one != nil {
		tell(n, words("oneOf", one))
	}
	return list.items
}

// join gives an alternative what stands beside all of them.
func (sh *shaper) join(branch, beside *node) *node {
	if !branch.isObject() {
		branch = object()
	}
	for _, m := range beside.members {
		switch old := branch.get(m.name); {
		case m.name == "type" && old != nil:
			// The alternative is the narrower.
		case m.name == "properties" && old != nil:
			uniteProperties(branch, sh.copy(m.value))
		case m.name == "required" && old != nil:
			branch.set("required", union(old, m.value))
		case old == nil:
			branch.set(m.name, sh.copy(m.value))
		}
	}
	return branch
}

// addTypes splits a schema without alternatives by its types.
func (sh *shaper) addTypes(s *shape, n *node) {
	values := valuesOf(n)
	types := n.types()
	n.take("type")
	if types == nil {
		types = implied(n, values)
	}
	s.any = types == nil
	if slices.Contains(types, "null") {
		s.nullable = s.nullable || values == nil || slices.ContainsFunc(values, func(v *node) bool { return v.is("null") })
		types = slices.DeleteFunc(slices.Clone(types), func(t string) bool { return t == "null" })
	}
	for _, kind := range types {
		own := slices.DeleteFunc(slices.Clone(values), func(v *node) bool { return !isKind(v, kind, types) })
		if values != nil && len(own) == 0 {
			continue
		}
		part := object(member{"type", text(kind)})
		for _, m := range n.members {
			if m.name != "enum" && m.name != "const" && !foreign(m.name, kind) {
				part.set(m.name, sh.copy(m.value))
			}
		}
		if values != nil {
			part.set("enum", distinct(own))
		}
		s.parts = append(s.parts, part)
	}
}

// implied are the types that a schema without "type" speaks of; nil for any.
func implied(n *node, values []*node) []string {
	var types []string
	add := func(kind string) {
		if !slices.Contains(types, kind) {
			types = append(types, kind)
		}
	}
	for _, v := range values {
		add(kindOf(v))
	}
	if values != nil {
		return types
	}
	for _, m := range n.members {
		for _, kind := range []string{"object", "array", "string", "number"} {
			if typed[kind][m.name] && m.name != "format" {
				add(kind)
			}
		}
	}
	return types
}

func kindOf(v *node) string {
	switch {
	case v.isObject():
		return "object"
	case v.isArray():
		return "array"
	case v.isString():
		return "string"
	case v.isBool():
		return "boolean"
	case v.is("null"):
		return "null"
	}
	for _, c := range v.raw {
		if c == '.' || c == 'e' || c == 'E' {
			return "number"
		}
	}
	return "integer"
}

// isKind reports whether v is a value of the type, where types are the others
// that it could be counted to.
func isKind(v *node, kind string, types []string) bool {
	k := kindOf(v)
	return k == kind || k == "integer" && kind == "number" && !slices.Contains(types, "integer") ||
		k == "number" && kind == "integer" && !slices.Contains(types, "number")
}

// sum joins the schemas of allOf into the one that holds them.
func sum(n *node) {
	for range maxDepth {
		all := n.take("allOf")
		if all == nil {
			return
		}
		var lost []string
		for _, part := range all.items {
			lost = append(lost, addTo(n, part)...)
		}
		tell(n, lost...)
	}
}

// addTo joins one schema, and says what could not be joined.
func addTo(n, part *node) (lost []string) {
	for _, m := range part.list() {
		old := n.get(m.name)
		switch {
		case old == nil:
			n.set(m.name, m.value)
		case old.String() == m.value.String(), m.name == "title", m.name == "default":
		case m.name == "description":
			n.set("description", text(joined(old.str(), m.value.str())))
		case m.name == "properties":
			uniteProperties(n, m.value)
		case m.name == "required":
			n.set("required", union(old, m.value))
		case m.name == "allOf":
			n.set("allOf", array(slices.Concat(old.items, m.value.items)...))
		case m.name == "type":
			if narrow := common(n.types(), part.types()); len(narrow) > 0 {
				n.set("type", textList(narrow))
			}
		default:
			lost = append(lost, words(m.name, m.value))
		}
	}
	return lost
}

func common(a, b []string) []string {
	var types []string
	for _, t := range a {
		if slices.Contains(b, t) || t == "integer" && slices.Contains(b, "number") {
			types = append(types, t)
		} else if t == "number" && slices.Contains(b, "integer") {
			types = append(types, "integer")
		}
	}
	return types
}
