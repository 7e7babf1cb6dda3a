package loop

import (
	"context"
	"encoding/json"
	"errors"
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

// asker answers for one call of a turn.
type asker struct {
	t   *turn
	put func(ctx context.Context, server string, params json.RawMessage) (json.RawMessage, error)
}

var errNoElicitation = errors.New("the user of this application cannot be asked")

func (a *asker) Elicit(ctx context.Context, server string, params json.RawMessage) (json.RawMessage, error) {
	if !a.t.client.Elicit {
		return nil, errNoElicitation
	}
	return a.put(ctx, server, params)
}

func (a *asker) Sample(ctx context.Context, server string, params json.RawMessage) (json.RawMessage, error) {
	return nil, errors.New("sampling is off")
}

// askable is the context of a call; put asks the user.
func (t *turn) askable(ctx context.Context, put func(context.Context, string, json.RawMessage) (json.RawMessage, error)) context.Context {
	return context.WithValue(ctx, askerKey{}, &asker{t, put})
}

// askable is the context of a record's call.
func (h *held) askable(ctx context.Context, t *turn, place int) context.Context {
	return t.askable(ctx, func(ctx context.Context, server string, params json.RawMessage) (json.RawMessage, error) {
		return h.put(ctx, newElicitation(place, server, params), t.client.ApprovalTimeout)
	})
}

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
