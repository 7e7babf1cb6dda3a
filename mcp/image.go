package mcp

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

const (
	// maxImage bounds one picture for the model, and maxImages those of one result
	// together, in bytes of the picture itself. Over that only the marker remains.
	// Providers take 5 MB a picture and more.
	maxImage  = 5 << 20
	maxImages = 10 << 20
)

// shown are the kinds of pictures that models take.
var shown = []string{"image/png", "image/jpeg", "image/gif", "image/webp"}

// content is what a result holds, as far as it was read.
type content struct {
	parts  []string // its text
	images []Image
	size   int // of the images in bytes
}

// blob gives the marker that stands for base64 data in a text, such as "[image
// image/png, 12345 bytes]": base64 itself costs the model many tokens and tells it
// nothing. A picture is kept beside it. kind is what the server calls the data, and
// picture whether it may be one.
func (c *content) blob(kind, declared, data string, picture bool) string {
	raw, ok := decodeBase64(data)
	if !ok {
		return fmt.Sprintf("[%s, unreadable data]", strings.TrimSpace(kind+" "+declared))
	}
	sniffed, _, _ := strings.Cut(http.DetectContentType(raw), ";")
	mime := declared
	switch {
	case picture && strings.HasPrefix(sniffed, "image/"): // servers declare jpg, or png for everything
		mime = sniffed
	case picture && !strings.HasPrefix(declared, "image/"):
		mime = ""
	case kind == "audio" && !strings.HasPrefix(declared, "audio/"):
		mime = ""
		if strings.HasPrefix(sniffed, "audio/") {
			mime = sniffed
		}
	}
	marker := fmt.Sprintf("%s, %d bytes", strings.TrimSpace(kind+" "+mime), len(raw))
	if picture && slices.Contains(shown, mime) && mime == sniffed {
		if len(raw) > maxImage || c.size+len(raw) > maxImages {
			return "[" + marker + ", too large to be shown]"
		}
		c.size += len(raw)
		c.images = append(c.images, Image{MIME: mime, Data: base64.StdEncoding.EncodeToString(raw)})
	}
	return "[" + marker + "]"
}

// decodeBase64 reads base64 as servers write it: in either alphabet, padded or
// not, in lines, behind "data:…;base64,".
func decodeBase64(data string) ([]byte, bool) {
	if at := base64At(data); at >= 0 && hasPrefixFold(data, "data:") {
		data = data[at:]
	}
	data = strings.TrimRight(strings.TrimSpace(data), "=")
	encoding := base64.RawStdEncoding // it passes over the ends of lines
	if strings.ContainsAny(data, "-_") {
		encoding = base64.RawURLEncoding
	}
	raw, err := encoding.DecodeString(data)
	return raw, err == nil
}

// base64At finds what follows the first ";base64,"; -1 if there is none. Neither the words
// of a data: URL nor its type have a case (RFC 3986, 3.1; RFC 2045, 5.1).
func base64At(text string) int {
	const mark = "base64,"
	for at := 0; ; {
		n := strings.IndexByte(text[at:], ';')
		if n < 0 {
			return -1
		}
		if at += n + 1; hasPrefixFold(text[at:], mark) {
			return at + len(mark)
		}
	}
}

func hasPrefixFold(text, prefix string) bool {
	return len(text) >= len(prefix) && strings.EqualFold(text[:len(prefix)], prefix)
}

// dataURL begins base64 in a text (RFC 2397), also where the text is JSON with escaped
// slashes. What is shorter than minData stays: it may be the point of the text.
var dataURL = regexp.MustCompile(`(?i)data:[\w.+-]*(?:\\?/[\w.+-]+)?(?:;[\w-]+=[^;,\s"']*)*;base64,`)

const minData = 512 // bytes of a URL

// withoutData puts a marker in the place of every data: URL in a text, which costs the
// model as many tokens as base64 anywhere else.
func withoutData(text string) string {
	if base64At(text) < 0 {
		return text
	}
	var b strings.Builder
	for {
		at := dataURL.FindStringIndex(text)
		if at == nil {
			b.WriteString(text)
			return b.String()
		}
		data := base64Of(text[at[1]:], text[at[0]:at[1]])
		end := at[1] + len(data)
		if end-at[0] < minData {
			b.WriteString(text[:end])
		} else {
			b.WriteString(text[:at[0]])
			fmt.Fprintf(&b, "[data %s, %d bytes]", mimeOf(text[at[0]:at[1]]), sizeOf(data))
		}
		text = text[end:]
	}
}

// minLine is the least length of the lines that base64 is broken into: 64 (RFC 1421) and
// 76 (RFC 2045) are usual.
const minLine = 60

// base64Of is the base64 that a text begins with, behind the head of a data: URL: on one
// line, or on lines of one length. The head may count as a part of the first of these, and
// the last may be shorter, if nothing speaks for it being a word of the text that follows.
func base64Of(text, head string) string {
	end, first := base64Line(text)
	all := len(head) - strings.Count(head, `\`) + first
	for width := 0; !strings.HasSuffix(text[:end], "="); {
		begin := end + lineBreak(text[end:])
		n, symbols := base64Line(text[begin:])
		switch {
		case begin == end, symbols == 0:
			return text[:end]
		case width == 0 && symbols >= minLine && (first == 0 || symbols == first || symbols == all):
			width = symbols
		case symbols == width:
		case symbols < width && symbols%4 == 0 && (text[begin+n-1] == '=' || endsData(text[begin+n:])):
			return text[:begin+n]
		default:
			return text[:end]
		}
		end = begin + n
	}
	return text[:end]
}

// base64Line is how many bytes and symbols of base64 a text begins with.
func base64Line(text string) (bytes, symbols int) {
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case 'A' <= c && c <= 'Z', 'a' <= c && c <= 'z', '0' <= c && c <= '9', strings.IndexByte("+/-_=", c) >= 0:
			symbols++
		case c == '\\' && strings.HasPrefix(text[i+1:], "/"): // in JSON
		default:
			return i, symbols
		}
	}
	return len(text), symbols
}

// lineBreaks also are those of a string in JSON.
var lineBreaks = []string{"\n", "\r\n", `\n`, `\r\n`}

// lineBreak is the length of the line break that a text begins with; 0 for none.
func lineBreak(text string) int {
	for _, b := range lineBreaks {
		if strings.HasPrefix(text, b) {
			return len(b)
		}
	}
	return 0
}

// endsData reports whether data may end where a text begins, and no word.
func endsData(text string) bool {
	return text == "" || strings.IndexByte("\r\n\\\"'`)]}<>", text[0]) >= 0
}

// sizeOf is about how many bytes base64 in a text stands for.
func sizeOf(data string) int {
	return len(strings.TrimRight(unbroken.Replace(data), "=")) * 3 / 4
}

var unbroken = strings.NewReplacer("\r", "", "\n", "", `\r`, "", `\n`, "", `\`, "")

// mimeOf is the type that the beginning of a data: URL names.
func mimeOf(head string) string {
	mime, _, _ := strings.Cut(head[len("data:"):], ";")
	return strings.ToLower(strings.ReplaceAll(mime, `\`, ""))
}
