package chat

import (
	"crypto/rand"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/gjson"
)

// Errors that a segment's stream can end with, besides *UpstreamError.
var (
	ErrTruncated = errors.New("the provider's stream ended before the answer was complete")
	ErrMalformed = errors.New("the provider's stream has an event that is not a JSON object")
)

// Relay makes one stream of chunks for the client out of the chunk streams of a
// turn's segments: one id, one role, one finish, and no trace of MCP calls. What
// it need not change it passes on as it came.
//
// For each segment call Begin, then Chunk for the data of every event, then End;
// after the last segment Finish.
type Relay struct {
	Known     func(name string) bool // any function of this request
	Hidden    func(name string) bool // calls of it stay inside
	Usage     bool                   // the client asked for usage
	Dialect   Dialect
	Requested string // model named in the request, for providers that name none
	Seed      string // tells the turn from others, for ids of calls that have none

	identity         bool   // the next three are fixed
	id, model        string // raw JSON
	created          string
	segment          int
	role             bool              // the client has a role
	tails            map[string]string // end of each text the client has
	separate         map[string]string // what its next piece is preceded by
	calls            int               // client calls handed out
	asm              *assembly
	choice           int64 // the choice this segment is about
	chosen           bool
	complete, done   bool
	finish, usage    string
	origin           Origin
	held, usageChunk string // templates of the last chunks
}

// Begin starts a segment.
func (r *Relay) Begin() {
	r.segment++
	r.separate = map[string]string{}
	for name, tail := range r.tails {
		r.separate[name] = separator(tail)
	}
	r.asm = &assembly{known: r.Known, ids: &callIDs{}}
	r.chosen, r.complete, r.done = false, false, false
	r.finish, r.usage, r.held, r.usageChunk = "", "", "", ""
	r.origin = Origin{}
}

// Chunk takes the data of one event, and gives the chunk that the client gets
// for it; "" for none.
func (r *Relay) Chunk(data string) (string, error) {
	if strings.TrimSpace(data) == "[DONE]" {
		r.complete, r.done = true, true
		return "", nil
	}
	if r.done {
		return "", nil
	}
	if !isObject(data) {
		return "", ErrMalformed
	}
	data = strings.ReplaceAll(data, "\n", " ") // several data lines become one
	chunk := gjson.Parse(data)
	if err := upstreamError(chunk.Get("error")); err != nil {
		return "", err
	}
	usage := chunk.Get("usage")
	if present(usage) {
		r.usage = usage.Raw
	}
	choice, at := r.choose(chunk.Get("choices"))
	if !choice.Exists() {
		return r.notice(data, chunk, present(usage)), nil
	}
	r.identify(chunk)
	if r.origin.ID == "" {
		r.origin = readOrigin(chunk)
	}
	r.asm.ids.seed = r.seed()
	if usage.Exists() && (!r.Usage || present(usage)) {
		data = remove(data, "usage")
	}
	delta := choice.Get("delta")
	r.asm.add(delta)
	if reason := choice.Get("finish_reason").String(); reason != "" {
		r.complete, r.finish = true, reason
		r.asm.finalizeAll()
	}
	if at != 0 || chunk.Get("choices.1").Exists() { // other choices are not ours to show
		data = set(data, "choices", "["+choice.Raw+"]")
	}
	if data = r.show(data, delta); data != "" {
		data = r.stamp(data, chunk)
	}
	return data, nil
}

// choose finds the choice of this segment; requests with n > 1 never come here.
func (r *Relay) choose(choices gjson.Result) (choice gjson.Result, at int) {
	for i, c := range choices.Array() {
		if index := c.Get("index").Int(); !r.chosen || index == r.choice {
			r.chosen, r.choice = true, index
			return c, i
		}
	}
	return gjson.Result{}, 0
}

// notice handles a chunk without our choice: usage is held, anything else of the
// first segment (a content filter's report, say) is passed on.
func (r *Relay) notice(data string, chunk gjson.Result, usage bool) string {
	if usage {
		r.usageChunk = data
		return ""
	}
	if r.segment > 1 || chunk.Get("choices.0").Exists() {
		return ""
	}
	if r.identity {
		data = r.stamp(data, chunk)
	}
	if !r.Usage {
		data = remove(data, "usage")
	}
	return data
}

