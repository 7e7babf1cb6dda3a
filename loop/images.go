package loop

import (
	"fmt"
	"slices"

	"github.com/mcp-via-llm/mcp-via-llm/chat"
)

const (
	// maxTurnImages bounds the images that one turn shows the model, in bytes of
	// base64. Providers refuse requests over some 20 to 50 MB.
	maxTurnImages = 16 << 20
	// maxKeptImages bounds the images that are kept with one result until the model
	// has seen it. A store takes values of 8 MiB.
	maxKeptImages = 7 << 20
)

// How the model gets images, in Client.Images.
const (
	imagesAfter  = "user_message" // in one user message after the results of a round
	imagesWithin = "tool_message" // in the tool message
)

// shows says whether the model gets images at all.
func (t *turn) shows() bool { return t.client.Images == imagesAfter || t.client.Images == imagesWithin }

// block makes the tool messages for the calls of one reply. Nothing may stand
// between them: images that do not go into them come after the last one.
type block struct {
	t     *turn
	parts [][]byte
}

func (t *turn) newBlock() *block { return &block{t: t} }

// add makes the message for a call, and says whether it has images.
func (b *block) add(c heldCall, r Result) (raw []byte, within bool) {
	images, text := b.t.room(r)
	switch {
	case len(images) == 0:
	case b.t.client.Images == imagesWithin:
		parts := [][]byte{chat.TextPart(text)}
		for _, i := range images {
			parts = append(parts, chat.ImagePart(i.MIME, i.Data))
		}
		return chat.ToolParts(c.id, parts...), true
	default:
		b.parts = append(b.parts, chat.TextPart(fmt.Sprintf("[Images in the result of the call %s of %s:]", c.id, c.name)))
		for _, i := range images {
			b.parts = append(b.parts, chat.ImagePart(i.MIME, i.Data))
		}
	}
	return chat.ToolMessage(c.id, text), false
}

// after gives the user message with the images; nil if there are none.
func (b *block) after() []byte {
	if len(b.parts) == 0 {
		return nil
	}
	return chat.PartsMessage("user", b.parts...)
}

// room gives the images of a result for which the turn has room, and the text, which
// says so if there was not enough.
func (t *turn) room(r Result) (images []Image, text string) {
	if !t.shows() {
		return nil, r.Text
	}
	left := 0
	for _, i := range r.Images {
		if t.shown+len(i.Data) > maxTurnImages {
			left++
			continue
		}
		t.shown += len(i.Data)
		images = append(images, i)
	}
	if text = r.Text; left > 0 {
		text += fmt.Sprintf("\n[%d of the images are not shown: this turn has shown enough of them.]", left)
	}
	return images, text
}

// bounded gives the images that can be kept with a result, and says so in its text
// if that is not all.
func (r Result) bounded() Result {
	size := 0
	for n, i := range r.Images {
		if size += len(i.Data); size > maxKeptImages {
			r.Text += fmt.Sprintf("\n[%d of the images are not shown: together they are too large to be kept.]", len(r.Images)-n)
			r.Images = r.Images[:n]
			break
		}
	}
	return r
}

// withoutImages gives a hidden message without its images: nil if nothing is left
// of it. It says whether there were any.
func withoutImages(raw []byte) (plain []byte, had bool) {
	m := chat.ReadMessage(string(raw))
	if !m.Images() {
		return raw, false
	}
	if m.Role != "tool" {
		return nil, true // it was there for them alone
	}
	return chat.ToolMessage(m.CallID, m.PartText()), true
}

// keepable is the hidden history of a turn as it is stored: with its latest images,
// as far as a whole history may be. Of the others the markers remain.
func (t *turn) keepable() [][]byte {
	limit := t.client.HistoryMaxBytes
	if !t.shows() || limit <= 0 {
		return t.added
	}
	out := make([][]byte, 0, len(t.added))
	size := 0
	for i := len(t.added) - 1; i >= 0; i-- {
		raw := t.added[i]
		if plain, had := withoutImages(raw); had {
			if size += len(raw); size > limit {
				raw = plain
			}
		}
		if raw != nil {
			out = append(out, raw)
		}
	}
	slices.Reverse(out)
	return out
}
