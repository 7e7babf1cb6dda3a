package loop

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"regexp"
	"slices"

	"github.com/mcp-via-llm/mcp-via-llm/chat"
)

// tooLong is how providers and model servers say that a request has more tokens than
// the model, or one request of the account, takes: OpenAI, Azure, Anthropic, Bedrock,
// Gemini, Mistral, DeepSeek, Groq, vLLM, SGLang, TGI, llama.cpp, Ollama, LM Studio. Most
// do so with status 400, some with 413, 422, 429 or 500. Nothing of it fits a rate limit
// that passes with time.
var tooLong = regexp.MustCompile(`(?i)` +
	`context.?length|context.?window|(context|n_ctx)[^.]{0,20}size|exceed_context|string_above_max_length` +
	`|(prompt|input|request|messages?|conversation)\b[^.{}]{0,40}\b(is|are|was) too (long|large)|(request|prompt|input)[ _]too[ _](large|long)` +
	`|too many (input |prompt |total )?tokens|too large for model|reduce (the|your) (length|input|prompt)|input is too long` +
	`|tokens?\b[^.{}]{0,60}exceeds? (the )?(maximum|model|limit|max|configured)|exceeds? (the )?(maximum|max|model)[^.{}]{0,40}tokens` +
	`|maximum (context|number of (input )?tokens|prompt|input)|(inputs?|prompt)\b[^.{}]{0,30}\bmust\b[^{}]{0,40}tokens`)

// overflows says whether an answer of the provider that is no success means that the
// request was too long.
func overflows(status int, body []byte) bool {
	switch {
	case status == http.StatusRequestEntityTooLarge:
		return true
	case status < 400 || status == http.StatusUnauthorized || status == http.StatusForbidden || status == http.StatusNotFound:
		return false
	}
	return tooLong.Match(body)
}

// overflowed is the same of the error that a segment ended with.
func overflowed(err error) bool {
	var answer *statusError
	var event *chat.UpstreamError
	switch {
	case errors.As(err, &answer):
		return overflows(answer.status, answer.body)
	case errors.As(err, &event):
		return overflows(http.StatusBadRequest, []byte(event.Raw))
	}
	return false
}

// refusedAsLong says whether nothing came of a segment but the answer that its request
// was too long.
func refusedAsLong(err error) bool {
	var answer *statusError
	return errors.As(err, &answer) && overflowed(err)
}

// maxRefusal bounds what is read of an answer to see whether it is an overflow.
const maxRefusal = 64 << 10

// peekRefusal says whether an answer is an overflow, and leaves it whole.
func peekRefusal(resp *http.Response) (bool, error) {
	head, err := io.ReadAll(io.LimitReader(resp.Body, maxRefusal))
	if err != nil {
		return false, err
	}
	resp.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(head), resp.Body), resp.Body}
	return overflows(resp.StatusCode, head), nil
}

// unfolded is a record as the model gets it.
type unfolded struct {
	from   int // of its replacement
	pieces []piece
	fresh  bool // the model has not seen its results yet
}

// The history that the client does not have is made shorter in these steps, until the
// provider takes the request: one that it would take without us must not fail.
const (
	historyWhole   = iota
	historyTrimmed // without the results that the model has seen
	historyOwn     // nothing but what the client has; new results are cut short
)

// canShorten says whether there is a step left that takes anything away. Once there are
// results of this turn they are the likelier cause, and not worth all of the history.
func (t *turn) canShorten() bool {
	last := historyOwn
	if len(t.added) > 0 {
		last = historyTrimmed
	}
	return t.brevity < last && len(t.history) > 0
}

// shorten takes the next step, and reports whether there was one.
func (t *turn) shorten() bool {
	for t.canShorten() {
		t.brevity++
		changed := false
		for i := range t.history {
			at := slices.IndexFunc(t.replaced, func(r chat.Replacement) bool { return r.From == t.history[i].from && r.To > r.From })
			if u := &t.history[i]; u.shorten(t.brevity) {
				changed = true
				if u.pieces == nil {
					t.replaced = slices.Delete(t.replaced, at, at+1)
				} else {
					t.replaced[at].With = rawOf(u.pieces)
				}
			}
		}
		t.history = slices.DeleteFunc(t.history, func(u unfolded) bool { return u.pieces == nil })
		if changed {
			return true
		}
	}
	return false
}

// shorten reports whether the step made a record shorter; no pieces are left of one
// that the client's own messages stand for.
func (u *unfolded) shorten(step int) (changed bool) {
	if !u.fresh && step == historyOwn {
		u.pieces = nil
		return true
	}
	if u.fresh != (step == historyOwn) {
		return false
	}
	for i := range u.pieces {
		p := &u.pieces[i]
		shorter, _ := withoutImages(p.raw)
		if p.result != "" {
			text := noticeTrimmed
			if u.fresh {
				m := chat.ReadMessage(string(shorter))
				text = Result{Text: m.Words()}.shorten().Text
			}
			shorter = chat.ToolMessage(p.result, text)
		}
		if len(shorter) < len(p.raw) {
			p.raw, p.images, changed = shorter, false, true
		}
	}
	return changed
}

func rawOf(pieces []piece) (all [][]byte) {
	for _, p := range pieces {
		if p.raw != nil {
			all = append(all, p.raw)
		}
	}
	return all
}
