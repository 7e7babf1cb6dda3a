package schema

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// OpenAI, "Structured Outputs", supported schemas: the limits of strict mode.
const (
	strictProperties = 5000
	strictLevels     = 10
	strictText       = 120_000
	strictValues     = 1000
	// An enum of more than 250 strings may have 15,000 characters.
	strictLongEnum     = 250
	strictLongEnumText = 15_000
)

// strictWords are the keywords that strict mode knows, by type.
var strictWords = map[string]map[string]bool{
	"string":  setOf([]string{"pattern", "format"}),
	"number":  setOf([]string{"multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}),
	"integer": setOf([]string{"multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}),
	"array":   setOf([]string{"minItems", "maxItems"}),
}

var strictFormats = setOf([]string{"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"})

// strict writes schemas for OpenAI's strict mode: every object closed, every
// property required, optional ones nullable.
type strict struct {
	shaper
	properties, characters, values int
}

// root writes the parameters themselves. asked are names that the rules in the
// description ask for: a closed object must know them.
func (st *strict) root(n *node, asked []string) (*node, error) {
	known := n.get("properties").memberSet()
	if slices.ContainsFunc(asked, func(name string) bool { return !known[name] }) {
		return nil, errUndescribed
	}
	tree, err := st.schema(n, false, 0)
	if err == nil && st.left < 0 {
		err = errMany
	}
	return tree, err
}

var errUndescribed = errors.New("it asks for members that it does not describe")

func (st *strict) schema(n *node, optional bool, level int) (*node, error) {
	s := st.shape(n)
	switch {
	case s.any:
		return nil, errors.New("it allows any value somewhere")
	case len(s.parts) == 0:
		return object(member{"type", text("null")}), nil
	case st.left < 0:
		return nil, errMany
	}
	list := array()
	for _, part := range s.parts {
		out, err := st.part(part, level)
		if err != nil {
			return nil, err
		}
		list.items = append(list.items, out)
	}
	if !told(list.items) {
		return nil, errors.New("it has alternatives that strict mode cannot tell apart")
	}
	out := list.items[0]
	nullable := s.nullable || optional
	switch {
	case len(list.items) > 1:
		if nullable {
			list.items = append(list.items, object(member{"type", text("null")}))
		}
		out = object(member{"anyOf", list})
	case nullable:
		out.set("type", array(out.get("type"), text("null")))
		if values := out.get("enum"); values != nil {
			out.set("enum", array(slices.Concat(values.items, []*node{scalar("null")})...))
		}
	}
	if s.description != "" {
		out.set("description", text(joined(s.description, out.get("description").str())))
	}
	if s.initial != nil {
		tell(out, words("default", s.initial))
	}
	return out, nil
}

// part writes a schema of one type.
func (st *strict) part(p *node, level int) (*node, error) {
	kind := p.take("type").str()
	out := object(member{"type", text(kind)})
	rules := conditionsOf(p, kind)
	switch kind {
	case "object":
		if err := st.object(out, p, level); err != nil {
			return nil, err
		}
	case "array":
		if p.has("prefixItems") || !p.has("items") {
			return nil, errors.New("it has lists of any values")
		}
		items, err := st.schema(p.take("items"), false, level)
		if err != nil {
			return nil, err
		}
		out.set("items", items)
	}
	var lost []string
	for _, m := range p.members {
		switch {
		case m.name == "description":
			out.set("description", text(joined(m.value.str(), out.get("description").str())))
		case m.name == "enum":
			if err := st.enum(m.value); err != nil {
				return nil, err
			}
			out.set("enum", m.value)
		case strictWords[kind][m.name] && !st.unknown(m):
			out.set(m.name, m.value)
		default:
			lost = append(lost, words(m.name, m.value))
		}
	}
	tell(out, append(lost, rules...)...)
	return out, nil
}

// unknown reports whether strict mode does not know this value of a keyword: a
// format, or a regular expression with look-around.
func (st *strict) unknown(m member) bool {
	return m.name == "format" && !strictFormats[m.value.str()] || m.name == "pattern" && strings.Contains(m.value.str(), "(?")
}

func (st *strict) enum(values *node) error {
	size := 0
	for _, v := range values.items {
		size += len(v.str())
	}
	st.values += len(values.items)
	st.characters += size
	if st.values > strictValues || len(values.items) > strictLongEnum && size > strictLongEnumText {
		return fmt.Errorf("it lists more values than strict mode takes")
	}
	return nil
}

// object writes the members of an object.
func (st *strict) object(out, p *node, level int) error {
	extra, properties := p.take("additionalProperties"), p.take("properties")
	switch open := extra == nil && !properties.isObject(); {
	case level == strictLevels:
		return fmt.Errorf("it has more than %d levels", strictLevels)
	case extra != nil && !extra.is("false"), p.has("patternProperties"), open && level > 0:
		return errors.New("it has objects with members of any name")
	}
	required := p.take("required").names()
	must := setOf(required)
	all, names := object(), array()
	for _, m := range properties.list() {
		st.properties++
		st.characters += len(m.name)
		value, err := st.schema(m.value, !must[m.name], level+1)
		if err != nil {
			return err
		}
		all.members = append(all.members, member{m.name, value})
		names.items = append(names.items, text(m.name))
		delete(must, m.name)
	}
	if len(must) > 0 {
		return errUndescribed
	}
	if st.properties > strictProperties || st.characters > strictText {
		return errors.New("it is larger than strict mode takes")
	}
	out.set("properties", all)
	out.set("required", names)
	out.set("additionalProperties", scalar("false"))
	return nil
}

// told reports whether alternatives differ in their first member, as strict mode
// wants ("Objects provided via 'anyOf' must not share identical first keys"), or
// in its value.
func told(parts []*node) bool {
	seen := map[string]map[string]bool{}
	for _, p := range parts {
		properties := p.get("properties").list()
		if len(properties) == 0 {
			continue
		}
		name, values := properties[0].name, ""
		if enum := properties[0].value.get("enum"); enum != nil {
			values = enum.String()
		}
		if known := seen[name]; known != nil && (values == "" || known[values] || known[""]) {
			return false
		}
		if seen[name] == nil {
			seen[name] = map[string]bool{}
		}
		seen[name][values] = true
	}
	return true
}
