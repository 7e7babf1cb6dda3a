package mcp

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/mcp-via-llm/mcp-via-llm/excerpt"
)

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
	if name, twice := repeatedMember(text); twice {
		return nil, &errArguments{[]string{fmt.Sprintf("the member %q is there twice in one object", excerpt.Head(name, 60))}}
	}
	if t.input != nil {
		if problems := t.input.Problems(text); problems != nil {
			return nil, &errArguments{problems}
		}
	}
	if _, err := t.address(json.RawMessage(text)); err != nil {
		return nil, err
	}
	return json.RawMessage(text), nil
}
