package schema

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"
)

var propertyNames = []string{"a", "b", "type", "$ref", "format", "filter[x]"}

// anySchema draws a schema, with what servers get wrong now and then. A plain one
// has no alternatives at its root.
func anySchema(levels int, plain bool) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		var words []string
		add := func(format string, args ...any) { words = append(words, fmt.Sprintf(format, args...)) }
		kind := rapid.SampledFrom([]string{"", "string", "integer", "number", "boolean", "array", "object", "null", "list"}).Draw(t, "kind")
		switch kind {
		case "":
		case "list":
			add(`"type":%s`, rapid.SampledFrom([]string{`["null","array"]`, `["integer","string"]`, `["object","string","null"]`}).Draw(t, "list"))
		default:
			add(`"type":%q`, kind)
		}
		for _, word := range []string{`"minLength":1`, `"exclusiveMinimum":0`, `"format":"uri"`, `"enum":["x",1,null]`, `"const":true`, `"description":"D"`,
			`"description":null`, `"default":{"$ref":"#"}`, `"uniqueItems":true`, `"additionalProperties":false`, `"required":["a"]`, `"required":["b","gone"]`, `"nullable":true`, `"title":"T"`, `"x-own":[]`} {
			if rapid.IntRange(0, 7).Draw(t, "has") == 7 && !slices.ContainsFunc(words, func(w string) bool { return strings.Split(w, ":")[0] == strings.Split(word, ":")[0] }) {
				words = append(words, word)
			}
		}
		if levels > 0 {
			inner := anySchema(levels-1, false)
			list := func() string { return strings.Join(rapid.SliceOfN(inner, 1, 3).Draw(t, "list"), ",") }
			for _, word := range []string{"properties", "items", "anyOf", "oneOf", "allOf", "not", "if", "prefixItems", "$ref", "additionalProperties"} {
				if plain && !slices.Contains([]string{"properties", "items", "prefixItems", "additionalProperties"}, word) {
					continue
				}
				if rapid.IntRange(0, 5).Draw(t, word) != 5 {
					continue
				}
				switch word {
				case "properties":
					var all []string
					for _, name := range propertyNames[:rapid.IntRange(0, len(propertyNames)).Draw(t, "names")] {
						all = append(all, fmt.Sprintf(`%q:%s`, name, inner.Draw(t, name)))
					}
					add(`"properties":{%s}`, strings.Join(all, ","))
				case "items", "not":
					add(`%q:%s`, word, inner.Draw(t, word))
				case "if":
					add(`"if":%s,"then":%s`, inner.Draw(t, "if"), inner.Draw(t, "then"))
				case "$ref":
					add(`"$ref":%q`, rapid.SampledFrom([]string{"#", "#/$defs/d", "#/$defs/e", "#/properties/a", "https://example.com/"}).Draw(t, "ref"))
				case "additionalProperties":
					if !slices.Contains(words, `"additionalProperties":false`) {
						add(`"additionalProperties":%s`, inner.Draw(t, word))
					}
				default:
					add(`%q:[%s]`, word, list())
				}
			}
		}
		return "{" + strings.Join(words, ",") + "}"
	})
}

func anyRoot(plain bool) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		root := strings.TrimSuffix(anySchema(3, plain).Filter(func(s string) bool { return s != "{}" }).Draw(t, "root"), "}")
		return root + fmt.Sprintf(`,"$defs":{"d":%s,"e":%s}}`, anySchema(2, false).Draw(t, "d"), anySchema(1, false).Draw(t, "e"))
	})
}

// What comes out is what the dialect's provider takes.
func TestDialectsHold(t *testing.T) {
	checks := map[Dialect]func(*node) error{
		OpenAI: openAIHolds, Anthropic: openAIHolds, Mistral: openAIHolds, Gemini: geminiHolds,
		OpenAIStrict: openAIHolds, Permissive: func(*node) error { return nil },
	}
	rapid.Check(t, func(t *rapid.T) {
		in := anyRoot(false).Draw(t, "schema")
		for d, check := range checks {
			f, _, err := Convert(Dialect(d), "d", in)
			if err != nil {
				t.Fatalf("%s: %v", d, err)
			}
			if again, _, _ := Convert(d, "d", in); again.Parameters != f.Parameters || again.Description != f.Description {
				t.Fatalf("%s: differs from time to time: %s, %s", d, f.Parameters, again.Parameters)
			}
			if f.Strict {
				check = strictHolds
			}
			n, err := parse(f.Parameters)
			if err != nil || !n.get("properties").isObject() || !slices.Contains(n.types(), "object") || d != Permissive && len(n.types()) != 1 {
				t.Fatalf("%s: %v: %s", d, err, f.Parameters)
			}
			if err := check(n); err != nil {
				t.Fatalf("%s: %v: %s", d, err, f.Parameters)
			}
			if d != OpenAI {
				continue
			}
			if again, _, err := Convert(d, "d", f.Parameters); err != nil || again.Parameters != f.Parameters {
				t.Fatalf("a schema that is fine does not stay: %v\n%s\n%s", err, f.Parameters, again.Parameters)
			}
		}
	})
}

