package loop

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-via-llm/mcp-via-llm/chat"
	"github.com/tidwall/gjson"
)

// picturesque gives a rig whose weather has pictures of the given sizes in base64.
func picturesque(g *rig, mode string, sizes ...int) *rig {
	g.client.Images = mode
	g.tools.run = func(_ context.Context, name, _ string) Result {
		r := Result{Text: "result of " + name, Outcome: "ok"}
		if name != "mcp_wx__now" {
			return r
		}
		for i, size := range sizes {
			r.Text += fmt.Sprintf(" [image image/png, %d bytes]", size)
			r.Images = append(r.Images, Image{"image/png", strings.Repeat(string(rune('A'+i)), size)})
		}
		return r
	}
	return g
}

// pictures gives what the model was sent last, with images as their kind and size.
func (g *rig) pictures() string {
	var out []string
	for _, m := range gjson.Get(g.model.asked(g.model.count()), "messages").Array() {
		line := m.Get("role").String() + m.Get("tool_call_id").String() + ":"
		if m.Get("content").IsArray() {
			for _, p := range m.Get("content").Array() {
				url := p.Get("image_url.url").String()
				if line += p.Get("text").String(); url != "" {
					line += fmt.Sprintf("<%s %d>", url[:strings.IndexByte(url, ',')], len(url)-1-strings.IndexByte(url, ','))
				}
			}
		} else {
			line += m.Get("content").String()
		}
		for _, c := range m.Get("tool_calls").Array() {
			line += "(" + c.Get("id").String() + ")"
		}
		out = append(out, line)
	}
	return strings.Join(out, "|")
}

const png = "<data:image/png;base64 "

// The model sees images in the way that its profile says, and never in the midst of
// a round's results.
func TestImages(t *testing.T) {
	for mode, want := range map[string]string{
		"describe": "user:Weather?|assistant:(c1)(c2)(c3)|toolc1:result of mcp_wx__now [image image/png, 8 bytes]|toolc2:result of mcp_clock__now|toolc3:result of mcp_wx__now [image image/png, 8 bytes]",
		imagesAfter: "user:Weather?|assistant:(c1)(c2)(c3)|toolc1:result of mcp_wx__now [image image/png, 8 bytes]|toolc2:result of mcp_clock__now|toolc3:result of mcp_wx__now [image image/png, 8 bytes]" +
			"|user:[Images in the result of the call c1 of mcp_wx__now:]" + png + "8>[Images in the result of the call c3 of mcp_wx__now:]" + png + "8>",
		imagesWithin: "user:Weather?|assistant:(c1)(c2)(c3)|toolc1:result of mcp_wx__now [image image/png, 8 bytes]" + png + "8>|toolc2:result of mcp_clock__now|toolc3:result of mcp_wx__now [image image/png, 8 bytes]" + png + "8>",
	} {
		t.Run(mode, func(t *testing.T) {
			for _, streaming := range []bool{false, true} {
				rigs, _, _ := replicas(t, 1)
				g, a := picturesque(rigs[0], mode, 8), &app{stream: streaming}
				a.answers(g, calls("mcp_wx__now", "{}", "mcp_clock__now", "{}", "mcp_wx__now", "{}"), says("Sunny."), says("Bye."))
				a.send(g, asks)
				if got := g.pictures(); got != want {
					t.Errorf("stream %v: the model saw\n%s, want\n%s", streaming, got, want)
				}
				a.send(g, thanks)
				if got := g.pictures(); got != want+"|assistant:Sunny.|user:Thanks." {
					t.Errorf("stream %v: in the next turn the model saw\n%s", streaming, got)
				}
			}
		})
	}
}

