package schema

import "slices"

// Keywords that hold schemas (JSON Schema 2020-12, with those of older drafts
// that servers still send), by how they hold them. All else in a schema is data:
// a property that is named like a keyword, or a default value that looks like a
// schema, is never touched.
var (
	oneSchema = []string{"items", "additionalItems", "contains", "additionalProperties", "unevaluatedItems", "unevaluatedProperties",
		"propertyNames", "not", "if", "then", "else", "contentSchema"}
	schemaList = []string{"anyOf", "oneOf", "allOf", "prefixItems", "items"}
	schemaMap  = []string{"properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"}
)

// each calls f for every place in n that holds a schema; what f returns takes
// that place.
func (n *node) each(f func(*node) *node) {
	for i := range n.members {
		m := &n.members[i]
		switch {
		case m.value.isSchema() && slices.Contains(oneSchema, m.name):
			m.value = f(m.value)
		case m.value.isArray() && slices.Contains(schemaList, m.name):
			for j, item := range m.value.items {
				if item.isSchema() {
					m.value.items[j] = f(item)
				}
			}
		case m.value.isObject() && slices.Contains(schemaMap, m.name):
			for j := range m.value.members {
				if v := m.value.members[j].value; v.isSchema() {
					m.value.members[j].value = f(v)
				}
			}
		}
	}
}

// every calls f for n and every schema in it, the innermost first.
func (n *node) every(f func(*node)) {
	n.each(func(child *node) *node {
		child.every(f)
		return child
	})
	if n.isObject() {
		f(n)
	}
}

// types gives the value of "type" as a list; nil if there is none.
func (n *node) types() []string {
	t := n.get("type")
	switch {
	case t.isString():
		return []string{t.str()}
	case t.isArray():
		var all []string
		for _, item := range t.items {
			all = append(all, item.str())
		}
		return all
	}
	return nil
}

// names gives the strings of an array.
func (n *node) names() []string {
	var all []string
	if n.isArray() {
		for _, item := range n.items {
			if item.isString() {
				all = append(all, item.str())
			}
		}
	}
	return all
}

func textList(names []string) *node {
	list := array()
	for _, name := range names {
		list.items = append(list.items, text(name))
	}
	return list
}

func setOf(names []string) map[string]bool {
	all := make(map[string]bool, len(names))
	for _, name := range names {
		all[name] = true
	}
	return all
}

// memberSet is the names of an object's members.
func (n *node) memberSet() map[string]bool {
	all := map[string]bool{}
	if n != nil {
		for _, m := range n.members {
			all[m.name] = true
		}
	}
	return all
}
