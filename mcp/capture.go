package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/tidwall/gjson"
)

// capture takes the answer to one request off the wire, before the SDK decodes
// it: integers over 2^53 and the key order of schemas do not survive that, and
// one content block of an unknown type fails the whole result. It travels in
// the request's context, which reaches both kinds of transport.
type capture struct {
	run    *running // what it is for; nil for a list
	giveUp func()   // ends the request, set with run
	misses bool     // 404 is no sign of a lost session

	mu     sync.Mutex
	id     string         // of the request, raw JSON
	result []byte         // raw JSON of the result, nil if there was none
	rpc    *jsonrpc.Error // the server's own error
	over   bool           // the answer came, whatever it is
	sent   bool           // the request left, or began to
	status int            // HTTP status, if it was an error
	said   string         // with the status, in one line, for the operator
	lost   bool           // answered 404 to a request with a session id
	odd    string         // what was wrong with an answer that is no MCP
	forget func()

	tell sync.Once
	told chan struct{} // closed when notifications/cancelled for the request is out
}

type captureKey struct{}

// mayMissKey marks requests whose captures are to have misses.
type mayMissKey struct{}

// missing is for a request at which 404 is no sign of a lost session.
func missing(ctx context.Context) context.Context { return context.WithValue(ctx, mayMissKey{}, true) }

func withCapture(ctx context.Context) (context.Context, *capture) {
	cp := &capture{forget: func() {}, told: make(chan struct{})}
	cp.misses, _ = ctx.Value(mayMissKey{}).(bool)
	return context.WithValue(ctx, captureKey{}, cp), cp
}

func captureOf(ctx context.Context) *capture {
	cp, _ := ctx.Value(captureKey{}).(*capture)
	return cp
}

// cancelled notes that the server was told of the cancellation. The SDK sends
// that notification in the background, with the values of the call's context.
func (cp *capture) cancelled() { cp.tell.Do(func() { close(cp.told) }) }

// take takes the answer to the captured request. What it returns is for the SDK: of
// a call that is an empty result, since nobody looks at what the SDK would make of
// a large one; of a list the answer itself, with the id that the SDK waits for.
func (cp *capture) take(msg gjson.Result) []byte {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	first := !cp.over // some servers answer twice
	cp.over = true
	if rpc := fault(msg); rpc != nil {
		if first {
			cp.rpc = rpc
		}
	} else if result := msg.Get("result"); result.Exists() {
		if first {
			cp.result = bytesOf(result.Raw)
		}
		if cp.run != nil {
			return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":{}}`, cp.id)
		}
	}
	return answerAs(cp.id, msg)
}

// taken reports whether there is a result, or the server's own error.
func (cp *capture) taken() bool {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	return cp.result != nil || cp.rpc != nil
}

// abandon ends the request, which will have no answer; what says why, "" if that is
// known already.
func (cp *capture) abandon(why string) {
	if why != "" {
		cp.isOdd(why)
	}
	if cp.giveUp != nil {
		cp.giveUp()
	}
}

// begin notes that the request goes out, perhaps again after a redirect, under the
// id, or the one known before.
func (cp *capture) begin(id string) {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	if id != "" {
		cp.id = id
	}
	cp.sent, cp.status, cp.lost, cp.odd = true, 0, false, ""
}

// unsent notes that the server has not accepted the request, or never saw it.
func (cp *capture) unsent() {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	cp.sent = false
}

// onAnswer sets what to do when the answer is picked up.
func (cp *capture) onAnswer(forget func()) {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	cp.forget = forget
}

func (cp *capture) isOdd(problem string) {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	cp.odd = problem
}

func (cp *capture) refused(status *statusError, lost bool) {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	cp.status, cp.said, cp.lost = status.code, status.said, lost
}

// answer is what a capture took.
type answer struct {
	result []byte
	rpc    *jsonrpc.Error
	sent   bool
	status int
	said   string
	lost   bool
	odd    string
}

// requestID is the id of the request as text; "" before it went out.
func (cp *capture) requestID() string {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	return gjson.Parse(cp.id).String()
}

// peek returns what was taken so far.
func (cp *capture) peek() answer {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	return answer{cp.result, cp.rpc, cp.sent, cp.status, cp.said, cp.lost, cp.odd}
}

// answer returns what was taken. The request must be over.
func (cp *capture) answer() answer {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	cp.forget()
	return answer{cp.result, cp.rpc, cp.sent, cp.status, cp.said, cp.lost, cp.odd}
}

// unanswered gives the id of a request that the server may still work on, "" if it
// cannot: the request never left, was answered, or was refused by HTTP.
func (cp *capture) unanswered() string {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	if !cp.sent || cp.over || cp.lost || cp.status >= 400 && cp.status < 500 {
		return ""
	}
	return cp.id
}

// rawID is an id as JSON, "" for none.
func rawID(id jsonrpc.ID) string {
	if !id.IsValid() {
		return ""
	}
	raw, _ := json.Marshal(id.Raw()) // a string or a number
	return string(raw)
}

// idOf is the id that raw JSON stands for.
func idOf(raw string) jsonrpc.ID {
	var value any
	_ = json.Unmarshal([]byte(raw), &value)
	id, _ := jsonrpc.MakeID(value) // a number or a text, else it is none
	return id
}
