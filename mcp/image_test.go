package mcp

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

const (
	png  = "iVBORw0KGgo="
	gif  = "R0lGODlhAQABAAAAACw="
	jpeg = "/9j/4AAQSkZJRg=="
	webp = "UklGRgAAAABXRUJQVlA4IAA="
)

// Pictures are kept beside the text, with the type that they are, and never in it.
func TestImages(t *testing.T) {
	image := func(members string) string { return `{"content":[{"type":"image",` + members + `}]}` }
	for name, test := range map[string]struct{ raw, text, want string }{
		"png":                {image(`"mimeType":"image/png","data":"` + png + `"`), "[image image/png, 8 bytes]", "image/png " + png},
		"jpeg":               {image(`"mimeType":"image/jpeg","data":"` + jpeg + `"`), "[image image/jpeg, 10 bytes]", "image/jpeg " + jpeg},
		"webp":               {image(`"mimeType":"image/webp","data":"` + webp + `"`), "[image image/webp, 17 bytes]", "image/webp " + webp},
		"no type":            {image(`"data":"` + gif + `"`), "[image image/gif, 14 bytes]", "image/gif " + gif},
		"null type":          {image(`"mimeType":null,"data":"` + gif + `"`), "[image image/gif, 14 bytes]", "image/gif " + gif},
		"jpg":                {image(`"mimeType":"image/jpg","data":"` + jpeg + `"`), "[image image/jpeg, 10 bytes]", "image/jpeg " + jpeg},
		"the wrong type":     {image(`"mimeType":"image/png","data":"` + jpeg + `"`), "[image image/jpeg, 10 bytes]", "image/jpeg " + jpeg},
		"no type of image":   {image(`"mimeType":"application/octet-stream","data":"` + png + `"`), "[image image/png, 8 bytes]", "image/png " + png},
		"not shown":          {image(`"mimeType":"image/svg+xml","data":"PHN2Zy8+"`), "[image image/svg+xml, 6 bytes]", ""},
		"bmp":                {image(`"mimeType":"image/bmp","data":"Qk0="`), "[image image/bmp, 2 bytes]", ""},
		"not an image":       {image(`"mimeType":"image/png","data":"aGVsbG8="`), "[image image/png, 5 bytes]", ""},
		"nothing known":      {image(`"data":"aGVsbG8="`), "[image, 5 bytes]", ""},
		"unpadded":           {image(`"data":"iVBORw0KGgo"`), "[image image/png, 8 bytes]", "image/png " + png},
		"in lines":           {image(`"data":"iVBO\nRw0K\r\nGgo=\n"`), "[image image/png, 8 bytes]", "image/png " + png},
		"URL alphabet":       {image(`"data":"_9j_4AAQSkZJRg"`), "[image image/jpeg, 10 bytes]", "image/jpeg " + jpeg},
		"a data URI":         {image(`"data":"data:image/png;base64,` + png + `"`), "[image image/png, 8 bytes]", "image/png " + png},
		"broken":             {image(`"mimeType":"image/png","data":"***"`), "[image image/png, unreadable data]", ""},
		"cut off":            {image(`"data":"iVBORw0KG"`), "[image, unreadable data]", ""},
		"no data":            {image(`"mimeType":"image/png"`), "[image image/png, 0 bytes]", ""},
		"audio":              {`{"content":[{"type":"audio","mimeType":"audio/wav","data":"UklGRg=="}]}`, "[audio audio/wav, 4 bytes]", ""},
		"audio without type": {`{"content":[{"type":"audio","data":"UklGRgAAAABXQVZF"}]}`, "[audio audio/wave, 12 bytes]", ""},
		"audio, wrong type":  {`{"content":[{"type":"audio","mimeType":"text/plain","data":"AAAA"}]}`, "[audio, 3 bytes]", ""},
		"broken audio":       {`{"content":[{"type":"audio","mimeType":"audio/mp3","data":"!"}]}`, "[audio audio/mp3, unreadable data]", ""},
		"an embedded image":  {`{"content":[{"type":"resource","resource":{"uri":"a://b","mimeType":"image/png","blob":"` + png + `"}}]}`, "[resource a://b image/png, 8 bytes]", "image/png " + png},
		"another resource":   {`{"content":[{"type":"resource","resource":{"uri":"a://b","mimeType":"application/pdf","blob":"` + png + `"}}]}`, "[resource a://b application/pdf, 8 bytes]", ""},
		"only structured": {`{"content":[],"structuredContent":{"result":[{"type":"image","mimeType":"image/png","data":"` + png + `"},{"id":9007199254740993, "type":"image"}]}}`,
			`{"result":["[image image/png, 8 bytes]",{"id":9007199254740993,"type":"image"}]}`, "image/png " + png},
		"both": {`{"content":[{"type":"text","text":"page"},{"type":"image","mimeType":"image/png","data":"` + png + `"}],"structuredContent":{"result":[{"type":"image","data":"` + png + `"}]}}`,
			"page\n[image image/png, 8 bytes]", "image/png " + png},
	} {
		t.Run(name, func(t *testing.T) {
			var c content
			c.read([]byte(test.raw))
			var got []string
			for _, image := range c.images {
				got = append(got, image.MIME+" "+image.Data)
			}
			if c.text() != test.text || strings.Join(got, "\n") != test.want {
				t.Errorf("%q with %q", c.text(), got)
			}
		})
	}
}

