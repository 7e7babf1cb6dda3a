package chat

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// A client that sends a message again may spell it anew; another message differs.
func TestCanonical(t *testing.T) {
	call := func(id, args, more string) string {
		return `{"role":"assistant"` + more + `,"tool_calls":[{"id":"` + id + `","type":"function","function":{"name":"f","arguments":` + quote(args) + `}}]}`
	}
	same := [][]string{
		{`{"role":"user","content":"a b"}`, `{"content":[{"type":"text","text":"a b"}],"role":"user"}`, `{"role":"user","content":" a\n\n b ","name":null}`,
			`{"role":"user","content":[{"text":"a","type":"text"},{"text":"b","type":"text"}]}`},
		{`{"role":"assistant","content":null}`, `{"role":"assistant","content":""}`, `{"role":"assistant","refusal":null}`, `{"role":"assistant","content":[]}`},
		{call("1", `{"a":1,"b":"é<"}`, `,"content":null`), call("1", `{"b" : "\u00e9\u003c", "a":1}`, `,"content":"text"`), call("1", "{\"a\":1,\n\"b\":\"é<\"}", "")},
		{`{"role":"user","content":[{"type":"image_url","image_url":{"url":"x","detail":"low"}}]}`, `{"role":"user","content":[{"image_url":{"detail":"low","url":"x"},"type":"image_url"}]}`},
		{`{"role":"tool","tool_call_id":"1","content":"x"}`, `{"role":"tool","content":[{"type":"text","text":"x"}],"tool_call_id":"1"}`},
	}
	others := []string{`{"role":"user","content":"ab"}`, `{"role":"system","content":"a b"}`, call("2", `{"a":1,"b":"é<"}`, ""), call("1", `{"a":2,"b":"é<"}`, ""),
		call("1", `{"a":1`, ""), `{"role":"tool","tool_call_id":"2","content":"x"}`, `{"role":"user","content":[{"type":"image_url","image_url":{"url":"y","detail":"low"}}]}`}
	seen := map[string]string{}
	for _, group := range same {
		first := string(ReadMessage(group[0]).AppendCanonical(nil))
		for _, m := range group {
			if got := string(ReadMessage(m).AppendCanonical(nil)); got != first {
				t.Errorf("%s is %q, but %s is %q", group[0], first, m, got)
			}
		}
		seen[first] = group[0]
	}
	for _, m := range others {
		got := string(ReadMessage(m).AppendCanonical(nil))
		if other, taken := seen[got]; taken {
			t.Errorf("%s and %s have the same form", other, m)
		}
		seen[got] = m
	}
}

func TestReplace(t *testing.T) {
	body := ` {"messages" : [ {"a":1} , {"b":2},{"c":3} ,{"d":4}]}`
	for _, tt := range []struct {
		replace []Replacement
		want    string
	}{
		{[]Replacement{{0, 1, [][]byte{[]byte("x")}}}, ` {"messages" : [ x , {"b":2},{"c":3} ,{"d":4},"new"]}`},
		{[]Replacement{{1, 2, nil}}, ` {"messages" : [ {"a":1},{"c":3} ,{"d":4},"new"]}`},
		{[]Replacement{{1, 2, [][]byte{[]byte("x")}}, {2, 3, nil}, {3, 4, nil}}, ` {"messages" : [ {"a":1} , x,"new"]}`},
		{[]Replacement{{0, 1, nil}, {2, 4, nil}}, ` {"messages" : [ {"b":2},"new"]}`},
		{[]Replacement{{1, 3, [][]byte{[]byte("x"), []byte("y")}}, {3, 4, [][]byte{[]byte("z")}}}, ` {"messages" : [ {"a":1} , x,y ,z,"new"]}`},
	} {
		got := string(parse(t, body).Build(Edit{Replace: tt.replace, Append: [][]byte{[]byte(`"new"`)}}))
		if got != tt.want {
			t.Errorf("got %s, want %s", got, tt.want)
		}
	}
	if m := parse(t, `{"messages":[{"role":"assistant","content":"hi","tool_calls":[{"id":"1"},{"id":"2"}]},{"role":"developer"}]}`).Messages(); strings.Join(m[0].CallIDs, ",") != "1,2" || m[0].Text() != "hi" || m[0].System() || !m[1].System() {
		t.Errorf("%+v", m)
	}
}

func TestNormalText(t *testing.T) {
	for in, want := range map[string]string{"": "", " ": "", "a": "a", "a b": "a b", " a": "a", "a ": "a", "a  b": "a b", "a\tb\nc": "a b c", "é  ü": "é ü", "a\u00a0b": "a b", "\x00": "\x00"} {
		if got := NormalText(in); got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
}

// The quick way over plain words changes nothing.
func TestNormalTextIsFields(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOf(rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{" ", "  ", "a", "word", "\t", "\n", "é", "\u00a0", "\x01", "\xff"})))
		text := strings.Join(words.Draw(t, "words"), "")
		if got, want := NormalText(text), strings.Join(strings.Fields(text), " "); got != want {
			t.Fatalf("%q became %q, want %q", text, got, want)
		}
	})
}