// In a mixed turn the images come after the client's results, too; in one that is
// replayed from its journal they are there again.
func TestImagesOfOtherTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rigs, _, _ := replicas(t, 2)
		picturesque(rigs[0], imagesAfter, 8)
		picturesque(rigs[1], imagesAfter, 8)
		a := &app{}
		a.answers(rigs[0], calls("mcp_wx__now", "{}", "book_table", "{}", "mcp_clock__now", "{}"))
		a.send(rigs[0], asks)
		time.Sleep(time.Second)
		a.answers(rigs[1], says("Done."), says("Bye."))
		a.send(rigs[1], booked)
		want := "user:Weather?|assistant:(c1)(c2)(c3)|toolc1:result of mcp_wx__now [image image/png, 8 bytes]|toolc2:booked|toolc3:result of mcp_clock__now" +
			"|user:[Images in the result of the call c1 of mcp_wx__now:]" + png + "8>"
		if got := rigs[1].pictures(); got != want {
			t.Errorf("the model saw\n%s, want\n%s", got, want)
		}
		a.send(rigs[1], thanks)
		if got := rigs[1].pictures(); got != want+"|assistant:Done.|user:Thanks." {
			t.Errorf("in the next turn the model saw\n%s", got)
		}
		b := &app{messages: []string{thanks}}
		b.answers(rigs[0], calls("mcp_wx__now", "{}"))
		rigs[0].answer(respond(500, "application/json", `{"error":{"message":"overloaded"}}`))
		b.again(rigs[0])
		b.answers(rigs[1], says("Sunny."))
		b.again(rigs[1])
		if got := rigs[1].pictures(); !strings.HasSuffix(got, "|user:[Images in the result of the call c1 of mcp_wx__now:]"+png+"8>") || rigs[1].model.count() != 3 {
			t.Errorf("after a break the model saw\n%s", got)
		}
	})
}

// One turn shows so much and no more; the history keeps what it has room for, the
// latest first; what is left of the others is their markers.
func TestImagesAreLimited(t *testing.T) {
	const mega = 1 << 20
	for _, mode := range []string{imagesAfter, imagesWithin} {
		rigs, _, _ := replicas(t, 1)
		g, a := picturesque(rigs[0], mode, 4*mega, 4*mega), &app{}
		call := calls("mcp_wx__now", "{}")
		a.answers(g, call, call, call, says("Sunny."), says("Bye."))
		a.send(g, asks)
		got := g.pictures()
		if strings.Count(got, png) != 4 || strings.Count(got, "[2 of the images are not shown") != 1 {
			t.Errorf("%s: the model saw %s", mode, got)
		}
		a.send(g, thanks)
		if got := g.pictures(); strings.Contains(got, png) || strings.Contains(got, "Images in") || strings.Count(got, "[image image/png, 4194304 bytes]") != 6 {
			t.Errorf("%s: in the next turn the model saw %s", mode, got)
		}
		// Small ones stay, until there are too many of them.
		g = picturesque(rigs[0], mode, 60_000)
		b := &app{messages: []string{thanks}}
		counts := ""
		for i := range 8 {
			b.answers(g, call, says(fmt.Sprintf("Sunny %d.", i)))
			b.send(g, user(fmt.Sprint(i)))
			counts += fmt.Sprint(strings.Count(g.pictures(), png))
		}
		if counts != "12345444" {
			t.Errorf("%s: %s images in one request after another", mode, counts)
		}
	}
	kept := Result{Text: "x", Images: []Image{{"image/png", strings.Repeat("A", 4*mega)}, {"image/png", strings.Repeat("A", 4*mega)}}}.bounded()
	if len(kept.Images) != 1 || !strings.HasPrefix(kept.Text, "x\n[1 of the images are not shown") {
		t.Errorf("%d images are kept: %s", len(kept.Images), kept.Text)
	}
}

// Where a message with images is cut, its text stays.
func TestWithoutImages(t *testing.T) {
	raw := chat.ToolParts("c1", chat.TextPart("a"), chat.ImagePart("image/png", "AA"))
	if got, had := withoutImages(raw); !had || string(got) != string(chat.ToolMessage("c1", "a")) {
		t.Errorf("%s", got)
	}
	if got, had := withoutImages(chat.ToolMessage("c1", "a")); had || string(got) != string(chat.ToolMessage("c1", "a")) {
		t.Errorf("%s", got)
	}
}
