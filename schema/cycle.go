package schema

import "slices"

// inPlace are the keywords whose schemas are for the same value as the one they stand
// in. A reference that leads back through them alone never comes to an end (2020-12,
// 9.4.1).
var inPlace = setOf([]string{"anyOf", "oneOf", "allOf", "not", "if", "then", "else", "dependentSchemas"})

// Cyclic reports whether a reference in the schema, which is raw JSON, leads back to
// itself without going into the value. No value can be checked by such a schema.
func Cyclic(schema string) bool {
	root, err := parse(schema)
	if err != nil || !hasRefs(root) {
		return false
	}
	in := newInliner(root)
	const entered, left = 1, 2
	seen := map[*node]int{}
	var enter func(*node) bool
	enter = func(n *node) bool {
		if seen[n] != 0 || !n.isObject() {
			return seen[n] == entered
		}
		seen[n] = entered
		defer func() { seen[n] = left }()
		if ref := refOf(n); ref != "" {
			if target := in.find(ref); target != nil && enter(target) {
				return true
			}
		}
		for _, m := range n.members {
			if inPlace[m.name] && (slices.ContainsFunc(m.value.items, enter) || m.value.isObject() && m.name != "dependentSchemas" && enter(m.value)) ||
				m.name == "dependentSchemas" && slices.ContainsFunc(m.value.members, func(m member) bool { return enter(m.value) }) {
				return true
			}
		}
		return false
	}
	found := false
	root.every(func(n *node) { found = found || enter(n) })
	return found
}
