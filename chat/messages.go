package chat

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
)

// Message is one message of a request, as far as a conversation is recognised by
// it when the client sends it again.
type Message struct {
	Role    string
	CallIDs []string // of an assistant message's tool calls
	CallID  string   // of the call that a tool message answers
	Raw     string   // as the client sent it

	content, calls gjson.Result
	at             int // where Raw stands in the request
}

func (m Message) end() int { return m.at + len(m.Raw) }

// Messages reads the request's messages, once.
func (r *Request) Messages() []Message {
	if r.read {
		return r.known
	}
	out := make([]Message, 0, strings.Count(r.messages.Raw, `"role"`)) // so many, if they have no odd members
	each(r.messages, func(_ string, v gjson.Result) {
		m := readMessage(v)
		m.at = v.Index
		out = append(out, m)
	})
	r.known, r.read = out, true
	return out
}

// ReadMessage reads a single message.
func ReadMessage(raw string) Message { return readMessage(gjson.Parse(raw)) }

func readMessage(v gjson.Result) Message {
	m := Message{Raw: v.Raw}
	each(v, func(key string, value gjson.Result) {
		switch key {
		case "role":
			m.Role = value.String()
		case "content":
			m.content = value
		case "tool_call_id":
			m.CallID = value.String()
		case "tool_calls":
			m.calls = value
		}
	})
	for _, c := range m.calls.Array() {
		m.CallIDs = append(m.CallIDs, c.Get("id").String())
	}
	return m
}

// Text is the message's text with single spaces between its words. Parts that are
// not text count by their JSON.
func (m Message) Text() string { return NormalText(m.plainText()) }

// Words is the message's text as it is.
func (m Message) Words() string { return m.plainText() }

func (m Message) plainText() string {
	if !m.content.IsArray() {
		return m.content.String()
	}
	var parts []string
	for _, p := range m.content.Array() {
		switch {
		case p.Get("text").Type == gjson.String:
			parts = append(parts, p.Get("text").String())
		case p.Get("refusal").Type == gjson.String:
			parts = append(parts, p.Get("refusal").String())
		default:
			parts = append(parts, canonicalJSON(p.Raw))
		}
	}
	return strings.Join(parts, " ")
}

// Images says whether parts of the content are images.
func (m Message) Images() bool {
	return m.content.IsArray() && m.content.Get(`#(type=="image_url")`).Exists()
}

// PartText is the text in the parts of the content.
func (m Message) PartText() string {
	var parts []string
	for _, p := range m.content.Get(`#(type=="text")#.text`).Array() {
		parts = append(parts, p.String())
	}
	return strings.Join(parts, "\n")
}

// With gives the message with more text at the end of its content.
func (m Message) With(text string) []byte {
	content := quote(text)
	switch {
	case m.content.IsArray():
		content = strings.TrimSuffix(strings.TrimSpace(m.content.Raw), "]")
		if len(m.content.Array()) > 0 {
			content += ","
		}
		content += `{"type":"text","text":` + quote(text) + "}]"
	case m.content.String() != "":
		content = quote(m.content.String() + "\n\n" + text)
	}
	raw, err := sjson.SetRawBytes([]byte(m.Raw), "content", []byte(content))
	if err != nil {
		panic(err) // the path is a constant
	}
	return raw
}

// System says whether the message instructs rather than speaks. Instructions may
// change from turn to turn, so no conversation is recognised by them.
func (m Message) System() bool { return m.Role == "system" || m.Role == "developer" }

// AppendCanonical appends a form of the message that stays the same when a client
// sends it again, whatever it does to the spelling: null members come and go,
// content is a string or a list of parts, white space changes, arguments are
// encoded anew, and the text beside tool calls is dropped.
func (m Message) AppendCanonical(b []byte) []byte {
	b = append(append(b, m.Role...), 0)
	if len(m.CallIDs) > 0 {
		for _, c := range m.calls.Array() {
			for _, part := range []string{c.Get("id").String(), c.Get("function.name").String(), canonicalJSON(c.Get("function.arguments").String())} {
				b = append(append(b, part...), 0)
			}
		}
		return b
	}
	return appendNormal(append(append(b, m.CallID...), 0), m.plainText())
}

// NormalText puts single spaces between the words of a text.
func NormalText(s string) string { return string(appendNormal(nil, s)) }

// appendNormal appends a text with single spaces between its words.
func appendNormal(b []byte, s string) []byte {
	begin := len(b)
	for i := 0; i < len(s); {
		start := i
		i += normalASCII(s[i:])
		for i < len(s) {
			r, size := utf8.DecodeRuneInString(s[i:])
			if unicode.IsSpace(r) {
				break
			}
			i += size
		}
		if i > start {
			if len(b) > begin {
				b = append(b, ' ')
			}
			b = append(b, s[start:i]...)
		}
		for i < len(s) {
			r, size := utf8.DecodeRuneInString(s[i:])
			if !unicode.IsSpace(r) {
				break
			}
			i += size
		}
	}
	return b
}

// normalASCII is how many bytes at the beginning of s are ASCII words with single
// spaces between them: most of most texts, to be taken as they are. It ends
// within or after a word.
func normalASCII(s string) int {
	i, spaces := normalWords(s)
	for ; i < len(s); i++ {
		switch c := s[i]; {
		case c > ' ' && c < utf8.RuneSelf:
			spaces = 0
		case c == ' ' && spaces == 0:
			spaces = 1
		default:
			return max(0, i-spaces)
		}
	}
	return len(s) - spaces*min(1, len(s))
}

// normalWords goes over the beginning of s eight bytes at a time. It gives how many
// bytes of it are in order, and 1 if the last of them is a space.
func normalWords(s string) (n, spaces int) {
	const (
		ones   = 0x0101010101010101
		tops   = 0x80 * ones
		blanks = ' ' * ones
	)
	last := uint64(0x80) // after a space: one at the beginning is not between words
	for ; n+8 <= len(s); n += 8 {
		b := s[n : n+8]
		w := uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24 | uint64(b[4])<<32 | uint64(b[5])<<40 | uint64(b[6])<<48 | uint64(b[7])<<56
		if (w|(w-blanks))&tops != 0 { // a byte outside ASCII, or below the space
			break
		}
		spaced := ^((w ^ blanks) + 0x7f*ones) & tops // the top bit of each byte that is a space
		if spaced&(spaced<<8|last) != 0 {
			break
		}
		last = spaced >> 56
	}
	return n, int(last >> 7)
}

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

// Replacement puts messages in the place of the client's messages [From, To);
// without any it takes them out.
type Replacement struct {
	From, To int
	With     [][]byte
}

// replace turns replacements into cuts. They must not overlap.
func replace(messages []Message, all []Replacement) (cuts []cut) {
	for _, r := range all {
		c := cut{messages[r.From].at, messages[r.To-1].end(), join(r.With)}
		switch { // a comma goes with what is taken out
		case len(r.With) > 0:
		case r.From > 0:
			c.from = messages[r.From-1].end()
		case r.To < len(messages):
			c.to = messages[r.To].at
		}
		cuts = append(cuts, c)
	}
	return cuts
}
