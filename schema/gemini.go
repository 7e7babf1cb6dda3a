package schema

import (
	"math/big"
	"slices"
	"strings"
)

// gemini writes schemas as Google's Schema object, a part of OpenAPI 3.0: any
// other keyword makes the API refuse the whole request
// (https://ai.google.dev/api/caching#Schema). What is lost is told.
type gemini struct{ shaper }

// geminiWords are the keywords that go over as they are, by type.
var geminiWords = map[string]map[string]bool{
	"string":  setOf([]string{"minLength", "maxLength", "pattern"}),
	"number":  setOf([]string{"minimum", "maximum"}),
	"integer": setOf([]string{"minimum", "maximum"}),
	"array":   setOf([]string{"minItems", "maxItems"}),
	"object":  setOf([]string{"minProperties", "maxProperties"}),
}

// geminiFormats are those that do not make the API refuse the request.
var geminiFormats = map[string]map[string]bool{
	"string":  setOf([]string{"enum", "date-time"}),
	"number":  setOf([]string{"float", "double"}),
	"integer": setOf([]string{"int32", "int64"}),
}

func (g *gemini) schema(n *node) *node {
	s := g.shape(n)
	if s.any {
		// Every schema must have a type.
		s.parts = []*node{object(member{"type", text("string")}), object(member{"type", text("number")}),
			object(member{"type", text("boolean")}), object(member{"type", text("object")})}
		for _, m := range n.list() {
			s.description = joined(s.description, said(m.name, m.value))
		}
	}
	if len(s.parts) == 0 {
		part := object(member{"type", text("string")})
		tell(part, "always null")
		s.parts = []*node{part}
	}
	list := array()
	for i, part := range s.parts {
		out := g.part(part)
		if own := out.get("description").str(); s.description != "" && (i == 0 || own == "" && !s.any) {
			out.set("description", text(joined(s.description, own)))
		}
		if s.nullable {
			out.set("nullable", scalar("true"))
		}
		list.items = append(list.items, out)
	}
	if len(list.items) == 1 {
		out := list.items[0]
		if s.title != nil {
			out.set("title", s.title)
		}
		if s.initial != nil {
			out.set("default", s.initial)
		}
		return out
	}
	// Vertex AI: "When using any_of, it must be the only field set."
	return object(member{"anyOf", list})
}

func said(name string, v *node) string {
	if s := words(name, v); s != "" {
		return sentence(s)
	}
	return ""
}

// part writes a schema of one type.
func (g *gemini) part(p *node) *node {
	kind := p.take("type").str()
	out := object(member{"type", text(kind)})
	rules := conditionsOf(p, kind)
	var lost []string
	if first := p.get("prefixItems"); first != nil && (!p.has("items") || len(p.get("items").members) == 0) {
		p.set("items", object(member{"anyOf", distinct(first.copy().items)}))
	}
	for _, m := range p.members {
		switch {
		case m.name == "description" || m.name == "example" || geminiWords[kind][m.name]:
			if !out.has(m.name) {
				out.set(m.name, m.value)
			}
		case m.name == "enum":
			lost = append(lost, g.enum(out, kind, m.value))
		case m.name == "format" && geminiFormats[kind][m.value.str()]:
			out.set("format", m.value)
		case m.name == "properties":
			out.set("properties", g.properties(m.value))
		case m.name == "required":
		case m.name == "items" && !m.value.is("false"):
			out.set("items", g.schema(m.value))
		case m.name == "exclusiveMinimum":
			lost = append(lost, bound(out, kind, "minimum", 1, p, m))
		case m.name == "exclusiveMaximum":
			lost = append(lost, bound(out, kind, "maximum", -1, p, m))
		default:
			lost = append(lost, words(m.name, m.value))
		}
	}
	if kind == "array" && !out.has("items") {
		out.set("items", g.schema(object()))
	}
	if kind == "object" && !out.has("properties") {
		out.set("properties", object())
	}
	// Google refuses a name that is not among the properties.
	known := out.get("properties").memberSet()
	names := slices.DeleteFunc(p.get("required").names(), func(name string) bool { return !known[name] })
	if len(names) > 0 {
		out.set("required", textList(names))
	}
	tell(out, append(lost, rules...)...)
	return out
}

func (g *gemini) properties(n *node) *node {
	out := object()
	for _, m := range n.members {
		if not := m.value.get("not"); not != nil && len(not.list()) == 0 && len(m.value.members) == 1 {
			continue // one that must not be there
		}
		out.members = append(out.members, member{m.name, g.schema(m.value)})
	}
	return out
}

// enum writes the values of a string, which may not be empty there; of another
// type they are told.
func (g *gemini) enum(out *node, kind string, values *node) (lost string) {
	if kind == "string" {
		full := slices.DeleteFunc(slices.Clone(values.items), func(v *node) bool { return v.str() == "" })
		if len(full) == len(values.items) {
			out.set("enum", values)
			return ""
		}
		return words("enum", values)
	}
	if len(values.items) > 1 {
		return words("enum", values)
	}
	if kind == "integer" || kind == "number" {
		out.set("minimum", values.items[0])
		out.set("maximum", values.items[0])
	}
	return words("const", values.items[0])
}

// bound turns an exclusive bound into an inclusive one: by one for an integer;
// for other numbers the rest is told.
func bound(out *node, kind, name string, step int64, p *node, m member) (lost string) {
	limit, ok := rational(m.value)
	if !ok {
		return words(m.name, m.value)
	}
	if kind == "integer" {
		whole := new(big.Int).Div(limit.Num(), limit.Denom()) // rounds down
		if step > 0 {
			whole.Add(whole, big.NewInt(1))
		} else if limit.IsInt() {
			whole.Sub(whole, big.NewInt(1))
		}
		limit = new(big.Rat).SetInt(whole)
		m.value = scalar(whole.String())
	} else {
		lost = words(m.name, m.value)
	}
	// The stricter of two bounds stays.
	old, ok := rational(p.get(name))
	if !ok || limit.Cmp(old)*int(step) > 0 {
		out.set(name, m.value)
	}
	return lost
}

// rational reads a number of a sensible size exactly.
func rational(n *node) (*big.Rat, bool) {
	if !n.isNumber() || len(n.raw) > 40 {
		return nil, false
	}
	if i := strings.IndexAny(n.raw, "eE"); i >= 0 && len(n.raw)-i > 4 {
		return nil, false // an exponent that big would fill the memory
	}
	return new(big.Rat).SetString(n.raw)
}
