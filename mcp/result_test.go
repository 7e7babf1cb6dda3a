package mcp

import (
	"strings"
	"testing"
)

func TestResultText(t *testing.T) {
	for _, test := range []struct{ name, raw, want string }{
		{"text", `{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}`, "a\nb"},
		{"only structured", `{"content":[],"isError":false,"structuredContent":{"id": 9007199254740993, "lat":1.50}}`, `{"id":9007199254740993,"lat":1.50}`},
		{"both", `{"content":[{"type":"text","text":"{\"id\":1}"}],"structuredContent":{"id":1}}`, `{"id":1}`},
		{"blank text and structured", `{"content":[{"type":"text","text":" \n\t"}],"structuredContent":{"id":1}}`, `{"id":1}`},
		{"no content key", `{"structuredContent":{"a":"<b>&"}}`, `{"a":"<b>&"}`},
		{"structured that is no object", `{"content":[],"structuredContent":[1,2]}`, `[1,2]`},
		{"nothing", `{"content":[],"isError":false}`, "(no output)"},
		{"nothing at all", `{}`, "(no output)"},
		{"only blanks", `{"content":[{"type":"text","text":"  "}]}`, "(no output)"},
		{"content null", `{"content":null,"structuredContent":null}`, "(no output)"},
		{"image", `{"content":[{"type":"text","text":"page"},{"type":"image","mimeType":"image/png","data":"iVBORw0KGgo="}],"structuredContent":{"result":[{"data":"iVBORw0KGgo="}]}}`,
			"page\n[image image/png, 8 bytes]"},
		{"audio, and an image that is not base64", `{"content":[{"type":"audio","mimeType":"audio/wav","data":"UklGRg=="},{"type":"image","data":"***"}]}`,
			"[audio audio/wav, 4 bytes]\n[image, unreadable data]"},
		{"embedded text", `{"content":[{"type":"resource","resource":{"uri":"file:///a.txt","text":"hello"}}]}`, "[resource file:///a.txt]\nhello"},
		{"embedded blob", `{"content":[{"type":"resource","resource":{"uri":"file:///a.bin","mimeType":"application/octet-stream","blob":"AAAA"}}]}`,
			"[resource file:///a.bin application/octet-stream, 3 bytes]"},
		{"link", `{"content":[{"type":"resource_link","name":"log","uri":"file:///log","description":"the log"}]}`, "[resource log file:///log] the log"},
		{"unknown block", `{"content":[{"type":"hologram"},{"type":"text","text":"x"}]}`, "[content of unknown type \"hologram\"]\nx"},
		{"text that is no block", `{"content":"plain"}`, "plain"},
		{"one block without a list", `{"content":{"type":"text","text":"x"}}`, "x"},
		{"no content at all, but a payload", `{"temperature": 20,"_meta":{"a":1}}`, `{"temperature":20}`},
		{"a nested payload", `{"data":{"rows":[1, 9007199254740993]},"isError":false,"content":[]}`, `{"data":{"rows":[1,9007199254740993]}}`},
		{"a bare string", `"sunny"`, "sunny"},
		{"a bare number", `12`, "12"},
		{"a bare array", `[{"a": 1},"b"]`, `[{"a":1},"b"]`},
		{"a bare array of blocks", `[{"type":"text","text":"x"},{"type":"text","text":"y"}]`, "x\ny"},
		{"a bare image", `{"type":"image","mimeType":"image/png","data":"iVBORw0KGgo="}`, "[image image/png, 8 bytes]"},
		{"null", `null`, "(no output)"},
		{"true", `true`, "true"},
		{"revision 2024-10-07", `{"toolResult":{"id": 9007199254740993}}`, `{"id":9007199254740993}`},
		{"revision 2024-10-07, a text", `{"toolResult":"x"}`, `"x"`},
		{"complete", `{"resultType":"complete","content":[],"ttlMs":5}`, "(no output)"},
		{"complete with a payload", `{"resultType":"complete","rows":[1]}`, `{"rows":[1]}`},
		{"an unknown kind with content", `{"resultType":"weird","content":[{"type":"text","text":"x"}]}`, "x"},
		{"a block without type", `{"content":[{"text":"a"},{"temperature":20},{"type":null,"text":"b"},{"_meta":{}}]}`, "a\n{\"temperature\":20}\nb"},
		{"a block of unknown type with a payload", `{"content":[{"type":"json","json":{"rows": [1]},"annotations":{"audience":["user"]}}]}`, `{"type":"json","json":{"rows":[1]}}`},
		{"a text under another name", `{"content":[{"type":"text","content":"x"}]}`, `{"type":"text","content":"x"}`},
		{"an object as content", `{"content":{"temperature":20}}`, `{"temperature":20}`},
		{"a number as content", `{"content":5}`, "5"},
		{"lists in content", `{"content":[[1],null,true]}`, "[1]\ntrue"},
		{"an image in Anthropic's form", `{"content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw0KGgo="}}]}`, "[image image/png, 8 bytes]"},
		{"an image by address", `{"content":[{"type":"image","url":"https://x.test/a.png"}]}`, `{"type":"image","url":"https://x.test/a.png"}`},
		{"an embedded resource without text or blob", `{"content":[{"type":"resource","resource":{"uri":"x://a","data":[1]}}]}`, "[resource x://a]\n{\"data\":[1]}"},
		{"a resource that is none", `{"content":[{"type":"resource","uri":"x://a"}]}`, `{"type":"resource","uri":"x://a"}`},
		{"escapes", `{"content":[{"type":"text","text":"\u00e9 \ud83d\ude00 \"q\""}]}`, "é 😀 \"q\""},
	} {
		t.Run(test.name, func(t *testing.T) {
			var c content
			isError := c.read([]byte(test.raw))
			text := c.text()
			if text != test.want || isError {
				t.Errorf("got %q, error %v; want %q", text, isError, test.want)
			}
		})
	}
	for _, test := range []struct{ name, raw, want string }{
		{"error", `{"content":[{"type":"text","text":"disk full"}],"isError":true}`, "disk full"},
		{"error with another payload", `{"isError":true,"reason":"full"}`, `{"reason":"full"}`},
		{"a task that nobody asked for", `{"resultType":"task","task":{"taskId":"1","status":"working"}}`,
			`the server gave no result, but an answer of the kind "task", which is not known here. {"task":{"taskId":"1","status":"working"}}`},
		{"a task of 2025-11-25", `{"task":{"taskId":"1"}}`, `the server gave no result, but an answer of the kind "task", which is not known here. {"task":{"taskId":"1"}}`},
		{"an unknown kind", `{"resultType":"weird"}`, `the server gave no result, but an answer of the kind "weird", which is not known here.`},
		{"error without text", `{"content":[],"isError":true}`, "(no output)"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var c content
			isError := c.read([]byte(test.raw))
			text := c.text()
			if text != test.want || !isError {
				t.Errorf("got %q, error %v; want %q", text, isError, test.want)
			}
		})
	}
}

