package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"
)

const chart = "../mcp-via-llm/"

var (
	blocks  = regexp.MustCompile("(?s)```yaml\n(.*?)```")
	snippet = regexp.MustCompile("`([^`\n]+)`")
	dotted  = regexp.MustCompile(`^[a-z]\w*(\.[\w*]+)+$`)
	others  = regexp.MustCompile(`^(envoy\.filters\..*|tls\.(crt|key))$`) // a filter of Envoy's, keys of a Secret
)

// TestDocs asserts that the values which the documentation names are there: those in examples by the chart's schema, and
// those that are named as a.b.c by the keys of values.yaml and the schema.
func TestDocs(t *testing.T) {
	var values map[string]any
	if err := yaml.Unmarshal(read(t, chart+"values.yaml"), &values); err != nil {
		t.Fatal(err)
	}
	schema, err := jsonschema.NewCompiler().Compile(chart + "values.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	examples, names := 0, 0
	for _, page := range []string{"install", "envoy", "upgrade"} {
		text := string(read(t, "../../docs/"+page+".md"))
		var yamls []string
		for _, m := range blocks.FindAllStringSubmatch(text, -1) {
			yamls = append(yamls, m[1])
		}
		for _, m := range snippet.FindAllStringSubmatch(blocks.ReplaceAllString(text, ""), -1) {
			if dotted.MatchString(m[1]) && !others.MatchString(m[1]) && values[strings.Split(m[1], ".")[0]] != nil {
				if names++; !known(schema, strings.Split(m[1], ".")) {
					t.Errorf("%s.md: there is no value %s", page, m[1])
				}
			}
			yamls = append(yamls, m[1])
		}
		for _, y := range yamls {
			resources, err := documents([]byte(y))
			if err != nil || len(resources) != 1 || !among(resources[0], values) {
				continue // no example of values
			}
			examples++
			if err := schema.Validate(map[string]any(resources[0])); err != nil {
				t.Errorf("%s.md: %s: %v", page, y, err)
			}
		}
	}
	if examples < 15 || names < 15 {
		t.Errorf("only %d examples and %d names were found", examples, names)
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(filepath.FromSlash(path))
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// among says whether a text is an example of values: routes are Envoy's as well, whose routes have a match.
func among(example resource, values map[string]any) bool {
	for key := range example {
		if _, ok := values[key]; !ok {
			return false
		}
	}
	routes, _ := example["routes"].([]any)
	for _, r := range routes {
		if route, ok := r.(map[string]any); ok && route["match"] != nil {
			return false
		}
	}
	return len(example) > 0
}

// known says whether a schema has a path of keys; * stands for any.
func known(schema *jsonschema.Schema, path []string) bool {
	for schema.Ref != nil {
		schema = schema.Ref
	}
	if len(path) == 0 || path[0] == "*" && len(path) == 1 {
		return true
	}
	if inside := schema.Properties[path[0]]; inside != nil {
		return known(inside, path[1:])
	}
	for _, inside := range schema.PatternProperties {
		return known(inside, path[1:])
	}
	inside, ok := schema.AdditionalProperties.(*jsonschema.Schema)
	return ok && known(inside, path[1:])
}
