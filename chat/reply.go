package chat

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"
)

// Reply is the model's whole answer in one segment, however it was sent.
type Reply struct {
	Message string // the assistant message, raw JSON, as it is replayed to the model
	Calls   []Call // its tool calls, in the model's order
	Finish  string // finish_reason; empty if the provider sent none
	Usage   string // raw usage object; empty if the provider sent none
	Text    string // its content, if that is text
	Origin  Origin

	shown string // the raw message as it came, for the client
}

// Origin is what a provider says of a completion beside its content; a member that
// it does not send is empty.
type Origin struct {
	ID, Model, Tier, Fingerprint string
}

func readOrigin(v gjson.Result) Origin {
	m := members(v.Raw, "id", "model", "service_tier", "system_fingerprint")
	return origin(m[:])
}

// origin takes those members, in that order.
func origin(m []gjson.Result) Origin {
	return Origin{ID: m[0].String(), Model: m[1].String(), Tier: m[2].String(), Fingerprint: m[3].String()}
}

// Only is the message with those of its calls that keep wants.
func (r *Reply) Only(keep func(Call) bool) []byte {
	var kept [][]byte
	for i, entry := range gjson.Get(r.Message, "tool_calls").Array() {
		if keep(r.Calls[i]) {
			kept = append(kept, []byte(entry.Raw))
		}
	}
	switch len(kept) {
	case len(r.Calls):
		return []byte(r.Message)
	case 0:
		return []byte(remove(r.Message, "tool_calls"))
	}
	return []byte(set(r.Message, "tool_calls", "["+join(kept)+"]"))
}

// Visible is the message that a client sends back for an answer with this text
// and these calls. Of one without calls there is no Raw.
func Visible(text string, calls []Call) Message {
	if len(calls) == 0 && utf8.ValidString(text) { // as it would be read
		return Message{Role: "assistant", content: gjson.Result{Type: gjson.String, Str: text}}
	}
	return ReadMessage(answer(text, calls))
}

// Answer is the raw message of an answer with this text.
func Answer(text string) string { return answer(text, nil) }

func answer(text string, calls []Call) string {
	raw := `{"role":"assistant","content":` + quote(text)
	if len(calls) > 0 {
		var entries [][]byte
		for _, c := range calls {
			entries = append(entries, []byte(c.shown))
		}
		raw += `,"tool_calls":[` + join(entries) + "]"
	}
	return raw + "}"
}

// JoinText puts text of a later segment after that of earlier ones, with a blank
// line between them.
func JoinText(earlier, later string) string {
	if later == "" {
		return earlier
	}
	return earlier + separator(earlier) + later
}

// Replayed is a completion with a message that came in an earlier attempt.
func Replayed(message, finish, usage string) string {
	out := `{"object":"chat.completion","choices":[{"index":0,"message":` + message + `,"finish_reason":` + quote(finish) + `}]`
	if usage != "" {
		out += `,"usage":` + usage
	}
	return out + "}"
}

// CutShort says that the model stopped for a reason that leaves its calls
// unfinished, so that none of them may run (token limit, content filter).
func (r *Reply) CutShort() bool { return r.Finish == "length" || r.Finish == "content_filter" }

// Call is one tool call of the model.
type Call struct {
	ID        string
	Name      string
	Arguments string // JSON text of one object; "{}" where the model sent none
	Bad       string // why the arguments cannot be used; empty if they can

	shown string // the entry of tool_calls as the client gets it, raw JSON
}

// Written is the arguments as the model wrote them, whether or not they can be used.
func (c Call) Written() string {
	if c.Bad == "" {
		return c.Arguments
	}
	return gjson.Get(c.shown, "function.arguments").String()
}

// NewCall makes a call of the gateway's own, of a function of the client's side.
func NewCall(id, name, arguments string) Call {
	return Call{ID: id, Name: name, Arguments: arguments,
		shown: `{"id":` + quote(id) + `,"type":"function","function":{"name":` + quote(name) + `,"arguments":` + quote(arguments) + `}}`}
}

