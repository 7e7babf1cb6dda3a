package mcp

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/tidwall/gjson"
)

const (
	// maxDescription is OpenAI's limit for a function's description, in
	// characters; a longer one makes the provider refuse the whole request.
	maxDescription = 1024
	// maxSchema bounds one tool's input schema, in bytes: a larger one costs
	// more of the model's context than the tool is worth.
	maxSchema = 128 << 10
	// emptySchema stands in for a missing one.
	emptySchema = `{"type":"object","properties":{}}`
	maxProblems = 5
)

// tool is one tool as its server lists it; immutable.
type tool struct {
	name        string // the server's own
	raw         string // the whole listing, to notice changes
	description string
	parameters  string // the input schema as the model sees it, raw JSON
	// repeatable: the server says that a second run of the same call does no
	// harm (annotations readOnlyHint or idempotentHint).
	repeatable bool

	input  *jsonschema.Schema // nil: arguments are not validated
	output *jsonschema.Schema // nil: results are not validated
}

func newTool(raw gjson.Result, log *slog.Logger) (*tool, error) {
	schema := raw.Get("inputSchema")
	if len(schema.Raw) > maxSchema {
		return nil, fmt.Errorf("input schema of %d bytes is over the limit of %d", len(schema.Raw), maxSchema)
	}
	t := &tool{
		name:       raw.Get("name").String(),
		raw:        raw.Raw,
		parameters: parameters(schema),
		repeatable: raw.Get("annotations.readOnlyHint").Bool() || raw.Get("annotations.idempotentHint").Bool(),
	}
	t.description = shorten(cmp.Or(raw.Get("description").String(), raw.Get("title").String(), raw.Get("annotations.title").String()))
	var err error
	if schema.IsObject() {
		if t.input, err = compile(schema.Raw); err != nil {
			log.Warn("input schema does not compile; arguments go to the server unchecked", "tool", t.name, "error", err)
		}
	}
	if out := raw.Get("outputSchema"); out.IsObject() {
		if t.output, err = compile(out.Raw); err != nil {
			log.Debug("output schema does not compile", "tool", t.name, "error", err)
		}
	}
	return t, nil
}

// parameters makes function parameters of an input schema, whose bytes stay as
// the server sent them. Providers refuse a root that is not an object schema
// with properties, and with it the whole request, so these two are added.
func parameters(schema gjson.Result) string {
	kind := schema.Get("type")
	if !schema.IsObject() || kind.Exists() && kind.String() != "object" {
		return emptySchema
	}
	var add []string
	if !kind.Exists() {
		add = append(add, `"type":"object"`)
	}
	if !schema.Get("properties").IsObject() && !schema.Get("properties").Exists() {
		add = append(add, `"properties":{}`)
	}
	if add == nil {
		return schema.Raw
	}
	body := strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(schema.Raw), "}"))
	if body != "{" {
		body += ","
	}
	return body + strings.Join(add, ",") + "}"
}

// shorten bounds a description to maxDescription characters.
func shorten(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if utf8.RuneCountInString(s) <= maxDescription {
		return s
	}
	return string([]rune(s)[:maxDescription-1]) + "…"
}

// noLoader refuses references to other documents: a server must not make this
// process read a file or a URL.
type noLoader struct{}

func (noLoader) Load(string) (any, error) {
	return nil, errors.New("references to other documents are not loaded")
}

func compile(schema string) (s *jsonschema.Schema, err error) {
	defer func() {
		if r := recover(); r != nil { // a schema from outside must not end the process
			s, err = nil, fmt.Errorf("schema compiler: %v", r)
		}
	}()
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(schema))
	if err != nil {
		return nil, err
	}
	const url = "mcp:///schema.json"
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020) // 2025-11-25, "Tools": the default dialect
	c.UseLoader(noLoader{})
	if err := c.AddResource(url, doc); err != nil {
		return nil, err
	}
	return c.Compile(url)
}

// errArguments is what the model is told about arguments that do not fit.
type errArguments struct{ problems []string }

func (e *errArguments) Error() string { return strings.Join(e.problems, "; ") }

// arguments makes tools/call arguments of what the model wrote. Blanks and null
// mean no arguments. The bytes stay as the model wrote them.
func (t *tool) arguments(text string) (json.RawMessage, error) {
	text = strings.TrimSpace(text)
	if text == "" || text == "null" {
		text = "{}"
	}
	if !gjson.Valid(text) {
		return nil, &errArguments{[]string{"the arguments are not valid JSON"}}
	}
	if !gjson.Parse(text).IsObject() {
		return nil, &errArguments{[]string{"the arguments must be one JSON object"}}
	}
	if t.input != nil {
		if problems := violations(t.input, text); problems != nil {
			return nil, &errArguments{problems}
		}
	}
	return json.RawMessage(text), nil
}

// violations lists where a JSON text does not fit a schema; nil if it does.
func violations(schema *jsonschema.Schema, text string) []string {
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		return []string{"not valid JSON"}
	}
	var invalid *jsonschema.ValidationError
	if !errors.As(validate(schema, value), &invalid) {
		return nil
	}
	var problems []string
	for _, unit := range invalid.BasicOutput().Errors {
		if unit.Error == nil || len(problems) == maxProblems {
			continue
		}
		problems = append(problems, fmt.Sprintf("%s: %s", cmp.Or(unit.InstanceLocation, "(root)"), cutText(unit.Error.String(), maxErrorText)))
	}
	if problems == nil {
		problems = []string{cutText(invalid.Error(), maxErrorText)}
	}
	return problems
}

// validate stops a panic of the validator: what it cannot handle is left to the
// server, as with a schema that does not compile.
func validate(schema *jsonschema.Schema, value any) (err error) {
	defer func() {
		if recover() != nil {
			err = nil
		}
	}()
	return schema.Validate(value)
}

// function is the tool as an element of the request's tools.
func (t *tool) function(name string) []byte {
	var b bytes.Buffer
	b.WriteString(`{"type":"function","function":{"name":"`)
	b.WriteString(name)
	b.WriteString(`","description":`)
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(t.description) // a string always encodes
	b.Truncate(b.Len() - 1)           // the encoder's newline
	b.WriteString(`,"parameters":`)
	b.WriteString(t.parameters)
	b.WriteString(`}}`)
	return b.Bytes()
}