// Neither the words of a data: URL nor its type have a case.
func TestDataURLsInCapitals(t *testing.T) {
	long := strings.Repeat("QUJD", 200)
	for in, want := range map[string]string{
		`{"type":"text","text":"DATA:IMAGE/PNG;BASE64,` + png + `"}`:                         "[image image/png, 8 bytes]",
		`{"type":"text","text":"see Data:Application/PDF;Base64,` + long + ` there"}`:        "see [data application/pdf, 600 bytes] there",
		`{"type":"text","text":"{\"u\":\"DATA:image\\/x;charset=a;BASE64,` + long + `\"}"}`:  `{"u":"[data image/x, 600 bytes]"}`,
		`{"type":"image","mimeType":"image/png","data":"DATA:image/png;BASE64,` + png + `"}`: "[image image/png, 8 bytes]",
		`{"type":"text","text":"a; b;base64 c;BASE64"}`:                                      "a; b;base64 c;BASE64",
	} {
		var c content
		if c.read([]byte(`{"content":[` + in + `]}`)); c.text() != want {
			t.Errorf("%.60s: %.200q", in, c.text())
		}
	}
}

// Base64 in lines is taken out as a whole, and what follows it stays.
func TestDataURLsInLines(t *testing.T) {
	data := func(size int) string { return base64.StdEncoding.EncodeToString(make([]byte, size)) }
	wrap := func(text string, width int, brk string) string {
		var lines []string
		for ; len(text) > width; text = text[width:] {
			lines = append(lines, text[:width])
		}
		return strings.Join(append(lines, text), brk)
	}
	const head = "data:application/pdf;base64,"
	hash := strings.Repeat("0123456789abcdef", 4)
	for in, want := range map[string]string{
		"see " + head + wrap(data(3000), 76, "\r\n") + "\r\nthere":                       "see [data application/pdf, 3000 bytes]\r\nthere",
		"see " + head + wrap(data(3001), 64, "\n") + " there":                            "see [data application/pdf, 3001 bytes] there",
		head + "\n" + wrap(data(3002), 76, "\n") + "\n":                                  "[data application/pdf, 3002 bytes]\n",
		wrap(head+data(3000), 76, "\n") + "\nHere it is.":                                "[data application/pdf, 3000 bytes]\nHere it is.",
		head + wrap(data(57*60), 76, "\n") + "\nThat was it":                             "[data application/pdf, 3420 bytes]\nThat was it",
		`{"a":"` + head + wrap(data(3000), 76, `\r\n`) + `\r\n","b":1}`:                  `{"a":"[data application/pdf, 3000 bytes]\r\n","b":1}`,
		`{"a":"` + strings.ReplaceAll(wrap(head+data(3000), 76, `\n`), "/", `\/`) + `"}`: `{"a":"[data application/pdf, 3000 bytes]"}`,
		head + data(600) + "\n" + hash:                                                   "[data application/pdf, 600 bytes]\n" + hash,
		head + "AAAA\n" + strings.Repeat(hash+"\n", 20):                                  head + "AAAA\n" + strings.Repeat(hash+"\n", 20),
		head + wrap(data(90), 76, "\n"):                                                  head + wrap(data(90), 76, "\n"),
	} {
		if got := withoutData(in); got != want {
			t.Errorf("%.60q: %.200q, want %.200q", in, got, want)
		}
	}
	raw := append([]byte("\x89PNG\r\n\x1a\n"), make([]byte, 1000)...)
	var c content
	c.read([]byte(`{"content":[{"type":"text","text":"data:image/png;base64,` + wrap(base64.StdEncoding.EncodeToString(raw), 76, `\n`) + `"}]}`))
	if c.text() != "[image image/png, 1008 bytes]" || len(c.images) != 1 {
		t.Errorf("%q with %d images", c.text(), len(c.images))
	}
}

