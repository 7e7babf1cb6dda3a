package schema

import (
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
)

// Dialect is what a provider takes as the parameters of a function.
type Dialect string

const (
	// OpenAI takes JSON Schema with a plain object at the root, properties in
	// every object and items in every array. Most providers and model servers do
	// with this.
	OpenAI Dialect = "openai"
	// OpenAIStrict is OpenAI's strict mode, for the tools that can have it; the
	// others are as with OpenAI.
	OpenAIStrict Dialect = "openai-strict"
	// Gemini is Google's Schema object, a part of OpenAPI 3.0.
	Gemini Dialect = "gemini"
	// Mistral is as OpenAI without "$schema", "$id" and their like.
	Mistral Dialect = "mistral"
	// Anthropic is as OpenAI with names of arguments that Anthropic takes.
	Anthropic Dialect = "anthropic"
	// Permissive leaves the schema as the server sent it, save that the root is
	// an object with properties.
	Permissive Dialect = "permissive"
)

// Dialects lists all.
func Dialects() []string {
	return []string{string(OpenAI), string(OpenAIStrict), string(Gemini), string(Mistral), string(Anthropic), string(Permissive)}
}

const (
	// MaxInput bounds the input schema of a tool, in bytes.
	MaxInput = 256 << 10
	// MaxBytes bounds what one function's description and parameters may have, in
	// bytes: a larger one costs more of the model's context than a tool is worth.
	// Descriptions inside the parameters are shortened to stay below; if that is
	// not enough, references are followed less deep; then the tool is left out.
	MaxBytes = 64 << 10

	// empty are the parameters of a function without any.
	empty = `{"type":"object","properties":{}}`
)

// maxDescription bounds a function's description by dialect, in characters.
// OpenAI documents 1024; longer ones have been refused for Gemini, and Mistral
// says nothing, so these have the same. Anthropic documents no limit.
var maxDescription = map[Dialect]int{OpenAI: 1024, OpenAIStrict: 1024, Gemini: 1024, Mistral: 1024, Anthropic: 8192, Permissive: MaxBytes}

// Function is a tool as a provider takes it; immutable.
type Function struct {
	Description string // "" for none
	Parameters  string // raw JSON
	Strict      bool   // "strict": true belongs to it
	// Notes say for the operator what the provider does not get.
	Notes []string

	back *back
}

// Convert makes a function of a tool's description and input schema, which is
// raw JSON, "" if there is none. A schema that is not one of an object counts as
// none. The outcome depends on nothing else. work says what it cost, in values that
// were handled, about a million a second on a busy core. An error says why the tool cannot be
// offered in this dialect.
func Convert(d Dialect, description, input string) (f *Function, work int, err error) {
	defer func() {
		if r := recover(); r != nil { // a schema from outside must not end the process
			f, work, err = nil, maxExpanded, fmt.Errorf("schema: %v at %s", r, clip(string(debug.Stack()), 2000))
		}
	}()
	if len(input) > MaxInput {
		return nil, 1, fmt.Errorf("input schema of %d bytes is over the limit of %d", len(input), MaxInput)
	}
	if _, known := maxDescription[d]; !known {
		return nil, 1, fmt.Errorf("no such schema dialect: %q", d)
	}
	description = strings.ToValidUTF8(description, "\uFFFD")
	input = strings.TrimSpace(wellFormed(input))
	input, original, ok, err := rootOf(input)
	if err != nil {
		return nil, 1, err
	}
	if !ok {
		return &Function{Description: clip(description, maxDescription[d]), Parameters: empty}, 1, nil
	}
	c := &converter{dialect: d, description: description, input: input, original: original, work: original.size(maxNodes)}
	f, err = c.fit()
	return f, c.work, err
}

// Original gives the schema by which arguments of a tool are validated: what the
// server sent, save that the root is an object; "" if there is none. An input
// schema that is not one of an object breaks MCP (2025-11-25, "Tools"), and no
// arguments fit it; but servers that publish one seldom check it. An error says
// why the tool cannot be offered at all.
func Original(input string) (string, error) {
	if len(input) > MaxInput {
		return "", fmt.Errorf("input schema of %d bytes is over the limit of %d", len(input), MaxInput)
	}
	input = strings.TrimSpace(input)
	input, root, ok, err := rootOf(input)
	if err != nil || !ok {
		return "", err
	}
	return minimum(input, root), nil
}

// rootOf parses an input schema; ok is false if there is none. The root's type is
// spelled as JSON Schema does it, also in the text that comes back.
func rootOf(input string) (text string, root *node, ok bool, err error) {
	if input == "" {
		return "", nil, false, nil
	}
	if root, err = parse(input); err != nil {
		return "", nil, false, err
	}
	if spellTypes(root) {
		input = root.String()
	}
	types := root.types()
	return input, root, root.isObject() && (types == nil || slices.Contains(types, "object")), nil
}