func openAIHolds(root *node) (err error) {
	for _, word := range []string{"anyOf", "oneOf", "allOf", "not", "enum", "const"} {
		if root.has(word) {
			return fmt.Errorf("%s at the root", word)
		}
	}
	root.every(func(n *node) {
		types := n.types()
		switch {
		case slices.Contains(types, "object") && !n.get("properties").isObject():
			err = fmt.Errorf("object without properties: %s", n)
		case slices.Contains(types, "array") && !n.has("items"):
			err = fmt.Errorf("array without items: %s", n)
		case refOf(n) != "":
			err = fmt.Errorf("reference: %s", n)
		case n.get("description").is("null"):
			err = fmt.Errorf("no description: %s", n)
		}
	})
	return err
}

func geminiHolds(root *node) (err error) {
	known := setOf([]string{"type", "format", "title", "description", "nullable", "enum", "maxItems", "minItems", "properties", "required", "minProperties", "maxProperties",
		"minLength", "maxLength", "pattern", "example", "anyOf", "default", "items", "minimum", "maximum"})
	root.every(func(n *node) {
		for _, m := range n.members {
			if !known[m.name] {
				err = fmt.Errorf("%s: %s", m.name, n)
			}
		}
		kind := n.get("type").str()
		properties := n.get("properties").memberSet()
		switch {
		case n.has("anyOf"):
			if len(n.members) > 1 {
				err = fmt.Errorf("more than anyOf: %s", n)
			}
		case kind == "" || kind == "null":
			err = fmt.Errorf("no type: %s", n)
		case kind == "array" != n.has("items"), kind == "object" != n.has("properties"), kind != "string" && n.has("enum"):
			err = fmt.Errorf("does not fit its type: %s", n)
		case slices.ContainsFunc(n.get("required").names(), func(name string) bool { return !properties[name] }):
			err = fmt.Errorf("requires what it does not have: %s", n)
		case n.has("format") && !geminiFormats[kind][n.get("format").str()]:
			err = fmt.Errorf("format: %s", n)
		}
	})
	return err
}

func strictHolds(root *node) (err error) {
	known := setOf([]string{"type", "description", "properties", "required", "additionalProperties", "items", "anyOf", "enum", "pattern", "format", "minimum", "maximum",
		"exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minItems", "maxItems"})
	root.every(func(n *node) {
		for _, m := range n.members {
			if !known[m.name] {
				err = fmt.Errorf("%s: %s", m.name, n)
			}
		}
		types := n.types()
		switch {
		case types == nil && !n.has("anyOf"):
			err = fmt.Errorf("no type: %s", n)
		case !slices.Contains(types, "object"):
		case !n.get("additionalProperties").is("false") || len(n.get("required").names()) != len(n.get("properties").members):
			err = fmt.Errorf("not closed: %s", n)
		}
	})
	return err
}

func anyValue(levels int) *rapid.Generator[any] {
	return rapid.Custom(func(t *rapid.T) any {
		kinds := 6
		if levels == 0 {
			kinds = 4
		}
		switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
		case 0:
			return rapid.SampledFrom([]any{"", "x", true, false}).Draw(t, "word")
		case 1:
			return json.Number(rapid.SampledFrom([]string{"0", "1", "2.5"}).Draw(t, "number"))
		case 2:
			return nil
		case 3:
			return "x"
		case 4:
			return rapid.SliceOfN(anyValue(levels-1), 0, 2).Draw(t, "list")
		}
		return anyArguments(levels-1).Draw(t, "object")
	})
}

func anyArguments(levels int) *rapid.Generator[map[string]any] {
	return rapid.MapOfN(rapid.SampledFrom(propertyNames), anyValue(levels), 0, 3)
}

func accepts(t *rapid.T, schema string, v any) bool {
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(schema))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("mem:///s", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("mem:///s")
	if err != nil {
		t.Skip("not a schema:", err)
	}
	return s.Validate(v) == nil
}

// Whatever arguments a tool takes, the model can give, if the root is no
// alternative: a rule may be forgotten, and none is added.
func TestNothingMoreIsForbidden(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := strings.NewReplacer(`"description":null,`, "", `,"description":null`, "", `"$ref":"https://example.com/"`, `"title":"gone"`).Replace(anyRoot(true).Draw(t, "schema"))
		if strings.Contains(in, `"description":null`) {
			t.Skip()
		}
		original, err := Original(in)
		if err != nil || original == "" {
			t.Skip()
		}
		f, _, err := Convert(OpenAI, "", in)
		if err != nil {
			t.Fatal(err)
		}
		for range 5 {
			if v := anyArguments(2).Draw(t, "arguments"); accepts(t, original, v) && !accepts(t, f.Parameters, v) {
				t.Fatalf("%v is forbidden by %s", v, f.Parameters)
			}
		}
	})
}