// newReply reads an assistant message. Calls get what replaying them needs: an
// id that is there and unique in the message, a type, and arguments that are a
// JSON object in a string. Everything else in the message stays as it came,
// unknown members too: some providers refuse a call without its signature.
func newReply(message, finish, usage string, ids *callIDs, d Dialect) *Reply {
	r := &Reply{Message: message, Finish: finish, Usage: usage, shown: message}
	m := members(message, "content", "tool_calls")
	if content := m[0]; content.Type == gjson.String {
		r.Text = content.String()
	}
	for i, entry := range m[1].Array() {
		call, replay := newCall(entry, ids)
		r.Calls = append(r.Calls, call)
		if replay != entry.Raw {
			r.Message = set(r.Message, "tool_calls."+strconv.Itoa(i), replay)
		}
	}
	r.Message = d.replay(r.Message, len(r.Calls) > 0)
	return r
}

// newCall reads an entry of tool_calls, and gives the form that is replayed.
func newCall(entry gjson.Result, ids *callIDs) (Call, string) {
	call := Call{Name: entry.Get("function.name").String()}
	call.Arguments, call.Bad = arguments(entry.Get("function.arguments"))
	shown := remove(entry.Raw, "index")
	sent := entry.Get("id").String()
	if call.ID = ids.unique(sent); call.ID != sent {
		shown = set(shown, "id", quote(call.ID))
	}
	if entry.Get("type").String() == "" {
		shown = set(shown, "type", `"function"`)
	}
	call.shown = shown
	replay := shown
	if sent := entry.Get("function.arguments"); sent.Type != gjson.String || sent.String() != call.Arguments {
		replay = set(shown, "function.arguments", quote(call.Arguments))
	}
	return call, replay
}

// arguments reads the arguments of a call. Blank, null and "null" mean none.
// Anything that is not one JSON object is bad; then "{}" stands in for it, since
// providers refuse a history with broken arguments.
func arguments(v gjson.Result) (object, bad string) {
	s := v.String()
	if v.IsObject() {
		s = v.Raw // some providers send the object itself
	}
	switch trimmed := strings.TrimSpace(s); {
	case trimmed == "" || trimmed == "null":
		return "{}", ""
	case !validJSON(s):
		return "{}", "they are not valid JSON"
	case !isObject(s):
		return "{}", "they are valid JSON, but not an object"
	}
	return s, ""
}

// replay puts the dialect's form on a message that is sent back to the model.
func (d Dialect) replay(message string, calls bool) string {
	if !calls {
		return message
	}
	reasoning := gjson.Get(message, "reasoning_content")
	switch {
	case d.Reasoning == "drop" && reasoning.Exists():
		message = remove(message, "reasoning_content")
	case d.Reasoning == "always" && !present(reasoning):
		message = set(message, "reasoning_content", `""`)
	}
	content := gjson.Get(message, "content")
	if d.Content == "" || content.IsArray() || content.String() != "" {
		return message
	}
	switch d.Content {
	case "null":
		return set(message, "content", "null")
	case "empty":
		return set(message, "content", `""`)
	}
	return remove(message, "content")
}

// callIDs gives the calls of one message ids that are there and differ. The same
// message always gets the same ones.
type callIDs struct {
	seed    string // tells this message from others, such as the completion's id
	segment int    // the same, of messages with one seed; 0: there is one
	n       int
	seen    map[string]bool
}

func (c *callIDs) unique(sent string) string {
	if c.seen == nil {
		c.seen = map[string]bool{}
	}
	id := sent
	if id == "" {
		seed := c.seed
		if c.segment > 0 {
			seed += "/" + strconv.Itoa(c.segment)
		}
		sum := sha256.Sum256(fmt.Appendf(nil, "%s/%d", seed, c.n))
		id = "call_" + hex.EncodeToString(sum[:12])
	}
	for base, i := id, 2; c.seen[id]; i++ {
		id = base + "_" + strconv.Itoa(i)
	}
	c.seen[id] = true
	c.n++
	return id
}

// ToolMessage is the message that gives the model the result of a call.
func ToolMessage(id, result string) []byte {
	return []byte(`{"role":"tool","tool_call_id":` + quote(id) + `,"content":` + quote(result) + `}`)
}

// separator is what comes between text that ended with tail and text of a later
// segment, so that a blank line stands between them.
func separator(tail string) string {
	switch {
	case tail == "" || strings.HasSuffix(tail, "\n\n"):
		return ""
	case strings.HasSuffix(tail, "\n"):
		return "\n"
	}
	return "\n\n"
}

// textMembers are the members of a message that hold text for people. Text of
// several segments is joined, in a stream and in a whole answer alike.
var textMembers = []string{"content", "reasoning_content", "reasoning"}
