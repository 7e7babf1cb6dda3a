package schema

import "slices"

// back makes of a model's arguments those that the tool means: models write null
// for what they leave out, by themselves and because strict mode wants it, and
// some arguments have other names in a dialect.
type back struct {
	// names are the server's own names of renamed members.
	names map[string]string
	// drop says of each member whether a null means that it is not given.
	drop    map[string]bool
	members map[string]*back
	items   *back
}

// Arguments turns arguments that a model wrote for the function into those for
// the tool. Other text than a JSON value, and arguments in which nothing is to be
// changed, come back as they are.
func (f *Function) Arguments(text string) string {
	if f.back == nil {
		return text
	}
	n, err := parse(text)
	if err != nil || !f.back.apply(n) {
		return text
	}
	return n.String()
}

// apply changes n in place, and reports whether there was anything to change.
func (b *back) apply(n *node) (changed bool) {
	if b == nil {
		return false
	}
	for _, item := range n.items {
		changed = b.items.apply(item) || changed
	}
	if n.members == nil {
		return changed
	}
	kept := n.members[:0]
	for _, m := range n.members {
		if b.drop[m.name] && m.value.is("null") {
			changed = true
			continue
		}
		changed = b.members[m.name].apply(m.value) || changed
		if own, ok := b.names[m.name]; ok {
			m.name, changed = own, true
		}
		kept = append(kept, m)
	}
	n.members = kept
	return changed
}

// backOf says what may be left out of arguments by a schema: a null for a member
// that is optional and cannot be null. It is nil if there is no such member.
func backOf(n *node) *back {
	b := &back{drop: map[string]bool{}, members: map[string]*back{}}
	must := setOf(n.get("required").names())
	useful := false
	for _, m := range n.get("properties").list() {
		b.drop[m.name] = !must[m.name] && !allowsNull(m.value)
		useful = useful || b.drop[m.name]
		if inner := backOf(m.value); inner != nil {
			b.members[m.name], useful = inner, true
		}
	}
	if items := n.get("items"); items.isObject() {
		b.items = backOf(items)
		useful = useful || b.items != nil
	}
	all := []*back{nil}
	if useful {
		all[0] = b
	}
	for _, word := range []string{"anyOf", "oneOf", "allOf"} {
		if list := n.get(word); list.isArray() {
			for _, item := range list.items {
				all = append(all, backOf(item))
			}
		}
	}
	return joinBacks(all)
}

// allowsNull reports whether null may be a value of a schema.
func allowsNull(n *node) bool {
	switch {
	case !n.isObject():
		return !n.is("false")
	case n.get("nullable").is("true"):
		return true
	case n.has("type") && !slices.Contains(n.types(), "null"):
		return false
	}
	if values := valuesOf(n); values != nil && !slices.ContainsFunc(values, func(v *node) bool { return v.is("null") }) {
		return false
	}
	for _, word := range []string{"anyOf", "oneOf"} {
		if list := n.get(word); list.isArray() && !slices.ContainsFunc(list.items, allowsNull) {
			return false
		}
	}
	all := n.get("allOf")
	return !all.isArray() || !slices.ContainsFunc(all.items, func(part *node) bool { return !allowsNull(part) })
}

// joinBacks makes one of those of alternatives. A null that one of them allows
// stays.
func joinBacks(all []*back) *back {
	var out *back
	for _, b := range all {
		switch {
		case b == nil:
		case out == nil:
			out = b
		default:
			for name, drop := range b.drop {
				old, known := out.drop[name]
				if out.drop == nil {
					out.drop = map[string]bool{}
				}
				out.drop[name] = drop && (old || !known)
			}
			for name, inner := range b.members {
				if out.members == nil {
					out.members = map[string]*back{}
				}
				out.members[name] = joinBacks([]*back{out.members[name], inner})
			}
			out.items = joinBacks([]*back{out.items, b.items})
		}
	}
	return out
}