// minimum gives the schema with what no provider does without at the root.
func minimum(input string, root *node) string {
	var add []string
	if !root.has("type") {
		add = append(add, `"type":"object"`)
	}
	if !root.has("properties") {
		add = append(add, `"properties":{}`)
	}
	if add == nil {
		return input
	}
	body := strings.TrimSpace(strings.TrimSuffix(input, "}"))
	if body != "{" {
		body += ","
	}
	return body + strings.Join(add, ",") + "}"
}

// converter makes one function.
type converter struct {
	dialect     Dialect
	description string
	input       string
	original    *node
	work        int
}

// fit converts, and shortens until the function is within MaxBytes.
func (c *converter) fit() (*Function, error) {
	var size int
	for depth := maxRefs; depth > 0; depth /= 4 {
		f, tree, err := c.convert(depth)
		if errors.Is(err, errMany) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if f.size() <= MaxBytes {
			return f, nil
		}
		for _, limit := range []int{200, 60, 0} {
			tree.every(func(n *node) { cut(n, limit) })
			f.Parameters = tree.String()
			if size = f.size(); size <= MaxBytes {
				f.Notes = append(f.Notes, fmt.Sprintf("descriptions in the schema are cut at %d characters to stay within %d bytes", limit, MaxBytes))
				return f, nil
			}
		}
		if !hasRefs(c.original) {
			break
		}
	}
	if size == 0 {
		return nil, errMany
	}
	return nil, fmt.Errorf("schema of %d bytes without descriptions is over the limit of %d", size, MaxBytes)
}

func (f *Function) size() int { return len(f.Description) + len(f.Parameters) }

// cut bounds a schema's description; 0 removes it.
func cut(n *node, limit int) {
	said := n.get("description")
	switch {
	case !said.isString():
	case limit == 0:
		n.take("description")
	default:
		n.set("description", text(clip(said.str(), limit)))
	}
}

// convert makes the function, following references depth deep. It returns the
// tree of the parameters too.
func (c *converter) convert(depth int) (*Function, *node, error) {
	root, size, err := inline(c.original, depth, c.dialect == Gemini)
	c.work += size
	if err != nil {
		return nil, nil, err
	}
	repair(root)
	rules := flatten(root)
	root.set("type", text("object"))
	root.take("nullable") // arguments are an object
	if c.dialect == Permissive {
		f := &Function{Description: clip(c.description, maxDescription[c.dialect]), Parameters: minimum(c.input, c.original), back: backOf(root)}
		tree, err := parse(f.Parameters)
		return f, tree, err
	}
	f := &Function{Description: c.describe(rules.rules)}
	if c.dialect == Anthropic {
		f.back = rename(root)
	} else {
		f.back = backOf(root)
	}
	if c.dialect == OpenAIStrict {
		st := &strict{shaper: shaper{left: maxExpanded}}
		tree, err := st.root(root.copy(), rules.names)
		c.work += maxExpanded - st.left
		if err == nil {
			f.Strict, f.Parameters = true, tree.String()
			return f, tree, nil
		}
		f.Notes = append(f.Notes, "not in strict mode: "+err.Error())
	}
	switch c.dialect {
	case Gemini:
		g := &gemini{shaper{left: maxExpanded}}
		root = g.schema(root)
		if c.work += maxExpanded - g.left; g.left < 0 {
			return nil, nil, errMany
		}
	case Mistral:
		root.every(func(n *node) {
			for _, name := range []string{"$schema", "$id", "$anchor", "$dynamicAnchor", "$vocabulary", "$comment"} {
				n.take(name)
			}
		})
	}
	root.every(complete)
	if f.Parameters = root.String(); f.Parameters == c.original.String() {
		f.Parameters = c.input // byte for byte
	}
	return f, root, nil
}

// describe adds the rules to the function's description, which gives way to them.
func (c *converter) describe(rules []string) string {
	limit := maxDescription[c.dialect]
	if len(rules) == 0 {
		return clip(c.description, limit)
	}
	for i, rule := range rules {
		rules[i] = sentence(rule)
	}
	told := clip(strings.Join(rules, " "), limit/2)
	if c.description == "" {
		return told
	}
	return clip(c.description, limit-len([]rune(told))-1) + "\n" + told
}

// complete adds what providers miss: "object schema missing properties" and
// "array schema missing items" refuse the whole request.
func complete(n *node) {
	types := n.types()
	if slices.Contains(types, "object") && !n.has("properties") {
		n.set("properties", object())
	}
	if slices.Contains(types, "array") && !n.has("items") {
		n.set("items", object())
	}
}
