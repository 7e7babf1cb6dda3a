package schema

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

const (
	// maxProblems bounds what is said of one value, maxProblem each problem, in
	// characters.
	maxProblems = 5
	maxProblem  = 300
	// maxSteps bounds one validation, in schemas that are looked at: references can
	// make a small schema branch without end. A list of 10,000 objects takes 100,000.
	maxSteps = 200_000
)

// noLoader refuses references to other documents: a server must not make this
// process read a file or a URL.
type noLoader struct{}

func (noLoader) Load(string) (any, error) {
	return nil, errors.New("references to other documents are not loaded")
}

// Checker validates by a schema, one value at a time. The schema is compiled when
// it is first needed: most tools of a large server are never called.
type Checker struct {
	// Formats says that formats count, not only as annotations. Bad hears why the
	// schema does not compile. Both may be set before the first use.
	Formats bool
	Bad     func(error)

	mu     sync.Mutex
	text   string
	schema *jsonschema.Schema
	left   int // steps
}

// NewChecker makes a checker of a schema, which is raw JSON.
func NewChecker(schema string) *Checker { return &Checker{text: schema} }

// Problems lists where a value, which is raw JSON, does not fit; none if it does.
// It does, too, if the schema does not compile, refers to itself without end or takes
// too many steps: the server must decide then.
func (c *Checker) Problems(value string) []string {
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(value))
	if err != nil {
		return []string{"not valid JSON"}
	}
	var invalid *jsonschema.ValidationError
	if !errors.As(c.validate(v), &invalid) {
		return nil
	}
	problems, cyclic := leaves(invalid, nil)
	if cyclic {
		return nil
	}
	return problems
}

func (c *Checker) validate(value any) (err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.ready() {
		return nil
	}
	c.left = maxSteps
	defer func() {
		if recover() != nil { // what the validator cannot handle is left to the server
			err = nil
		}
	}()
	return c.schema.Validate(value)
}

// ready compiles the schema, and reports whether there is one to validate by; c.mu
// must be held.
func (c *Checker) ready() bool {
	if c.text != "" {
		var err error
		if c.schema, err = c.compile(); err != nil && c.Bad != nil {
			c.Bad(err)
		}
		c.text = ""
	}
	return c.schema != nil
}

func (c *Checker) compile() (s *jsonschema.Schema, err error) {
	defer func() {
		if r := recover(); r != nil { // a schema from outside must not end the process
			s, err = nil, fmt.Errorf("schema compiler: %v", r)
		}
	}()
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(tolerant(c.text)))
	if err != nil {
		return nil, err
	}
	const url = "mcp:///schema.json"
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020) // MCP 2025-11-25, "Tools" and "Elicitation": the default dialect
	compiler.UseLoader(noLoader{})
	if c.Formats {
		compiler.AssertFormat()
	}
	compiler.RegisterVocabulary(&jsonschema.Vocabulary{
		URL: "mcp:///steps",
		Compile: func(*jsonschema.CompilerContext, map[string]any) (jsonschema.SchemaExt, error) {
			return (*steps)(c), nil
		},
	})
	compiler.AssertVocabs()
	if err := compiler.AddResource(url, doc); err != nil {
		return nil, err
	}
	return compiler.Compile(url)
}

// steps counts: the compiler puts it into every schema, and the validator calls it
// for every value.
type steps Checker

var errCostly = errors.New("the schema takes too many steps")

// Validate implements [jsonschema.SchemaExt].
func (s *steps) Validate(*jsonschema.ValidatorContext, any) {
	if s.left--; s.left < 0 {
		panic(errCostly)
	}
}

var english = message.NewPrinter(language.English)

// leaves collects the problems that have no further cause, up to maxProblems. cyclic
// says that one of them is the schema's own, see [Cyclic].
func leaves(e *jsonschema.ValidationError, problems []string) (all []string, cyclic bool) {
	for _, cause := range e.Causes {
		var here bool
		problems, here = leaves(cause, problems)
		cyclic = cyclic || here
	}
	if _, here := e.ErrorKind.(*kind.RefCycle); here {
		cyclic = true
	}
	if len(e.Causes) > 0 || len(problems) == maxProblems {
		return problems, cyclic
	}
	where := "(root)"
	if len(e.InstanceLocation) > 0 {
		where = "/" + strings.Join(e.InstanceLocation, "/")
	}
	problem := where + ": " + clip(problemOf(e.ErrorKind), maxProblem)
	if slices.Contains(problems, problem) {
		return problems, cyclic
	}
	return append(problems, problem), cyclic
}
