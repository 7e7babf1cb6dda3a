package schema

import (
	"slices"
	"strings"
)

// alternative says what sets one alternative apart.
func alternative(branch *node, must map[string]bool) string {
	var said []string
	fixed := map[string]bool{}
	for _, m := range branch.get("properties").list() {
		if value := fixedTo(m.value); value != "" {
			said = append(said, m.name+" "+value)
			fixed[m.name] = true
		}
	}
	for _, name := range branch.get("required").names() {
		if !fixed[name] && !must[name] {
			said = append(said, name)
		}
	}
	if v := branch.get("not"); v != nil {
		said = append(said, forbids("not", v))
	}
	if said == nil {
		for _, m := range branch.get("properties").list() {
			said = append(said, m.name)
		}
		if said == nil {
			return "none of them"
		}
		return "optionally " + strings.Join(said, ", ")
	}
	return clip(strings.Join(said, ", "), maxWords)
}

// fixedTo says the few values that a schema allows; "" if there are others.
func fixedTo(n *node) string {
	if v := n.get("const"); v != nil {
		return clip(v.String(), 60)
	}
	if v := n.get("enum"); v.isArray() {
		if len(v.items) == 1 {
			return clip(v.items[0].String(), 60)
		}
		return words("enum", v)
	}
	return ""
}

// conditional tells if-then-else, and gives the properties that it speaks of.
func (f *flattener) conditional(n, cond, then, other *node) {
	when := condition(cond)
	own := n.get("properties").memberSet()
	for _, c := range []struct {
		when   string
		schema *node
	}{{"if " + when, then}, {"if not " + when, other}} {
		if c.schema.isObject() && len(c.schema.members) > 0 {
			f.tell(c.when + ", then " + demands(c.schema))
			f.names = append(f.names, c.schema.get("required").names()...)
			more := object()
			for _, m := range c.schema.get("properties").list() {
				if !own[m.name] {
					more.members = append(more.members, m)
				}
			}
			uniteProperties(n, more)
		}
	}
}

// conditionsOf takes if-then-else out of a schema inside another, in words. An
// object gets the properties that they speak of.
func conditionsOf(n *node, kind string) []string {
	cond, then, other := n.take("if"), n.take("then"), n.take("else")
	if cond == nil {
		return nil
	}
	f := &flattener{}
	if kind != "object" {
		n = object()
	}
	f.conditional(n, cond, then, other)
	return f.rules
}

func condition(n *node) string {
	var said []string
	known := setOf([]string{"properties", "required", "type"})
	for _, m := range n.list() {
		if !known[m.name] {
			return "the value fits " + clip(n.String(), maxWords)
		}
	}
	fixed := map[string]bool{}
	for _, m := range n.get("properties").list() {
		value := fixedTo(m.value)
		if value == "" {
			value = "fits " + clip(m.value.String(), 100)
		} else {
			value = "is " + value
		}
		said = append(said, m.name+" "+value)
		fixed[m.name] = true
	}
	for _, name := range n.get("required").names() {
		if !fixed[name] {
			said = append(said, name+" is given")
		}
	}
	if said == nil {
		return "the value fits " + clip(n.String(), maxWords)
	}
	return strings.Join(said, " and ")
}

func demands(n *node) string {
	var said []string
	if names := n.get("required").names(); len(names) > 0 {
		said = append(said, "give "+strings.Join(names, " and "))
	}
	for _, m := range n.get("properties").list() {
		if value := fixedTo(m.value); value != "" {
			said = append(said, m.name+" is "+value)
		} else if m.value.has("not") && len(m.value.members) == 1 {
			said = append(said, "no "+m.name)
		}
	}
	for _, m := range n.list() {
		if m.name != "required" && m.name != "properties" {
			said = append(said, words(m.name, m.value))
		}
	}
	said = slices.DeleteFunc(said, func(s string) bool { return s == "" })
	if said == nil {
		return "the value fits " + clip(n.String(), maxWords)
	}
	return clip(strings.Join(said, ", "), maxWords)
}

// forbids says a rule about the arguments as a whole.
func forbids(word string, v *node) string {
	if names := v.get("required").names(); word == "not" && len(names) > 0 && len(v.members) == 1 {
		if len(names) == 1 {
			return "no " + names[0]
		}
		return "not " + strings.Join(names, " and ") + " together"
	}
	return "the arguments " + strings.Replace(words(word, v), "one of", "are one of", 1)
}
