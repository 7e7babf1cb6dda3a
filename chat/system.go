package chat

import "github.com/tidwall/gjson"

// instruct puts a text of instructions in front of the client's own. Chat
// templates of several model families refuse a second system message, and one
// that does not come first, so a conversation that begins with a system or
// developer message keeps that one message, with the text ahead of the client's;
// any other gets a leading system message. Instructions further down stay where
// the client put them: moving them would change what they apply to.
func (r *Request) instruct(text string, follows bool) cut {
	if messages := r.Messages(); len(messages) > 0 && messages[0].System() {
		if c, ok := ahead(text, messages[0].content); ok {
			return c
		}
	}
	message := `{"role":"system","content":` + quote(text) + `}`
	if follows || r.messages.Get("0").Exists() {
		message += ","
	}
	at := r.messages.Index + 1
	return cut{at, at, message}
}

// ahead puts a text in front of a message's content. It fails for content that
// is neither a text, nor parts, nor null.
func ahead(text string, content gjson.Result) (cut, bool) {
	at := content.Index + 1
	switch {
	case content.IsArray():
		part := `{"type":"text","text":` + quote(text) + `}`
		if content.Get("0").Exists() {
			part += ","
		}
		return cut{at, at, part}, true
	case content.Type == gjson.String:
		if content.String() != "" {
			text += "\n\n"
		}
		quoted := quote(text)
		return cut{at, at, quoted[1 : len(quoted)-1]}, true
	case content.Exists() && content.Type == gjson.Null:
		return over(content, quote(text)), true
	}
	return cut{}, false
}
