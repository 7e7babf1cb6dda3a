package loop

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"sync"
	"unicode"

	"github.com/tidwall/gjson"
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

	mu    sync.Mutex
	usage string // of what the server asked the model, raw
}

// maxQuestion bounds what a server asks the user, in bytes.
const maxQuestion = 64 << 10

var (
	errNoElicitation = errors.New("the user of this application cannot be asked")
	errOddQuestion   = errors.New("the question is too long, or not JSON")
)

// Elicit has the application ask the user.
func (a *asker) Elicit(ctx context.Context, server string, params json.RawMessage) (json.RawMessage, error) {
	switch {
	case !a.t.client.Elicit:
		return nil, errNoElicitation
	case len(params) > maxQuestion || !gjson.ValidBytes(params):
		return nil, errOddQuestion
	}
	return a.put(ctx, server, params)
}

// askable is the context of a call of the named function; put asks the user.
func (t *turn) askable(ctx context.Context, name string, put func(context.Context, string, json.RawMessage) (json.RawMessage, error)) context.Context {
	if t.req.Stream && t.client.KeepaliveStyle != "chunk" {
		ctx = context.WithValue(ctx, progressKey{}, Progress(func(_, _, message string, progress, total float64) {
			t.answer.setNote(progressNote(name, message, progress, total))
		}))
	}
	return context.WithValue(ctx, askerKey{}, &asker{t: t, put: put})
}

// askable is the context of a record's call.
func (h *held) askable(ctx context.Context, t *turn, place int) context.Context {
	return t.askable(ctx, h.calls[place].name, func(ctx context.Context, server string, params json.RawMessage) (json.RawMessage, error) {
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

// maxNote bounds what a keep-alive tells of progress, in characters.
const maxNote = 160

// progressNote puts progress into one line. What the server writes must not end it.
func progressNote(name, message string, progress, total float64) string {
	note := name + " " + strconv.FormatFloat(progress, 'g', 6, 64)
	if total > 0 {
		note += "/" + strconv.FormatFloat(total, 'g', 6, 64)
	}
	words := strings.FieldsFunc(note+" "+message, func(r rune) bool { return r == ' ' || !unicode.IsPrint(r) })
	line := []rune(strings.Join(words, " "))
	if len(line) > maxNote {
		line = append(line[:maxNote-1], '…')
	}
	return string(line)
}

type progressKey struct{}

// ProgressFrom gives what wants to know of the progress of the call whose context
// it is; nil if nobody does. It may be called at any time, and does not block.
func ProgressFrom(ctx context.Context) Progress {
	p, _ := ctx.Value(progressKey{}).(Progress)
	return p
}
