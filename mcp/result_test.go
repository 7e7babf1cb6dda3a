package mcp

import "testing"

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
