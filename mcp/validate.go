package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/tidwall/gjson"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// maxProblems bounds what the model is told about one set of arguments.
const maxProblems = 5

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
	if !validJSON([]byte(text)) {
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
	if _, err := t.address(json.RawMessage(text)); err != nil {
		return nil, err
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
	return leaves(invalid, nil)
}

var english = message.NewPrinter(language.English)

// leaves collects the violations that have no further cause, up to maxProblems.
func leaves(e *jsonschema.ValidationError, problems []string) []string {
	for _, cause := range e.Causes {
		problems = leaves(cause, problems)
	}
	if len(e.Causes) > 0 || len(problems) == maxProblems {
		return problems
	}
	where := "(root)"
	if len(e.InstanceLocation) > 0 {
		where = "/" + strings.Join(e.InstanceLocation, "/")
	}
	problem := where + ": " + cutText(e.ErrorKind.LocalizedString(english), maxErrorText)
	if slices.Contains(problems, problem) {
		return problems
	}
	return append(problems, problem)
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
