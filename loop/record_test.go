package loop

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mcp-via-llm/mcp-via-llm/chat"
	"github.com/tidwall/gjson"
)

func message(raw string) chat.Message { return chat.ReadMessage(raw) }

// summary gives the roles, ids and texts of pieces.
func summary(pieces []piece) string {
	var out []string
	for _, p := range pieces {
		m := gjson.ParseBytes(p.raw)
		out = append(out, m.Get("role").String()+m.Get("tool_call_id").String()+":"+m.Get("content").String())
	}
	return strings.Join(out, "|")
}

func TestUnfold(t *testing.T) {
	before := [][]byte{[]byte(`{"role":"assistant","content":"a","tool_calls":[{"id":"h"}]}`), chat.ToolMessage("h", "hidden")}
	result := func(id, text string) chat.Message { return message(string(chat.ToolMessage(id, text))) }
	mixed := func(results map[int]Result) *record {
		return &record{message: []byte(`{"role":"assistant","content":"b"}`), results: results,
			calls: []heldCall{{id: "m1", hidden: true}, {id: "b1"}, {id: "m2", hidden: true}, {id: "b2"}}}
	}
	done := map[int]Result{0: {Text: "one"}, 2: {Text: "two"}}
	for _, tt := range []struct {
		name    string
		r       *record
		results []chat.Message
		want    string
	}{
		{"a turn of MCP calls", &record{before: before, message: []byte(`{"role":"assistant","content":"b"}`)}, nil, "assistant:a|toolh:hidden|assistant:b"},
		{"one that ended in client calls", &record{before: before, message: []byte(`{"role":"assistant","content":"b"}`)}, []chat.Message{result("b1", "x")}, "assistant:a|toolh:hidden|assistant:b|toolb1:x"},
		{"a mixed one, results in any order", mixed(done), []chat.Message{result("b2", "y"), result("b1", "x")}, "assistant:b|toolm1:one|toolb1:x|toolm2:two|toolb2:y"},
		{"partial results", mixed(done), []chat.Message{result("b2", "y")}, "assistant:b|toolm1:one|toolb1:" + noticeNone + "|toolm2:two|toolb2:y"},
		{"none", mixed(done), nil, "assistant:b|toolm1:one|toolb1:" + noticeNone + "|toolm2:two|toolb2:" + noticeNone},
		{"expired", mixed(map[int]Result{2: {Text: "two"}}), []chat.Message{result("b1", "x"), result("b2", "y")}, "assistant:b|toolm1:" + noticeExpired + "|toolb1:x|toolm2:two|toolb2:y"},
		{"a result of a call nobody made", mixed(done), []chat.Message{result("b1", "x"), result("b2", "y"), result("z", "?")}, "assistant:b|toolm1:one|toolb1:x|toolm2:two|toolb2:y|toolz:?"},
	} {
		if got := summary(tt.r.unfold(tt.results, (&turn{client: &Client{}}).newBlock())); got != tt.want {
			t.Errorf("%s:\n got %s\nwant %s", tt.name, got, tt.want)
		}
	}
}

// The cut stays where it is while the history grows by less than a step.
func TestTrim(t *testing.T) {
	build := func(n int) (all [][]piece) {
		for i := range n {
			id := fmt.Sprint("c", i)
			all = append(all, []piece{{raw: []byte(`{"role":"assistant"}`)}, {raw: chat.ToolMessage(id, strings.Repeat("x", 1000)), result: id}, {raw: []byte(`{"role":"tool"}`)}})
		}
		return all
	}
	cuts := map[int]int{}
	for n := 1; n <= 100; n++ {
		all := build(n)
		trim(all, nil, 20_000)
		total, cut := 0, 0
		for i, pieces := range all {
			total += len(pieces[1].raw)
			if strings.Contains(string(pieces[1].raw), "left out") {
				if cut != i {
					t.Fatalf("%d results: the cut is not the oldest", n)
				}
				cut++
			}
			if message(string(pieces[1].raw)).CallID != fmt.Sprint("c", i) {
				t.Fatal("an id is lost")
			}
		}
		if over := 20_000 + 200*cut; total > over {
			t.Errorf("%d results: %d bytes are left", n, total)
		}
		cuts[cut]++
	}
	if len(cuts) > 25 {
		t.Errorf("the cut moved %d times in 100 turns", len(cuts))
	}
	all := build(30)
	trim(all, nil, 0)
	if strings.Contains(string(all[0][1].raw), "left out") {
		t.Error("no limit cuts")
	}
}

func TestConversation(t *testing.T) {
	parse := func(raws ...string) (out []chat.Message) {
		for _, r := range raws {
			out = append(out, message(r))
		}
		return out
	}
	user, reply, again := `{"role":"user","content":"hi"}`, `{"role":"assistant","content":"hello"}`, `{"role":"user","content":"more"}`
	c := newConversation("s", parse(`{"role":"system","content":"It is 10:00."}`, user, reply, again))
	later := newConversation("s", parse(`{"role":"developer","content":"It is 11:00."}`, `{"role":"user","content":[{"type":"text","text":"hi"}]}`, `{"role":"assistant","content":"hello","refusal":null}`, again))
	if c.anchor(2) != later.anchor(2) || c.whole() != later.whole() {
		t.Error("instructions or spelling change the conversation")
	}
	if first := newConversation("s", parse(user)); first.next(message(reply)) != c.anchor(2) {
		t.Error("the reply is not found again")
	}
	for name, other := range map[string]*conversation{
		"another scope":  newConversation("t", parse(user, reply)),
		"another branch": newConversation("s", parse(`{"role":"user","content":"hi!"}`, reply)),
		"another reply":  newConversation("s", parse(user, `{"role":"assistant","content":"bye"}`)),
		"other order":    newConversation("s", parse(reply, user)),
	} {
		if other.whole() == c.anchor(2) {
			t.Errorf("%s is taken for the same", name)
		}
	}
	if scopeID("a", "b") == scopeID("ab", "") {
		t.Error("scopes run into each other")
	}
}
