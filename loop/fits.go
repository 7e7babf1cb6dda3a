package loop

import (
	"errors"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// noLoader refuses references to other documents: a server must not make this
// process read a file or a URL.
type noLoader struct{}

func (noLoader) Load(string) (any, error) {
	return nil, errors.New("references to other documents are not loaded")
}

// fits says whether a JSON value fits a schema. A schema that cannot be used is
// fitted by anything: it is the server's to refuse then.
func fits(schema, value string) (ok bool) {
	defer func() { ok = recover() != nil || ok }() // a schema from outside must not end the process
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(schema))
	if err != nil {
		return true
	}
	const url = "mcp:///schema.json"
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020) // MCP 2025-11-25, "Elicitation": the default dialect
	c.AssertFormat()
	c.UseLoader(noLoader{})
	if c.AddResource(url, doc) != nil {
		return true
	}
	compiled, err := c.Compile(url)
	if err != nil {
		return true
	}
	instance, err := jsonschema.UnmarshalJSON(strings.NewReader(value))
	return err == nil && compiled.Validate(instance) == nil
}
