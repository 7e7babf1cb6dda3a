package mcp

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"
)

// noOutput stands for an empty result: providers refuse an empty tool message.
const noOutput = "(no output)"

// needsInput is told when the server wants something that only a person can give
// (2026-07-28, "Multi Round-Trip Requests": resultType input_required).
const needsInput = "the server asks for input from a person, which cannot be given here. The call was not completed."

// resultText makes the text of a tool message of a raw tools/call result, and
// reports whether it is an error. Text comes from content; from structuredContent
// only if content has nothing usable, never from both.
func resultText(raw []byte) (text string, isError bool) {
	result := gjson.ParseBytes(raw)
	if result.Get("resultType").String() == "input_required" || result.Get("inputRequests").Exists() {
		return needsInput, true
	}
	var parts []string
	for _, block := range result.Get("content").Array() {
		if part := blockText(block); strings.TrimSpace(part) != "" {
			parts = append(parts, part)
		}
	}
	text = strings.Join(parts, "\n")
	if structured := result.Get("structuredContent"); text == "" && structured.Exists() && structured.Type != gjson.Null {
		var compact bytes.Buffer
		if json.Compact(&compact, []byte(structured.Raw)) == nil {
			text = compact.String()
		}
	}
	text = strings.ToValidUTF8(text, "\uFFFD")
	return cmp.Or(text, noOutput), result.Get("isError").Bool()
}

// blockText is one content block as text. Binary data is described: base64 costs
// the model many tokens and tells it nothing.
func blockText(block gjson.Result) string {
	switch kind := block.Get("type").String(); kind {
	case "text":
		return block.Get("text").String()
	case "image", "audio":
		return blob(kind, block.Get("mimeType").String(), block.Get("data").String())
	case "resource_link":
		return strings.TrimSpace(fmt.Sprintf("[resource %s %s] %s",
			cmp.Or(block.Get("title").String(), block.Get("name").String()), block.Get("uri").String(), block.Get("description").String()))
	case "resource":
		resource := block.Get("resource")
		uri := resource.Get("uri").String()
		if text := resource.Get("text"); text.Exists() {
			return fmt.Sprintf("[resource %s]\n%s", uri, text.String())
		}
		return blob("resource "+uri, resource.Get("mimeType").String(), resource.Get("blob").String())
	default:
		return fmt.Sprintf("[content of unknown type %.40q]", kind)
	}
}

// blob describes base64 data: "[image image/png, 12345 bytes]".
func blob(kind, mime, data string) string {
	label := strings.TrimSpace(kind + " " + mime)
	unpadded := strings.TrimRight(data, "=")
	if _, err := base64.RawStdEncoding.DecodeString(unpadded); err != nil {
		return fmt.Sprintf("[%s, unreadable data]", label)
	}
	return fmt.Sprintf("[%s, %d bytes]", label, base64.RawStdEncoding.DecodedLen(len(unpadded)))
}

// capText bounds a text to limit bytes. Beginning and end stay, whole runes, with
// a notice in between: the end of an output often holds its outcome.
func capText(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	notice := func(cut int) string { return fmt.Sprintf("\n[... %d bytes left out ...]\n", cut) }
	room := limit - len(notice(len(text)))
	if room < limit/2 { // a limit too small for a notice
		return cutText(text, limit)
	}
	head := cutText(text, room*3/4)
	tail := text[len(text)-(room-len(head)):]
	for tail != "" && !utf8.RuneStart(tail[0]) {
		tail = tail[1:]
	}
	return head + notice(len(text)-len(head)-len(tail)) + tail
}

// cutText is the longest beginning of s of at most limit bytes that does not end
// within a rune.
func cutText(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}
