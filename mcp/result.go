package mcp

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
)

// noOutput stands for an empty result: providers refuse an empty tool message.
const noOutput = "(no output)"

// read takes in a raw result, and reports whether it is an error.
func (t *tool) read(c *content, raw []byte) (isError bool) {
	switch t.kind {
	case KindResource, KindTemplate:
		c.contents(raw)
	case KindPrompt:
		c.messages(raw, true)
	default:
		return c.read(raw)
	}
	if len(c.parts) == 0 {
		return c.odd(parse(raw))
	}
	return false
}

// read takes in a raw tools/call result, and reports whether it is an error. Text
// comes from content; from structuredContent only if content has nothing usable,
// never from both.
func (c *content) read(raw []byte) (isError bool) {
	result := parse(raw)
	for _, block := range result.Get("content").Array() {
		if part := c.block(block); strings.TrimSpace(part) != "" {
			c.parts = append(c.parts, part)
		}
	}
	for _, name := range []string{"structuredContent", "toolResult"} { // the latter of 2024-10-07
		if value := result.Get(name); len(c.parts) == 0 && value.Exists() && value.Type != gjson.Null {
			c.parts = append(c.parts, c.json(value))
		}
	}
	if len(c.parts) == 0 && c.odd(result) {
		return true
	}
	return result.Get("isError").Bool()
}

// frame are the members of a result that tell the model nothing.
var frame = []string{"_meta", "content", "contents", "messages", "structuredContent", "toolResult", "isError", "resultType", "ttlMs", "cacheScope"}

// odd takes in a result that holds nothing where MCP wants it: the model gets the JSON
// of whatever there is. It reports whether the result is of a kind that is no result
// yet, such as a task that nobody asked for (2026-07-28: an unknown resultType is an
// error).
func (c *content) odd(result gjson.Result) (isError bool) {
	if list := result.Array(); slices.ContainsFunc(list, isBlock) { // one block is an array of one
		for _, block := range list {
			c.parts = append(c.parts, c.block(block))
		}
		return false
	}
	payload := c.payload(result, frame...)
	kind := result.Get("resultType").String()
	if kind == "" && result.Get("task.taskId").Exists() {
		kind = "task"
	}
	if isError = kind != "" && kind != "complete"; isError {
		payload = strings.TrimSpace(fmt.Sprintf("the server gave no result, but an answer of the kind %.40q, which is not known here. %s", kind, payload))
	}
	if payload != "" {
		c.parts = append(c.parts, payload)
	}
	return isError
}

// isBlock reports whether a value looks like a block of content.
func isBlock(value gjson.Result) bool {
	return slices.Contains([]string{"text", "image", "audio", "resource", "resource_link"}, value.Get("type").String())
}

// payload is a value as JSON, of an object without the members named; "" if nothing
// is left. A string is itself.
func (c *content) payload(value gjson.Result, without ...string) string {
	switch {
	case !value.Exists(), value.Type == gjson.Null:
		return ""
	case value.Type == gjson.String:
		return value.String()
	case !value.IsObject():
		return c.json(value)
	}
	empty := true
	value.ForEach(func(key, _ gjson.Result) bool {
		empty = slices.Contains(without, key.String())
		return empty
	})
	if empty {
		return ""
	}
	var b strings.Builder
	c.members(&b, value, without)
	return b.String()
}

// text is the text of a tool message; never empty.
func (c *content) text() string {
	return cmp.Or(withoutData(strings.ToValidUTF8(strings.Join(c.parts, "\n"), "\uFFFD")), noOutput)
}

// block is one content block as text. One that is not understood is its JSON.
func (c *content) block(block gjson.Result) string {
	switch kind := block.Get("type").String(); kind {
	case "text":
		text := block.Get("text")
		if !text.Exists() {
			break
		}
		if data := strings.TrimSpace(text.String()); hasPrefixFold(data, "data:image/") {
			head := dataURL.FindString(data)
			if len(head) > 0 && head+base64Of(data[len(head):], head) == data {
				return c.blob("image", mimeOf(head), data, true)
			}
		}
		return text.String()
	case "image", "audio":
		if data := block.Get("data"); data.Exists() {
			return c.blob(kind, block.Get("mimeType").String(), data.String(), kind == "image")
		}
		if data := block.Get("source.data"); data.Exists() { // as Anthropic's API has them
			return c.blob(kind, block.Get("source.media_type").String(), data.String(), kind == "image")
		}
	case "resource_link":
		return strings.TrimSpace(fmt.Sprintf("[resource %s %s] %s",
			cmp.Or(block.Get("title").String(), block.Get("name").String()), block.Get("uri").String(), block.Get("description").String()))
	case "resource":
		if resource := block.Get("resource"); resource.IsObject() {
			return c.resource(resource)
		}
	case "":
		if text := block.Get("text"); text.Type == gjson.String {
			return text.String()
		}
	}
	if c.payload(block, "type", "mimeType", "annotations", "_meta") != "" {
		return c.payload(block, "annotations", "_meta")
	}
	switch kind := block.Get("type").String(); kind { // it has nothing but a type, at most
	case "", "text":
		return ""
	case "image", "audio":
		return c.blob(kind, block.Get("mimeType").String(), "", kind == "image")
	default:
		return fmt.Sprintf("[content of unknown type %.40q]", kind)
	}
}

// resource is an embedded resource, or one of those that were read.
func (c *content) resource(resource gjson.Result) string {
	uri := resource.Get("uri").String()
	if text := resource.Get("text"); text.Exists() {
		return fmt.Sprintf("[resource %s]\n%s", uri, text.String())
	}
	mime := resource.Get("mimeType").String()
	if payload := c.payload(resource, "uri", "mimeType", "name", "title", "description", "annotations", "size", "_meta"); payload != "" && !resource.Get("blob").Exists() {
		return fmt.Sprintf("[resource %s]\n%s", uri, payload)
	}
	return c.blob("resource "+uri, mime, resource.Get("blob").String(), strings.HasPrefix(mime, "image/"))
}

// json is a value as JSON without blanks, digit by digit as it is.
func (c *content) json(value gjson.Result) string {
	var b strings.Builder
	c.structured(&b, value)
	return b.String()
}

// structured writes the JSON of a value. A content block in it is treated as one:
// some servers put all of a result there.
func (c *content) structured(b *strings.Builder, value gjson.Result) {
	if kind := value.Get("type").String(); value.IsObject() && (kind == "image" || kind == "audio") &&
		(value.Get("data").Type == gjson.String || value.Get("source.data").Type == gjson.String) {
		b.WriteString(encode(c.block(value)))
		return
	}
	if !value.IsObject() && !value.IsArray() {
		b.WriteString(value.Raw)
		return
	}
	c.members(b, value, nil)
}

// members writes the JSON of an object, without the members named, or of an array.
func (c *content) members(b *strings.Builder, value gjson.Result, without []string) {
	brackets := "[]"
	if value.IsObject() {
		brackets = "{}"
	}
	b.WriteByte(brackets[0])
	first := true
	value.ForEach(func(key, member gjson.Result) bool {
		if value.IsObject() && slices.Contains(without, key.String()) {
			return true
		}
		if !first {
			b.WriteByte(',')
		}
		first = false
		if value.IsObject() {
			b.WriteString(key.Raw)
			b.WriteByte(':')
		}
		c.structured(b, member)
		return true
	})
	b.WriteByte(brackets[1])
}
