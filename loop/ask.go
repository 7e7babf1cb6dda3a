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

// Progress takes what an MCP server tells of its progress with a call. total is 0
// where it is not known. All but server and tool is data of the server.
type Progress func(server, tool, message string, progress, total float64)

type progressKey struct{}

// ProgressFrom gives what wants to know of the progress of the call whose context
// it is; nil if nobody does.
func ProgressFrom(ctx context.Context) Progress {
	p, _ := ctx.Value(progressKey{}).(Progress)
	return p
}
