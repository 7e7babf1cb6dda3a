package chat

import (
	"strings"

	"github.com/tidwall/gjson"
)

// Aside is a completion beside the client's conversation, of the same model and on
// the same account: no stream, no tools, nothing of what the client said.
type Aside struct {
	Messages  [][]byte
	MaxTokens int
	More      map[string]string // members, raw JSON
}

// Aside makes the body of an aside.
func (r *Request) Aside(a Aside, d Dialect) []byte {
	var b strings.Builder
	b.WriteString(`{"model":` + quote(r.Model) + `,"messages":[` + join(a.Messages) + "]")
	member := func(name, value string) {
		if value != "" {
			b.WriteString("," + quote(name) + ":" + value)
		}
	}
	member(r.limitName(d), formatInt(int64(a.MaxTokens)))
	for _, name := range []string{"temperature", "stop"} {
		member(name, a.More[name])
	}
	for _, name := range []string{"user", "safety_identifier"} { // whom it is for
		member(name, gjson.Get(r.raw, name).Raw)
	}
	return []byte(b.String() + "}")
}

// limitName is how the provider calls its limit of an answer's tokens: as the
// client does, or else as the dialect does. OpenAI's newer models refuse max_tokens,
// and many others know nothing else.
func (r *Request) limitName(d Dialect) string {
	const older, newer = "max_tokens", "max_completion_tokens"
	switch {
	case gjson.Get(r.raw, newer).Exists():
		return newer
	case gjson.Get(r.raw, older).Exists() || d.MaxTokens:
		return older
	}
	return newer
}

// Said is what a whole completion says: its text, model, finish_reason and raw usage.
type Said struct{ Text, Model, Finish, Usage string }

// ReadSaid reads a whole completion. What is none is ErrMalformed, an error
// *UpstreamError.
func ReadSaid(completion string) (Said, error) {
	if !isObject(completion) {
		return Said{}, ErrMalformed
	}
	root := gjson.Parse(completion)
	if err := upstreamError(root.Get("error")); err != nil {
		return Said{}, err
	}
	message := root.Get("choices.0.message")
	if !message.IsObject() {
		return Said{}, ErrMalformed
	}
	s := Said{Text: readMessage(message).plainText(), Model: root.Get("model").String(), Finish: root.Get("choices.0.finish_reason").String()}
	if usage := root.Get("usage"); usage.IsObject() {
		s.Usage = usage.Raw
	}
	return s, nil
}

// TextMessage is a message of the given role.
func TextMessage(role, text string) []byte {
	return []byte(`{"role":` + quote(role) + `,"content":` + quote(text) + `}`)
}

// PartsMessage is a message of the given role whose content has these parts.
func PartsMessage(role string, parts ...[]byte) []byte {
	return []byte(`{"role":` + quote(role) + `,"content":[` + join(parts) + `]}`)
}

// ToolParts is the message that gives the model the result of a call in parts, for
// providers that take more than text there.
func ToolParts(id string, parts ...[]byte) []byte {
	return []byte(`{"role":"tool","tool_call_id":` + quote(id) + `,"content":[` + join(parts) + `]}`)
}

// TextPart is a part of a message's content.
func TextPart(text string) []byte { return []byte(`{"type":"text","text":` + quote(text) + `}`) }

// ImagePart is a part with an image in base64.
func ImagePart(mime, data string) []byte {
	return []byte(`{"type":"image_url","image_url":{"url":` + quote("data:"+mime+";base64,"+data) + `}}`)
}
