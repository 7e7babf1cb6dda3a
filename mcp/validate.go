package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

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

// maxSteps bounds one validation, in schemas that are looked at: references can
// make a small schema branch without end. A list of 10,000 objects takes 100,000.
const maxSteps = 500_000

// checker validates by a compiled schema, one value at a time.
type checker struct {
	schema *jsonschema.Schema
	mu     sync.Mutex
	left   int // steps
}

// Validate implements [jsonschema.SchemaExt]: the compiler puts it into every
// schema, and the validator calls it for every value.
func (c *checker) Validate(*jsonschema.ValidatorContext, any) {
	if c.left--; c.left < 0 {
		panic(errCostly)
	}
}

var errCostly = errors.New("the schema takes too many steps")

func compile(schema string) (c *checker, err error) {
	defer func() {
		if r := recover(); r != nil { // a schema from outside must not end the process
			c, err = nil, fmt.Errorf("schema compiler: %v", r)
		}
	}()
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(schema))
	if err != nil {
		return nil, err
	}
	const url = "mcp:///schema.json"
	c = &checker{}
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020) // 2025-11-25, "Tools": the default dialect
	compiler.UseLoader(noLoader{})
	compiler.RegisterVocabulary(&jsonschema.Vocabulary{
		URL:     "mcp:///steps",
		Compile: func(*jsonschema.CompilerContext, map[string]any) (jsonschema.SchemaExt, error) { return c, nil },
	})
	compiler.AssertVocabs()
	if err := compiler.AddResource(url, doc); err != nil {
		return nil, err
	}
	c.schema, err = compiler.Compile(url)
	if err != nil {
		return nil, err
	}
	return c, nil
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
		if problems := t.input.violations(text); problems != nil {
			return nil, &errArguments{problems}
		}
	}
	if _, err := t.address(json.RawMessage(text)); err != nil {
		return nil, err
	}
	return json.RawMessage(text), nil
}

// violations lists where a JSON text does not fit a schema; nil if it does.
func (c *checker) violations(text string) []string {
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		return []string{"not valid JSON"}
	}
	var invalid *jsonschema.ValidationError
	if !errors.As(c.validate(value), &invalid) {
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
func (c *checker) validate(value any) (err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left = maxSteps
	defer func() {
		if recover() != nil {
			err = nil
		}
	}()
	return c.schema.Validate(value)
}
