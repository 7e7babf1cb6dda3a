package schema

// back undoes in a model's arguments what a dialect changed in the schema.
type back struct {
	// names are the server's own names of renamed members.
	names map[string]string
	// drop says of each member whether a null means that it is not given: an
	// optional member that strict mode made required and nullable.
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
