package mcp

import (
	"cmp"
	"fmt"
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
		return false
	case KindPrompt:
		c.messages(raw, true)
		return false
	}
	return c.read(raw)
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
	if structured := result.Get("structuredContent"); len(c.parts) == 0 && structured.Exists() && structured.Type != gjson.Null {
		var b strings.Builder
		c.structured(&b, structured)
		c.parts = append(c.parts, b.String())
	}
	return result.Get("isError").Bool()
}

// text is the text of a tool message; never empty.
func (c *content) text() string {
	return cmp.Or(strings.ToValidUTF8(strings.Join(c.parts, "\n"), "\uFFFD"), noOutput)
}

// block is one content block as text.
func (c *content) block(block gjson.Result) string {
	if block.Type == gjson.String {
		return block.String() // no block, but what else could it mean
	}
	switch kind := block.Get("type").String(); kind {
	case "text":
		return block.Get("text").String()
	case "image", "audio":
		return c.blob(kind, block.Get("mimeType").String(), block.Get("data").String(), kind == "image")
	case "resource_link":
		return strings.TrimSpace(fmt.Sprintf("[resource %s %s] %s",
			cmp.Or(block.Get("title").String(), block.Get("name").String()), block.Get("uri").String(), block.Get("description").String()))
	case "resource":
		return c.resource(block.Get("resource"))
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
	return c.blob("resource "+uri, mime, resource.Get("blob").String(), strings.HasPrefix(mime, "image/"))
}

// structured writes JSON without blanks, digit by digit as it is. A content block in
// it is treated as one: some servers put all of a result there.
func (c *content) structured(b *strings.Builder, value gjson.Result) {
	if kind := value.Get("type").String(); value.IsObject() && (kind == "image" || kind == "audio") && value.Get("data").Type == gjson.String {
		b.WriteString(encode(c.block(value)))
		return
	}
	if !value.IsObject() && !value.IsArray() {
		b.WriteString(value.Raw)
		return
	}
	brackets := "[]"
	if value.IsObject() {
		brackets = "{}"
	}
	b.WriteByte(brackets[0])
	first := true
	value.ForEach(func(key, member gjson.Result) bool {
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
