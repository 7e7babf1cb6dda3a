package chat

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/tidwall/gjson"
)

// Message is one message of a request, as far as a conversation is recognised by
// it when the client sends it again.
type Message struct {
	Role    string
	CallIDs []string // of an assistant message's tool calls
	CallID  string   // of the call that a tool message answers
	Text    string   // its text, white space normalised
	Raw     string   // as the client sent it

	calls gjson.Result
	at    int // where Raw stands in the request
}

// Messages reads the request's messages.
func (r *Request) Messages() []Message {
	var out []Message
	r.messages.ForEach(func(_, v gjson.Result) bool {
		m := readMessage(v)
		m.at = v.Index
		out = append(out, m)
		return true
	})
	return out
}

// ReadMessage reads a single message.
func ReadMessage(raw string) Message { return readMessage(gjson.Parse(raw)) }

func readMessage(v gjson.Result) Message {
	m := Message{Role: v.Get("role").String(), CallID: v.Get("tool_call_id").String(), Raw: v.Raw, calls: v.Get("tool_calls")}
	for _, c := range m.calls.Array() {
		m.CallIDs = append(m.CallIDs, c.Get("id").String())
	}
	m.Text = contentText(v.Get("content"))
	return m
}

// System says whether the message instructs rather than speaks. Instructions may
// change from turn to turn, so no conversation is recognised by them.
func (m Message) System() bool { return m.Role == "system" || m.Role == "developer" }

// Canonical is a form of the message that stays the same when a client sends it
// again, whatever it does to the spelling: null members come and go, content is
// a string or a list of parts, white space changes, arguments are encoded anew,
// and the text beside tool calls is dropped.
func (m Message) Canonical() []byte {
	b := append([]byte(m.Role), 0)
	if len(m.CallIDs) > 0 {
		for _, c := range m.calls.Array() {
			for _, part := range []string{c.Get("id").String(), c.Get("function.name").String(), canonicalJSON(c.Get("function.arguments").String())} {
				b = append(append(b, part...), 0)
			}
		}
		return b
	}
	return append(append(append(b, m.CallID...), 0), m.Text...)
}

// contentText is the text of a message's content with single spaces between its
// words. Parts that are not text count by their JSON.
func contentText(v gjson.Result) string {
	if !v.IsArray() {
		return NormalText(v.String())
	}
	var parts []string
	for _, p := range v.Array() {
		switch {
		case p.Get("text").Type == gjson.String:
			parts = append(parts, p.Get("text").String())
		case p.Get("refusal").Type == gjson.String:
			parts = append(parts, p.Get("refusal").String())
		default:
			parts = append(parts, canonicalJSON(p.Raw))
		}
	}
	return NormalText(strings.Join(parts, " "))
}

// NormalText puts single spaces between the words of a text.
func NormalText(s string) string { return strings.Join(strings.Fields(s), " ") }

// canonicalJSON sorts members and unifies white space and escapes; numbers stay
// as they are written. What is not JSON is only trimmed.
func canonicalJSON(s string) string {
	if !validJSON(s) {
		return strings.TrimSpace(s)
	}
	dec := json.NewDecoder(strings.NewReader(s))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return strings.TrimSpace(s)
	}
	var b bytes.Buffer
	if err := json.NewEncoder(&b).Encode(v); err != nil {
		return strings.TrimSpace(s)
	}
	return strings.TrimSpace(b.String())
}

// Replacement puts messages in the place of the client's messages [From, To).
type Replacement struct {
	From, To int
	With     [][]byte
}

// replace turns replacements into cuts. They must not overlap.
func replace(messages []Message, all []Replacement) (cuts []cut) {
	for _, r := range all {
		last := messages[r.To-1]
		cuts = append(cuts, cut{messages[r.From].at, last.at + len(last.Raw), join(r.With)})
	}
	return cuts
}
