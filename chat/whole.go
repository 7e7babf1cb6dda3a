package chat

import (
	"strconv"
	"strings"

	"github.com/tidwall/gjson"
)

// Whole makes one completion for the client out of the completions of a turn's
// segments: the counterpart of Relay for answers that are not streamed.
//
// Call Add for each segment, and after the last one Finish.
type Whole struct {
	Hidden  func(name string) bool // calls of it stay inside
	Dialect Dialect
	Seed    string // as Relay's

	segment  int
	first    string            // completion of the first segment
	last     string            // completion of the latest
	at       string            // path of its choice
	reply    *Reply            // what it says
	extended bool              // it has extensions
	texts    map[string]string // text of earlier segments, by member name
	said     string            // text of the gateway's own, after that of the model
	given    []Call            // calls of the gateway's own
}

// Say adds text of the gateway's own after that of the latest segment.
func (w *Whole) Say(text string) { w.said = JoinText(w.said, text) }

// Give adds calls of the gateway's own after those of the latest segment.
func (w *Whole) Give(calls []Call) { w.given = append(w.given, calls...) }

// Add takes the completion of the next segment. An answer without a choice that
// has a message is ErrMalformed, one with an error an *UpstreamError.
func (w *Whole) Add(completion string) (*Reply, error) {
	if !isObject(completion) {
		return nil, ErrMalformed
	}
	root := members(completion, "error", "choices", "usage", "extensions", "id", "model", "service_tier", "system_fingerprint")
	if err := upstreamError(root[0]); err != nil {
		return nil, err
	}
	choice := members(root[1].Get("0").Raw, "message", "finish_reason")
	message := choice[0]
	if !message.IsObject() {
		return nil, ErrMalformed
	}
	if w.reply != nil {
		w.keepTexts()
	}
	w.segment++
	w.last, w.at = completion, "choices.0"
	if w.first == "" {
		w.first = completion
	}
	usage := ""
	if u := root[2]; present(u) {
		usage = u.Raw
	}
	w.extended = root[3].Exists()
	w.reply = newReply(message.Raw, choice[1].String(), usage, &callIDs{seed: w.Seed, segment: w.segment}, w.Dialect)
	w.reply.Origin = origin(root[4:])
	return w.reply, nil
}

// keepTexts moves the text of the latest segment to that of the earlier ones.
func (w *Whole) keepTexts() {
	if w.texts == nil {
		w.texts = map[string]string{}
	}
	for _, name := range textMembers {
		if v := gjson.Get(w.reply.shown, name); v.Type == gjson.String && v.String() != "" {
			w.texts[name] = JoinText(w.texts[name], v.String())
		}
	}
}

// Finish gives the completion for the client. One segment without MCP calls comes
// back byte for byte, save the extensions.
func (w *Whole) Finish(reason, usage, extensions string) []byte {
	if w.untouched(reason, usage) {
		end := strings.LastIndexByte(w.last, '}')
		return splice(w.last, []cut{{end, end, `,"extensions":{"mcp_via_llm":`}, {end, end, extensions}, {end, end, "}"}})
	}
	return []byte(set(w.edited(reason, usage), "extensions.mcp_via_llm", extensions))
}

// edited is the latest completion with what the turn's others and the gateway have said.
func (w *Whole) edited(reason, usage string) string {
	out := w.last
	message := w.at + ".message"
	for _, name := range textMembers {
		before, after := w.texts[name], ""
		if name == "content" {
			after = w.said
		}
		now := gjson.Get(w.reply.shown, name)
		switch other := present(now) && now.Type != gjson.String; {
		case other && after != "" && now.IsArray():
			out = set(out, message+"."+name+".-1", `{"type":"text","text":`+quote(after)+"}")
		case before+after == "" || other:
		default:
			out = set(out, message+"."+name, quote(JoinText(JoinText(before, now.String()), after)))
		}
	}
	out = w.showCalls(out, message+".tool_calls")
	if have := gjson.Get(out, w.at+".finish_reason"); have.String() != reason {
		out = set(out, w.at+".finish_reason", quote(reason))
	}
	if w.segment > 1 {
		for _, name := range []string{"id", "created", "model"} {
			if v := gjson.Get(w.first, name); v.Exists() && v.Raw != gjson.Get(out, name).Raw {
				out = set(out, name, v.Raw)
			}
		}
	}
	if usage != "" && gjson.Get(out, "usage").Raw != usage {
		out = set(out, "usage", usage)
	}
	return out
}

// untouched says whether all that the client gets is the latest completion, with
// extensions besides.
func (w *Whole) untouched(reason, usage string) bool {
	return w.segment == 1 && w.said == "" && len(w.given)+len(w.reply.Calls) == 0 && !w.extended &&
		w.reply.Finish == reason && (usage == "" || usage == w.reply.Usage)
}

// showCalls leaves only the client's own calls in the message.
func (w *Whole) showCalls(out, path string) string {
	var own [][]byte
	for _, c := range w.reply.Calls {
		if !w.Hidden(c.Name) {
			own = append(own, []byte(c.shown))
		}
	}
	for _, c := range w.given {
		own = append(own, []byte(c.shown))
	}
	switch {
	case len(w.reply.Calls)+len(own) == 0:
		return out
	case len(own) == 0:
		return remove(out, path)
	case len(own) == len(w.reply.Calls) && len(w.given) == 0 && !w.changed():
		return out
	}
	return set(out, path, "["+join(own)+"]")
}

// changed says whether any call's entry differs from what the provider sent.
func (w *Whole) changed() bool {
	for i, entry := range gjson.Get(w.reply.shown, "tool_calls").Array() {
		if entry.Raw != w.reply.Calls[i].shown {
			return true
		}
	}
	return false
}

// AsChunk makes one chunk of a completion, for a provider that answers a request
// for a stream with a whole completion; "" if it is none.
func AsChunk(completion string) string {
	message := gjson.Get(completion, "choices.0.message")
	if !isObject(completion) || !message.IsObject() {
		return ""
	}
	delta := message.Raw
	for i := range gjson.Get(delta, "tool_calls").Array() {
		delta = set(delta, "tool_calls."+strconv.Itoa(i)+".index", strconv.Itoa(i))
	}
	choice := set(remove(gjson.Get(completion, "choices.0").Raw, "message"), "delta", delta)
	return set(set(completion, "choices", "["+choice+"]"), "object", `"chat.completion.chunk"`)
}

// AsCompletion makes one completion of a stream's chunks, for a provider that
// streams although the request did not ask for it. It takes the data of every
// event; model and seed are as in Relay.
func AsCompletion(events []string, model, seed string) (string, error) {
	all := func(string) bool { return true }
	r := &Relay{Known: all, Hidden: all, Usage: true, Requested: model, Seed: seed}
	r.Begin()
	for _, data := range events {
		if strings.TrimSpace(data) == "" {
			continue
		}
		if _, err := r.Chunk(data); err != nil {
			return "", err
		}
	}
	if !r.complete {
		return "", ErrTruncated
	}
	r.Name()
	r.asm.finalizeAll()
	reason := "null"
	if r.finish != "" {
		reason = quote(r.finish)
	}
	out := `{"id":` + r.id + `,"object":"chat.completion","created":` + r.created + `,"model":` + r.model +
		`,"choices":[{"index":0,"message":` + r.asm.message() + `,"finish_reason":` + reason + `}]`
	if r.usage != "" {
		out += `,"usage":` + r.usage
	}
	return out + "}", nil
}