// A picture over the limit, or one too many, leaves a marker that says so.
func TestImageLimits(t *testing.T) {
	picture := func(size int) string {
		raw := append([]byte("\x89PNG\r\n\x1a\n"), make([]byte, size-8)...)
		return `{"type":"image","data":"` + base64.StdEncoding.EncodeToString(raw) + `"}`
	}
	for name, test := range map[string]struct {
		sizes []int
		kept  []int
	}{
		"just right":         {[]int{maxImage}, []int{0}},
		"too large":          {[]int{maxImage + 1}, nil},
		"too many":           {[]int{maxImage, maxImage, 8}, []int{0, 1}},
		"a small one fits":   {[]int{maxImage, maxImage + 1, maxImage - 8, 8, 8}, []int{0, 2, 3}},
		"large, then little": {[]int{2 * maxImage, 100}, []int{1}},
	} {
		var blocks []string
		for _, size := range test.sizes {
			blocks = append(blocks, picture(size))
		}
		var c content
		c.read([]byte(`{"content":[` + strings.Join(blocks, ",") + `]}`))
		lines := strings.Split(c.text(), "\n")
		if len(lines) != len(test.sizes) || len(c.images) != len(test.kept) {
			t.Errorf("%s: %q, %d images", name, lines, len(c.images))
			continue
		}
		for i, size := range test.sizes {
			want := fmt.Sprintf("[image image/png, %d bytes", size)
			if slices.Contains(test.kept, i) {
				want += "]"
			} else {
				want += ", too large to be shown]"
			}
			if lines[i] != want {
				t.Errorf("%s: %q, want %q", name, lines[i], want)
			}
		}
	}
}

// Images come with the result of a call, on every transport, and of a failed one
// too.
func TestImagesOfACall(t *testing.T) {
	t.Parallel()
	box := newToolbox()
	box.add("shot", "", `{"content":[{"type":"text","text":"page"},{"type":"image","mimeType":"image/png","data":"`+png+`"}]}`)
	box.add("fail", "", `{"isError":true,"content":[{"type":"image","mimeType":"image/png","data":"`+png+`"}]}`)
	h := newTestHost(t, config("box", stateful, box.serve(t, stateful)))
	b := toolsOf(t, h, "box").Bind(nil)
	if res := b.Call(t.Context(), "box__shot", ""); res.Text != "page\n[image image/png, 8 bytes]" || len(res.Images) != 1 || res.Images[0] != (Image{"image/png", png}) {
		t.Errorf("%+v", res)
	}
	if res := b.Call(t.Context(), "box__fail", ""); res.Text != "box__fail failed: [image image/png, 8 bytes]" || len(res.Images) != 1 || res.Outcome != OutcomeToolError {
		t.Errorf("%+v", res)
	}
}

func TestStructuredStaysExact(t *testing.T) {
	for _, text := range []string{
		`{"id":9007199254740993,"f":1.50,"e":1E+2,"s":"\u00e9<b>&\/","n":null,"t":true,"a":[],"o":{},"deep":[[{"x":[1,2]}]]}`,
		`[]`, `{}`, `"text"`, `12`, `[1,"a",{"type":"image"},{"type":"image","data":5}]`, `{"type":"audio","other":{"data":"x"}}`,
	} {
		var b strings.Builder
		(&content{}).structured(&b, gjson.Parse(text))
		if b.String() != text {
			t.Errorf("%s became %s", text, b.String())
		}
	}
	var b strings.Builder
	(&content{}).structured(&b, gjson.Parse(" { \"b\" : [ 1 ,\n2 ] , \"a\":\t\"x y\" } "))
	if b.String() != `{"b":[1,2],"a":"x y"}` {
		t.Error(b.String())
	}
}
