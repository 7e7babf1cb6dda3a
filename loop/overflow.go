package loop

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/mcp-via-llm/mcp-via-llm/chat"
)

// tooLong is how providers and model servers say that a request has more tokens or bytes
// than the model, or one request of the account, takes: OpenAI, Azure, Anthropic, Bedrock,
// Gemini, Mistral, DeepSeek, Kimi, DashScope, GLM, MiniMax, Doubao, ERNIE, Hunyuan, Groq,
// Cerebras, Cohere, watsonx, Databricks, Snowflake, vLLM, SGLang, TGI, llama.cpp, Ollama,
// LM Studio. Most do so with status 400, some with 413, 422, 429 or 500.
var tooLong = regexp.MustCompile(`(?i)` +
	`context.?(length|window|limit)|(context|n_ctx)[^.{}]{0,20}size|exceed_context|string_above_max_length|string too long` +
	`|(prompt|input|request|messages?|conversation)\b[^.{}]{0,40}\b(is|are|was) too (long|large)|(request|prompt|input|tokens)[ _]too[ _](large|long)` +
	`|too many (input |prompt |total )?tokens|too large for model|reduce (the|your) (length|input|prompt)` +
	`|(input|prompt|message|payload|body) (length|size)\b|(length|size) of (your|the) (input|prompt|messages?|request)|max(imum)? input (length|characters|tokens)` +
	`|(prompt|input|messages?) exceeds? (the )?(model'?s? )?(max|limit)|model token limit|max(imum)?[ _](input )?tokens\b[^.{}]{0,20}\bexceeded|max_new_tokens` +
	`|tokens?\b[^.{}]{0,60}exceeds? (the )?(maximum|model|limit|total|max|configured)|exceeds? (the )?(maximum|max|model)[^.{}]{0,40}tokens` +
	`|maximum (context|number of (input )?tokens|prompt|input)|(inputs?|prompt)\b[^.{}]{0,30}\bmust\b[^{}]{0,40}tokens`)

// passing is how providers say, with status 429 or 5xx, that a request may succeed as it
// is when it is sent later. One that is "too large" for a minute's limit never will.
var (
	passing  = regexp.MustCompile(`(?i)per (second|min|hour|day)|\b[tr]pm\b|\bqueue|overload`)
	oversize = regexp.MustCompile(`(?i)too (large|long)`)
)

// otherwise is how providers say that a request is refused for what it says or for who
// sends it, whatever its length.
var otherwise = regexp.MustCompile(`(?i)` +
	`authenticat|unauthori[sz]ed|permission|forbidden|api[ _-]?key|billing|quota|credit|balance|rate.?limit` +
	`|model[_ ]not[_ ]found|model\b[^.{}]{0,60}(does not exist|not (found|available|supported))|no such model|unknown model` +
	`|(unsupported|unknown|unrecogni[sz]ed)[_ ](parameter|value|argument|field)|extra_forbidden|content[_ ](filter|policy|management)|safety`)

// overflows says whether an answer of the provider that is no success means that the
// request was too long.
func overflows(status int, body []byte) bool {
	switch {
	case status == http.StatusRequestEntityTooLarge:
		return true
	case status < 400 || status == http.StatusUnauthorized || status == http.StatusForbidden || status == http.StatusNotFound:
		return false
	case (status == http.StatusTooManyRequests || status >= 500) && passing.Match(body) && !oversize.Match(body):
		return false
	}
	return tooLong.Match(body)
}

// unclear says whether an answer refuses the request for a reason that is none of those
// known: there are always providers whose words for a request that is too long are not.
func unclear(status int, body []byte) bool {
	if status != http.StatusBadRequest && status != http.StatusUnprocessableEntity || overflows(status, body) {
		return false
	}
	param := gjson.GetBytes(body, "error.param").String()
	return !otherwise.Match(body) && (param == "" || strings.HasPrefix(param, "messages") || strings.HasPrefix(param, "input"))
}

// overflowed is overflows of the error that a segment ended with.
func overflowed(err error) bool {
	if err == nil {
		return false
	}
	var answer *statusError
	var event *chat.UpstreamError
	switch {
	case errors.As(err, &answer):
		return overflows(answer.status, answer.body)
	case errors.As(err, &event):
		return overflows(event.Status, []byte(event.Raw))
	}
	return false
}

// shortenFor makes the request shorter, if nothing came of it but an answer that a
// shorter one may not get, and reports whether it did. An unclear answer counts only
// for the history, which the client's own request could have done without: all of it
// goes then, so that no more than one request is in vain.
func (t *turn) shortenFor(err error) bool {
	if err == nil {
		return false
	}
	var answer *statusError
	switch {
	case t.told:
		return false
	case overflowed(err):
	case errors.As(err, &answer) && len(t.added) == 0 && unclear(answer.status, answer.body):
		t.brevity = max(t.brevity, historyOwn-1)
	default:
		return false
	}
	return t.shorten()
}

// maxRefusal bounds what is read of an answer to see whether it is an overflow.
const maxRefusal = 64 << 10

// peekRefusal says whether an answer to the first segment is one that a shorter request
// may not get, and leaves it whole.
func peekRefusal(resp *http.Response) (bool, error) {
	head, err := io.ReadAll(io.LimitReader(resp.Body, maxRefusal))
	if err != nil {
		return false, err
	}
	resp.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(head), resp.Body), resp.Body}
	return overflows(resp.StatusCode, head) || unclear(resp.StatusCode, head), nil
}

// unfolded is a record as the model gets it.
type unfolded struct {
	from, to int     // of the client's messages that it stands for
	moved    []int   // of those that stand elsewhere: results that came late
	pieces   []piece // nil: the client's messages stand for themselves
	fresh    bool    // the model has not seen its results yet
}

// replacements are what stands for the client's messages, in order.
func (t *turn) replacements() []chat.Replacement {
	all := slices.Clone(t.asides)
	for _, u := range t.history {
		all = append(all, chat.Replacement{From: u.from, To: u.to, With: rawOf(u.pieces)})
		for _, at := range u.moved {
			all = append(all, chat.Replacement{From: at, To: at + 1})
		}
	}
	slices.SortFunc(all, func(a, b chat.Replacement) int { return a.From - b.From })
	return all
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
	for step := t.brevity + 1; step <= t.lastStep(); step++ {
		for _, u := range t.history {
			if _, changed := u.shorter(step); changed {
				return true
			}
		}
	}
	return false
}

func (t *turn) lastStep() int {
	if len(t.added) > 0 {
		return historyTrimmed
	}
	return historyOwn
}

// shorten takes the next step, and reports whether there was one.
func (t *turn) shorten() (changed bool) {
	for !changed && t.brevity < t.lastStep() {
		t.brevity++
		for i, u := range t.history {
			shorter, less := u.shorter(t.brevity)
			t.history[i], changed = shorter, changed || less
		}
		t.history = slices.DeleteFunc(t.history, func(u unfolded) bool { return u.pieces == nil })
	}
	return changed
}

// shorter is a record after a step, and whether that made it shorter; no pieces are left
// of one that the client's own messages stand for.
func (u unfolded) shorter(step int) (_ unfolded, changed bool) {
	if !u.fresh && step == historyOwn {
		u.pieces = nil
		return u, true
	}
	if u.fresh != (step == historyOwn) {
		return u, false
	}
	u.pieces = slices.Clone(u.pieces)
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
	return u, changed
}

func rawOf(pieces []piece) (all [][]byte) {
	for _, p := range pieces {
		if p.raw != nil {
			all = append(all, p.raw)
		}
	}
	return all
}