// identify fixes what all chunks of the turn have in common, by the first chunk.
func (r *Relay) identify(chunk gjson.Result) {
	if r.identity {
		return
	}
	r.identity = true
	r.id, r.created, r.model = quote("chatcmpl-"+rand.Text()), formatInt(time.Now().Unix()), quote(r.Requested)
	if id := chunk.Get("id"); id.String() != "" {
		r.id = id.Raw
	}
	if created := chunk.Get("created"); created.Type == gjson.Number {
		r.created = created.Raw
	}
	if model := chunk.Get("model"); model.String() != "" {
		r.model = model.Raw
	}
}

// ID is the completion's id as the client sees it; "" before the first chunk.
func (r *Relay) ID() string { return gjson.Parse(r.id).String() }

// stamp puts the turn's identity on a chunk.
func (r *Relay) stamp(data string, chunk gjson.Result) string {
	for _, m := range [...]struct{ name, raw string }{{"id", r.id}, {"object", `"chat.completion.chunk"`}, {"created", r.created}, {"model", r.model}} {
		if chunk.Get(m.name).Raw != m.raw {
			data = set(data, m.name, m.raw)
		}
	}
	return data
}

// End closes a segment. It gives the whole reply, and a last chunk for the client
// if something is still to be shown ("" if not).
func (r *Relay) End() (*Reply, string, error) {
	if !r.complete {
		return nil, "", ErrTruncated
	}
	r.asm.finalizeAll()
	last := ""
	if entries := r.fragments(); len(entries) > 0 {
		last = r.blank(`{"tool_calls":[` + join(entries) + `]}`)
	}
	ids := &callIDs{seed: r.seed()}
	reply := newReply(r.asm.message(), r.finish, r.usage, ids, r.Dialect)
	reply.Origin = r.origin
	return reply, last, nil
}

// seed tells the calls of this segment from those of others.
func (r *Relay) seed() string { return r.Seed + "/" + strconv.Itoa(r.segment) }

// blank is a chunk with the turn's identity and the given delta.
func (r *Relay) blank(delta string) string {
	return `{"id":` + r.id + `,"object":"chat.completion.chunk","created":` + r.created + `,"model":` + r.model +
		`,"choices":[{"index":0,"delta":` + delta + `,"finish_reason":null}]}`
}

// Name fixes what all chunks of the turn have in common without waiting for the
// provider's first, for an answer that must begin before it.
func (r *Relay) Name() { r.identify(gjson.Result{}) }

// Idle is a chunk that says nothing, a keep-alive for clients that choke on
// comments; "" as long as no chunk came from the provider.
func (r *Relay) Idle() string {
	if !r.identity {
		return ""
	}
	return r.blank("{}")
}

// Say is a chunk with text of the gateway's own, after that of the latest segment.
func (r *Relay) Say(text string) string {
	r.Name()
	text = separator(r.tails["content"]) + text
	r.keepTail("content", text)
	return r.blank(r.inRole(`{"content":` + quote(text) + "}"))
}

// Give is a chunk with calls of the gateway's own.
func (r *Relay) Give(calls []Call) string {
	r.Name()
	var entries [][]byte
	for _, c := range calls {
		entries = append(entries, []byte("{"+index(r.calls)+c.shown[1:]))
		r.calls++
	}
	return r.blank(r.inRole(`{"tool_calls":[` + join(entries) + "]}"))
}

// inRole gives the client the role with the first delta.
func (r *Relay) inRole(delta string) string {
	if r.role {
		return delta
	}
	r.role = true
	return `{"role":"assistant",` + delta[1:]
}

// Finish gives the last chunks of the stream: the finish, and the usage if the
// client asked for it. Extensions go on the very last one.
func (r *Relay) Finish(reason, usage, extensions string) []string {
	r.Name()
	last := r.blank("{}")
	if r.held != "" {
		last = r.stamp(r.held, gjson.Parse(r.held))
	}
	last = set(last, "choices.0.finish_reason", quote(reason))
	if !r.role {
		r.role = true
		last = set(last, "choices.0.delta.role", `"assistant"`)
	}
	if !r.Usage || usage == "" {
		return []string{set(last, "extensions.mcp_via_llm", extensions)}
	}
	total := r.usageChunk
	if total == "" {
		total = set(remove(last, "extensions"), "choices", "[]")
	}
	total = r.stamp(total, gjson.Parse(total))
	if gjson.Get(total, "usage").Raw != usage {
		total = set(total, "usage", usage)
	}
	return []string{last, set(total, "extensions.mcp_via_llm", extensions)}
}

// Done says that the segment's [DONE] has come: whatever follows is not read.
func (r *Relay) Done() bool { return r.done }
