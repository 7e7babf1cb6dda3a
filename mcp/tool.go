package mcp

import (
	"bytes"
	"cmp"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"

	"github.com/tidwall/gjson"

	"github.com/mcp-via-llm/mcp-via-llm/schema"
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
	schema      string // the input schema as the server sent it, "" if there is none
	// readOnly: the server says that a call changes nothing (annotations
	// readOnlyHint).
	readOnly bool
	// repeatable: the server says that a second run of the same call does no
	// harm (annotations readOnlyHint or idempotentHint).
	repeatable bool
	// headers: an argument goes out as a header too (2026-07-28, "Mcp-Param-{Name}").
	headers bool

	input  *schema.Checker // nil: arguments are not validated
	output *schema.Checker // nil: results are not validated

	// functions holds what the tool is in each schema dialect that was asked for: of
	// schema.Dialect to func() converted.
	functions *sync.Map

	uri      string       // of a resource or template
	template *uriTemplate // of a template
	text     string       // of a system prompt
}

func newTool(raw gjson.Result, log *slog.Logger) (*tool, error) {
	input := raw.Get("inputSchema")
	original, err := schema.Original(input.Raw)
	if err != nil {
		return nil, err
	}
	t := &tool{
		kind:        KindTool,
		name:        raw.Get("name").String(),
		raw:         raw.Raw,
		schema:      input.Raw,
		description: cmp.Or(raw.Get("description").String(), raw.Get("title").String(), raw.Get("annotations.title").String()),
		readOnly:    raw.Get("annotations.readOnlyHint").Type == gjson.True,
		headers:     strings.Contains(raw.Raw, "x-mcp-header"),
		functions:   new(sync.Map),
	}
	t.repeatable = t.readOnly || raw.Get("annotations.idempotentHint").Type == gjson.True
	// Without a schema of an object the tool is worth offering all the same, and
	// only its server can say whether a call is good.
	switch {
	case original != "" && schema.Cyclic(original):
		log.Warn("input schema refers to itself without end; arguments go to the server unchecked", "tool", t.name)
	case original != "":
		t.input = schema.NewChecker(original)
		t.input.Bad = func(err error) {
			log.Warn("input schema does not compile; arguments go to the server unchecked", "tool", t.name, "error", err)
		}
	case input.Exists():
		log.Warn("input schema is not one of an object; the tool is offered without parameters", "tool", t.name)
	}
	if out := raw.Get("outputSchema"); out.IsObject() && len(out.Raw) <= schema.MaxInput {
		t.output = schema.NewChecker(out.Raw)
		t.output.Bad = func(err error) {
			log.Debug("output schema does not compile", "tool", t.name, "error", err)
		}
	}
	return t, nil
}

// converted is a tool in a schema dialect; the function is nil if it cannot be
// offered.
type converted struct {
	function *schema.Function
	work     int
}

// in converts the tool. It is done once, and the log hears once what the provider
// does not get.
func (t *tool) in(dialect schema.Dialect, log *slog.Logger) converted {
	once, _ := t.functions.LoadOrStore(dialect, sync.OnceValue(func() converted {
		f, work, err := schema.Convert(dialect, t.description, t.schema)
		if err != nil {
			log.Warn("tool left out", "kind", t.kind, "tool", t.name, "schema_dialect", dialect, "error", err)
			return converted{nil, work}
		}
		for _, note := range f.Notes {
			log.Info("tool offered otherwise than its server says", "kind", t.kind, "tool", t.name, "schema_dialect", dialect, "note", note)
		}
		return converted{f, work}
	}))
	return once.(func() converted)()
}

// cheap reports whether the schema can cost only little, whatever is in it: it is
// small, and has no references.
func (t *tool) cheap() bool {
	return len(t.schema) < 2<<10 && !strings.Contains(t.schema, `ef"`) // $ref, $dynamicRef, $recursiveRef
}

// element is a function as an element of the request's tools.
func element(name string, f *schema.Function) []byte {
	strict := ""
	if f.Strict {
		strict = `,"strict":true`
	}
	return []byte(`{"type":"function","function":{"name":"` + name + `","description":` + encode(f.Description) + `,"parameters":` + f.Parameters + strict + `}}`)
}

// encode is a value as JSON, in which <, > and & stay as they are.
func encode(value any) string {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(value) // strings, numbers and lists of them always encode
	return string(bytes.TrimSuffix(b.Bytes(), []byte("\n")))
}