func TestDataURLs(t *testing.T) {
	long, short := strings.Repeat("QUJD", 1000), strings.Repeat("QUJD", 10)
	escaped := strings.ReplaceAll(strings.Repeat("QU/D", 1000), "/", `\/`)
	png := strings.Repeat("A", 600)
	for _, test := range []struct{ name, text, want string }{
		{"in a page", "<img src=\"data:image/gif;base64," + long + "==\"> and more", "<img src=\"[data image/gif, 3000 bytes]\"> and more"},
		{"two", "a data:x/y;base64," + long + " b data:;base64," + long + " c", "a [data x/y, 3000 bytes] b [data , 3000 bytes] c"},
		{"with parameters", "data:text/plain;charset=utf-8;base64," + long + "\nend", "[data text/plain, 3000 bytes]\nend"},
		{"in JSON with escaped slashes", `{"url":"data:image\/png;base64,` + escaped + `\nnext"}`, `{"url":"[data image/png, 3000 bytes]\nnext"}`},
		{"a short one", "data:text/plain;base64," + short, "data:text/plain;base64," + short},
		{"not base64", "data:image/svg+xml;utf8,<svg>" + long, "data:image/svg+xml;utf8,<svg>" + long},
		{"nothing but a picture", "data:image/png;base64,iVBORw0KGgo" + png, "[image image/png, 458 bytes]"},
	} {
		for _, raw := range []string{`{"content":[{"type":"text","text":` + encode(test.text) + `}]}`, `{"content":[{"type":"resource","resource":{"uri":"u","text":` + encode(test.text) + `}}]}`} {
			var c content
			c.read([]byte(raw))
			want := test.want
			if strings.Contains(raw, `"uri"`) {
				want = "[resource u]\n" + strings.Replace(want, "[image image/png", "[data image/png", 1)
			}
			if text := c.text(); text != want {
				t.Errorf("%s: %.200q", test.name, text)
			}
		}
	}
}

// What cannot be read of resources and prompts is told too.
func TestOddReads(t *testing.T) {
	for _, test := range []struct{ kind, raw, want string }{
		{KindResource, `{"text":"hello"}`, `{"text":"hello"}`},
		{KindResource, `{"contents":[{"uri":"x://a","json":{"a": 1}}]}`, "[resource x://a]\n{\"json\":{\"a\":1}}"},
		{KindTemplate, `"plain"`, "plain"},
		{KindResource, `{"contents":[]}`, "(no output)"},
		{KindPrompt, `{"description":"d","prompt":"do it"}`, `{"description":"d","prompt":"do it"}`},
	} {
		var c content
		if isError := (&tool{kind: test.kind}).read(&c, []byte(test.raw)); isError || c.text() != test.want {
			t.Errorf("%s of %s: %q, error %v", test.kind, test.raw, c.text(), isError)
		}
	}
}
