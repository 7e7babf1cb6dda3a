package loop

import (
	"bytes"
	"crypto/sha256"
	"time"

	"github.com/mcp-via-llm/mcp-via-llm/chat"
)

// record is what stands for one of the assistant's visible messages when the
// model is asked again: everything that the model saw in that turn.
type record struct {
	before  [][]byte       // messages of the turn's earlier segments
	message []byte         // the assistant's last message, whole
	calls   []heldCall     // its tool calls, if some were run here and some by the client
	visible []byte         // hash of the text that the client saw
	results map[int]Result // of the hidden calls, by place, as far as they are there
	attempt string         // tells the results of this turn from those of its twin, if two had the same words
	buried  bool           // the results have expired
	span    string         // of the mixed turn, as at gives it
	segment string         // the same of its last segment; not stored

	about     string        // anchor/attempt of the record whose calls the visible message asks about; such a one stands for nothing itself
	openUntil time.Time     // when the visible message, a question to the user, takes no answer any more; zero if it is none
	decision  *decision     // what the user's answer meant for the calls that ask; nil if there is none yet
	questions []elicitation // of MCP servers
}

// heldCall is a call of a mixed turn.
type heldCall struct {
	id         string
	name       string
	arguments  string
	hidden     bool   // run here; others are the client's
	repeatable bool   // running it twice does no harm
	asks       bool   // runs only when the user has agreed
	target     string // what Tools.Target said when it was held; "" if it was not asked
}

// What the model is told in place of results that are not there.
const (
	noticeExpired = "Error: the result of this call has expired. Call the tool again if it is still needed."
	noticeUnknown = "Error: the outcome of this call is unknown, because it was interrupted. It may have taken effect. Find out before you call it again."
	noticeNone    = "The application sent no result for this call."
	noticeTrimmed = "[The result of this earlier call was left out to save space.]"

	noticeMoved = "Error: this call was not run: the tool that it was meant for is not there any more, and the call may now mean another one. Look at the tools that there are."

	noticeDenied     = "The user denied this call. It was not run."
	noticeLate       = "This call was not run: the user's approval came too late. Call the tool again if it is still needed; the user is then asked again."
	noticeUnanswered = "This call was not run: it needs the user's approval, and the user did not answer."
	badUnshowable    = "the user must approve this call first, and they are too large to be shown to the user"
	noticeUnaskable  = "Error: this call was not run: it needs the user's approval, and the user cannot be asked at the moment."
)

// missing gives the places of hidden calls that may run and have no result yet.
func (r *record) missing() (at []int) {
	for i, c := range r.calls {
		if _, ok := r.results[i]; c.hidden && !ok && (!c.asks || r.decision.allows(i)) {
			at = append(at, i)
		}
	}
	return at
}

// asking gives the places of the calls that run only when the user has agreed.
func (r *record) asking() (at []int) {
	for i, c := range r.calls {
		if c.asks {
			at = append(at, i)
		}
	}
	return at
}

// undecided says whether the user's answer is still to come.
func (r *record) undecided() bool { return r.decision == nil && !r.buried && len(r.asking()) > 0 }

// result gives what the model is told of hidden call i.
func (r *record) result(i int) Result {
	if result, there := r.results[i]; there {
		return result
	}
	notice := noticeExpired
	if r.calls[i].asks && !r.buried && !r.decision.allows(i) {
		switch {
		case r.decision == nil:
			notice = noticeUnanswered
		case r.decision.late:
			notice = noticeLate
		default:
			notice = noticeDenied
		}
	}
	return Result{Text: notice}
}

// edited says whether the client changed the text it had seen beside its calls.
// Many clients drop it; that is no edit.
func (r *record) edited(visible chat.Message) bool {
	return len(visible.CallIDs) > 0 && visible.Text() != "" && !bytes.Equal(hashText(visible.Text()), r.visible)
}

func hashText(s string) []byte {
	sum := sha256.Sum256([]byte(chat.NormalText(s)))
	return sum[:]
}

// piece is one message of an unfolded record.
type piece struct {
	raw    []byte // nil if nothing is left of it
	result string // id of the hidden call that it is the result of
	images bool   // it has images
}

// unfold gives the messages that stand for the visible one and for the client's results
// of its calls: together with hidden results in the order of the model's calls.
func (r *record) unfold(results []chat.Message, b *block) []piece {
	var out []piece
	for _, raw := range r.before {
		p := piece{raw: raw}
		m := chat.ReadMessage(string(raw))
		if p.images = m.Images(); m.Role == "tool" {
			p.result = m.CallID
		}
		out = append(out, p)
	}
	out = append(out, piece{raw: r.message})
	if len(r.calls) == 0 {
		for _, m := range results {
			out = append(out, piece{raw: []byte(m.Raw)})
		}
		return out
	}
	given := map[string]chat.Message{}
	for _, m := range results {
		given[m.CallID] = m
	}
	for i, c := range r.calls {
		switch m, ok := given[c.id]; {
		case c.hidden:
			raw, images := b.add(c, r.result(i))
			out = append(out, piece{raw, c.id, images})
		case ok:
			out = append(out, piece{raw: []byte(m.Raw)})
			delete(given, c.id)
		default:
			out = append(out, piece{raw: chat.ToolMessage(c.id, noticeNone)})
		}
	}
	for _, m := range results { // results of calls that nobody made go on as they came
		if _, left := given[m.CallID]; left && !isQuestion(m.CallID) {
			out = append(out, piece{raw: []byte(m.Raw)})
		}
	}
	if images := b.after(); images != nil {
		out = append(out, piece{raw: images, images: true})
	}
	return out
}

// trim takes the oldest images out, and then replaces the oldest hidden results by a
// notice, where all of them together have more than limit bytes. Those of fresh count, but stay: the model has not
// seen them yet. It cuts in steps of a quarter of the limit, so that
// the beginning of the history stays the same for several turns and a provider's
// prompt cache keeps hitting. Calls, ids and order stay.
func trim(all [][]piece, fresh []piece, limit int) {
	total := resultBytes(fresh)
	for _, pieces := range all {
		total += resultBytes(pieces)
	}
	if limit <= 0 || total <= limit {
		return
	}
	step := max(limit/4, 1)
	cut := (total - limit + step - 1) / step * step
	for _, shorten := range []func(p *piece){
		func(p *piece) {
			if p.images {
				plain, _ := withoutImages(p.raw)
				cut -= len(p.raw) - len(plain)
				p.raw, p.images = plain, false
			}
		},
		func(p *piece) {
			if p.result != "" {
				cut -= len(p.raw)
				p.raw = chat.ToolMessage(p.result, noticeTrimmed)
			}
		},
	} {
		for _, pieces := range all {
			for i := range pieces {
				if cut > 0 {
					shorten(&pieces[i])
				}
			}
		}
	}
}

func resultBytes(pieces []piece) (n int) {
	for _, p := range pieces {
		if p.result != "" || p.images {
			n += len(p.raw)
		}
	}
	return n
}
