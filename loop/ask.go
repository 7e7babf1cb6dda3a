package loop

import (
	"context"
	"encoding/json"
)

// Asker answers what an MCP server asks in the midst of a call. Params and results
// are those of the MCP requests, as JSON.
type Asker interface {
	// Sample answers sampling/createMessage.
	Sample(ctx context.Context, server string, params json.RawMessage) (json.RawMessage, error)
	// Elicit answers elicitation/create.
	Elicit(ctx context.Context, server string, params json.RawMessage) (json.RawMessage, error)
}

// ElicitFunction is the function by whose calls an application gets the questions
// of MCP servers.
const ElicitFunction = "mcp_elicit"

type askerKey struct{}

// AskerFrom gives the asker of the call whose context it is; nil if there is none.
func AskerFrom(ctx context.Context) Asker {
	a, _ := ctx.Value(askerKey{}).(Asker)
	return a
}
