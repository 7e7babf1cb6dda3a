package schema

import (
	"slices"
	"strings"
)

// flatten makes one object of a root that is an alternative or a sum of others:
// OpenAI takes no "oneOf", "anyOf", "allOf", "enum" or "not" there, Anthropic no
// combinator, and they refuse the whole request. Properties are united, required
// is what all alternatives require. The rules that are lost so are in words in
// what is returned; whoever breaks them hears it from the validation of the arguments.
func flatten(root *node) *flattener {
	f := &flattener{}
	f.flatten(root)
	return f
}

type flattener struct {
	rules []string
	// names are those of members that the rules ask for.
	names []string
}

// maxRules bounds the rules that are told, maxAlternatives the schemas that one
// property may have.
const (
	maxRules        = 12
	maxAlternatives = 32
)

func (f *flattener) tell(rule string) {
	if rule != "" && len(f.rules) < maxRules && !slices.Contains(f.rules, rule) {
		f.rules = append(f.rules, rule)
	}
}

func (f *flattener) flatten(n *node) {
	if all := n.take("allOf"); all != nil {
		for _, part := range all.items {
			f.add(n, part)
		}
	}
	for _, word := range []string{"anyOf", "oneOf"} {
		if list := n.take(word); list != nil {
			f.choose(n, list.items, word == "oneOf")
		}
	}
	for _, word := range []string{"not", "enum", "const"} {
		if v := n.take(word); v != nil {
			f.tell(forbids(word, v))
		}
	}
}

// add joins a schema that holds as well (allOf).
func (f *flattener) add(n, part *node) {
	f.flatten(part)
	if cond := part.take("if"); cond != nil {
		f.conditional(n, cond, part.take("then"), part.take("else"))
	}
	uniteProperties(n, part.take("properties"))
	if names := part.take("required"); names != nil {
		n.set("required", union(orEmpty(n.get("required")), names))
	}
	for _, m := range part.members {
		old := n.get(m.name)
		switch {
		case m.name == "type":
		case old == nil:
			n.set(m.name, m.value)
		case !annotations[m.name] && old.String() != m.value.String():
			f.tell(words(m.name, m.value))
		}
	}
}

// choose unites alternatives.
func (f *flattener) choose(n *node, list []*node, one bool) {
	var branches, said, common []string
	own := n.get("properties").memberSet()
	must := setOf(n.get("required").names())
	found := &gathered{all: map[string][]*node{}}
	for _, branch := range list {
		if types := branch.types(); types != nil && !slices.Contains(types, "object") {
			continue // arguments are an object
		}
		inner := &flattener{}
		inner.flatten(branch)
		branches = append(branches, alternative(branch, must))
		names := branch.get("required").names()
		if have := setOf(names); len(branches) == 1 {
			common = names
		} else {
			common = slices.DeleteFunc(common, func(name string) bool { return !have[name] })
		}
		if cond := branch.take("if"); cond != nil {
			inner.conditional(branch, cond, branch.take("then"), branch.take("else"))
		}
		said = append(said, inner.rules...)
		f.names = append(append(f.names, inner.names...), names...)
		for _, m := range branch.get("properties").list() {
			if !own[m.name] { // else the rule says what the alternative adds to it
				found.add(m)
			}
		}
	}
	uniteProperties(n, found.properties())
	if len(common) > 0 {
		n.set("required", union(orEmpty(n.get("required")), textList(common)))
	}
	if len(branches) > 1 {
		how := "Give at least one of these combinations: "
		if one {
			how = "Give exactly one of these combinations: "
		}
		f.tell(how + strings.Join(slices.Compact(branches), "; "))
	}
	for _, rule := range said {
		f.tell(rule)
	}
}

// gathered are the schemas that alternatives have for their properties.
type gathered struct {
	order []string
	all   map[string][]*node
}

func (g *gathered) add(m member) {
	if g.all[m.name] == nil {
		g.order = append(g.order, m.name)
	}
	g.all[m.name] = append(g.all[m.name], m.value)
}

func (g *gathered) properties() *node {
	out := object()
	for _, name := range g.order {
		out.members = append(out.members, member{name, oneOfThese(g.all[name])})
	}
	return out
}

// oneOfThese is a schema that takes what one of the schemas takes.
func oneOfThese(list []*node) *node {
	different := distinct(list).items
	if len(different) == 1 {
		return different[0]
	}
	var values []*node
	rests := map[string]bool{}
	for _, n := range different {
		own := valuesOf(n)
		if len(n.members) == 0 {
			return n
		}
		if own != nil {
			values = append(values, own...)
		}
		rests[withoutValues(n).String()] = own != nil
	}
	switch out := withoutValues(different[0]); {
	case len(rests) == 1 && rests[out.String()]: // they differ in their values only
		out.set("enum", distinct(values))
		return out
	case len(different) > maxAlternatives:
		return object()
	}
	return object(member{"anyOf", array(different...)})
}

func withoutValues(n *node) *node {
	out := object(n.members...)
	out.take("const")
	out.take("enum")
	return out
}

// uniteProperties adds properties to an object's own. Where both know one, both
// schemas hold.
func uniteProperties(n, more *node) {
	if !more.isObject() || len(more.members) == 0 {
		return
	}
	own := n.get("properties")
	if own == nil {
		n.set("properties", object(more.members...))
		return
	}
	places := make(map[string]int, len(own.members))
	for i, m := range own.members {
		places[m.name] = i
	}
	for _, m := range more.members {
		i, known := places[m.name]
		if !known {
			places[m.name] = len(own.members)
			own.members = append(own.members, m)
			continue
		}
		old := &own.members[i].value
		switch {
		case len(m.value.members) == 0 || (*old).String() == m.value.String():
		case len((*old).members) == 0:
			*old = m.value
		default:
			*old = object(member{"allOf", array(*old, m.value)})
		}
	}
}

// valuesOf lists the values of const or enum; nil if a schema has neither.
func valuesOf(n *node) []*node {
	if v := n.get("const"); v != nil {
		return []*node{v}
	}
	if v := n.get("enum"); v.isArray() {
		return v.items
	}
	return nil
}

func distinct(values []*node) *node {
	seen := map[string]bool{}
	list := array()
	for _, v := range values {
		if key := v.String(); !seen[key] {
			seen[key] = true
			list.items = append(list.items, v)
		}
	}
	return list
}
