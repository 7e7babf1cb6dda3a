package schema

import (
	"slices"
	"strings"
)

// tolerant gives a schema to validate by that forbids no more than its server means:
// types in the spelling that Gemini and others have ("OBJECT"), "nullable" of OpenAPI
// 3.0, and an empty enum, which nothing could ever fit. The model is shown the same.
// What cannot be read comes back as it is.
func tolerant(text string) string {
	root, err := parse(text)
	if err != nil {
		return text
	}
	root.every(func(n *node) {
		spellTypes(n)
		if enum := n.get("enum"); enum.isArray() && len(enum.items) == 0 {
			n.take("enum")
		}
		if n.get("nullable").is("true") {
			allowNull(n)
		}
	})
	return root.String()
}

// spellTypes writes the types that are known as JSON Schema does, and reports whether
// they were written otherwise; other words stay.
func spellTypes(n *node) (changed bool) {
	types := n.types()
	for i, t := range types {
		if kind := kinds[strings.ToLower(t)]; kind != "" && kind != t {
			types[i], changed = kind, true
		}
	}
	switch {
	case !changed:
	case n.get("type").isString():
		n.set("type", text(types[0]))
	default:
		slices.Sort(types)
		n.set("type", textList(slices.Compact(types)))
	}
	return changed
}

// allowNull adds null to what a schema allows.
func allowNull(n *node) {
	if types := n.types(); types != nil && !slices.Contains(types, "null") {
		n.set("type", textList(append(types, "null")))
	}
	if enum := n.get("enum"); enum.isArray() {
		n.set("enum", array(append(slices.Clone(enum.items), scalar("null"))...))
	}
	null := object(member{"type", text("null")})
	for _, word := range []string{"anyOf", "oneOf"} {
		if list := n.get(word); list.isArray() && !slices.ContainsFunc(list.items, allowsNull) {
			n.set(word, array(append(slices.Clone(list.items), null)...))
		}
	}
	var rest []member
	for _, word := range []string{"$ref", "allOf", "const"} {
		if v := n.take(word); v != nil {
			rest = append(rest, member{word, v})
		}
	}
	if rest == nil {
		return
	}
	either := array(object(rest...), null)
	if !n.has("anyOf") {
		n.set("anyOf", either)
	} else {
		n.set("allOf", array(object(member{"anyOf", either})))
	}
}
