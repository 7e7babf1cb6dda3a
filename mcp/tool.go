package mcp

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/tidwall/gjson"
	"github.com/yosida95/uritemplate/v3"
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
)

// Kinds of what servers offer, see [Tool].
const (
	KindTool         = "tool"
	KindResource     = "resource"          // a function that reads it
	KindTemplate     = "resource_template" // a function that reads what its arguments name
	KindPrompt       = "prompt"            // a function that fills it in
	KindSystemPrompt = "system_prompt"     // no function: its text is in the leading system message
)

// tool is one tool as its server lists it, or a resource, a resource template or a
// prompt as a function; immutable.
type tool struct {
	kind        string
	name        string // the server's own
	raw         string // the whole listing, to notice changes
	description string
	parameters  string // the input schema as the model sees it, raw JSON
	// readOnly: the server says that a call changes nothing (annotations
	// readOnlyHint).
	readOnly bool
	// repeatable: the server says that a second run of the same call does no
	// harm (annotations readOnlyHint or idempotentHint).
	repeatable bool

	input  *jsonschema.Schema // nil: arguments are not validated
	output *jsonschema.Schema // nil: results are not validated

	uri      string                // of a resource or template
	template *uritemplate.Template // of a template
	text     string                // of a system prompt
}

func newTool(raw gjson.Result, log *slog.Logger) (*tool, error) {
	schema := raw.Get("inputSchema")
	if len(schema.Raw) > maxSchema {
		return nil, fmt.Errorf("input schema of %d bytes is over the limit of %d", len(schema.Raw), maxSchema)
	}
	t := &tool{
		kind:       KindTool,
		name:       raw.Get("name").String(),
		raw:        raw.Raw,
		parameters: parameters(schema),
		readOnly:   raw.Get("annotations.readOnlyHint").Bool(),
	}
	t.repeatable = t.readOnly || raw.Get("annotations.idempotentHint").Bool()
	t.description = shorten(cmp.Or(raw.Get("description").String(), raw.Get("title").String(), raw.Get("annotations.title").String()))
	var err error
	if schema.Exists() && !isObjectSchema(schema) {
		log.Warn("input schema is not one of an object; the tool is offered without parameters", "tool", t.name)
	}
	// What was offered is what counts. An input schema that is not one of an
	// object breaks MCP (2025-11-25, "Tools"), and no arguments fit it; but servers
	// that publish one seldom check it, so the tool is worth offering, and only its
	// server can say whether a call is good.
	if t.parameters != emptySchema {
		if t.input, err = compile(t.parameters); err != nil {
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
	if !isObjectSchema(schema) {
		return emptySchema
	}
	var add []string
	if !schema.Get("type").Exists() {
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

// isObjectSchema reports whether the root of an input schema is for an object, or
// says nothing else.
func isObjectSchema(schema gjson.Result) bool {
	kind := schema.Get("type")
	return schema.IsObject() && (!kind.Exists() || kind.String() == "object")
}

// shorten bounds a description to maxDescription characters.
func shorten(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if utf8.RuneCountInString(s) <= maxDescription {
		return s
	}
	return string([]rune(s)[:maxDescription-1]) + "…"
}

// function is the tool as an element of the request's tools.
func (t *tool) function(name string) []byte {
	return []byte(`{"type":"function","function":{"name":"` + name + `","description":` + encode(t.description) + `,"parameters":` + t.parameters + `}}`)
}

// encode is a value as JSON, in which <, > and & stay as they are.
func encode(value any) string {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(value) // strings, numbers and lists of them always encode
	return string(bytes.TrimSuffix(b.Bytes(), []byte("\n")))
}
