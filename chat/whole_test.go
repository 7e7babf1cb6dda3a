package chat

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

// A completion to which only the extensions are added is spliced: it must be what an
// editor of JSON makes of it.
func TestUntouchedCompletion(t *testing.T) {
	const choices = `"choices":[{"index":0,"message":{"role":"assistant","content":"a } b","refusal":null},"finish_reason":"stop"}]`
	for _, row := range []struct {
		completion string
		untouched  bool
	}{
		{`{"id":"c",` + choices + `,"usage":{"prompt_tokens":1}}`, true},
		{"{\n  \"id\": \"c\",\n  " + choices + ",\n  \"usage\" : {\"prompt_tokens\":1}\n}\n", true},
		{`{` + choices + ` } `, true},
		{`{` + choices + `,"usage":null}`, true},
		{`{` + choices + `,"extensions":{"x":1}}`, false},
		{`{` + choices + `,"extensions":null}`, false},
		{`{"extens\u0069ons":{},` + choices + `}`, false},
		{`{` + strings.Replace(choices, "stop", "length", 1) + `}`, false},
	} {
		w := Whole{Hidden: func(string) bool { return false }}
		reply, err := w.Add(row.completion)
		if err != nil {
			t.Fatal(err)
		}
		if got := w.untouched("stop", reply.Usage); got != row.untouched {
			t.Errorf("%s: untouched %v", row.completion, got)
		}
		got, want := string(w.Finish("stop", reply.Usage, `{"iterations":1}`)), set(w.edited("stop", reply.Usage), "extensions.mcp_via_llm", `{"iterations":1}`)
		if got != want || !gjson.Valid(got) {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

func TestTokens(t *testing.T) {
	for usage, want := range map[string]Tokens{
		"":     {},
		"null": {},
		"[1]":  {},
		`{"prompt_tokens":10,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":4,"cache_creation_tokens":2},"completion_tokens_details":{"reasoning_tokens":1}}`: {10, 3, 4, 2, 1},
		`{"prompt_tokens":"10","completion_tokens":-3,"prompt_cache_hit_tokens":5}`:                                                                                           {CacheRead: 5},
		`{"prompt_tokens":1,"prompt_tokens":2,"prompt_tokens_details":null,"cache_read_input_tokens":6,"cache_creation_input_tokens":7}`:                                      {Input: 1, CacheRead: 6, CacheWrite: 7},
		`{"prompt_tokens_details":{"cached_tokens":null,"cache_write_tokens":8},"prompt_cache_hit_tokens":9}`:                                                                 {CacheRead: 9, CacheWrite: 8},
		`{"prompt_tokens_details":[{"cached_tokens":1}],"completion_tokens_details":{"reasoning_tokens":true}}`:                                                               {},
	} {
		if got := ReadTokens(usage); got != want {
			t.Errorf("%s: %+v, want %+v", usage, got, want)
		}
	}
}

func TestQuoteIsThatOfEncodingJSON(t *testing.T) {
	for _, s := range []string{"", "plain words", "<a & b>", `"`, `\`, "\n", "\x00", "\x7f", "ü", "\u2028", "\xff", "a\xffb"} {
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(s); err != nil {
			t.Fatal(err)
		}
		if got, want := quote(s), strings.TrimSuffix(b.String(), "\n"); got != want {
			t.Errorf("%q: %s, want %s", s, got, want)
		}
	}
}

// An answer is recognised by its text, however it was written down.
func TestVisibleAnswer(t *testing.T) {
	for _, text := range []string{"", "two  words", "a\n\"b\"", "ü\u2028\x00", "a\xffb"} {
		got, want := Visible(text, nil), ReadMessage(Answer(text))
		if string(got.AppendCanonical(nil)) != string(want.AppendCanonical(nil)) || got.Text() != want.Text() || got.System() {
			t.Errorf("%q: %q, want %q", text, got.Text(), want.Text())
		}
	}
}
