package loop

import (
	"slices"
	"strings"
	"testing/synctest"

	"github.com/mcp-via-llm/mcp-via-llm/chat"
	"github.com/tidwall/gjson"
)

// checkAsked checks every request to the LLM in an attempt, and says which broken
// attempt it went on from.
func (w *walk) checkAsked(want [][]string, journals [][]round, fresh []round) (claimed int) {
	var starts [][]round
	if claimed = -1; len(journals) == 0 {
		starts = [][]round{nil}
	} else {
		starts = journals // there is one to go on from, so that is what must happen
	}
	asked := w.llm.asked
	if len(asked) != len(fresh)+1 {
		w.wrong("the LLM was asked %d times, want %d", len(asked), len(fresh)+1)
	}
	for i, start := range starts {
		for _, base := range want {
			lines := slices.Clone(base)
			for _, r := range start {
				lines = append(lines, r.lines()...)
			}
			if !slices.Equal(asked[0], lines) {
				continue
			}
			for n, r := range fresh {
				if lines = append(lines, r.lines()...); !slices.Equal(asked[n+1], lines) {
					w.wrong("in segment %d the LLM saw\n%s\nwant\n%s", n+2, strings.Join(asked[n+1], "\n"), strings.Join(lines, "\n"))
				}
			}
			if len(journals) > 0 {
				claimed = i
			}
			return claimed
		}
	}
	w.wrong("the LLM saw\n%s\nwant one of\n%v\nafter it %d broken attempts", strings.Join(asked[0], "\n"), want, len(journals))
	return claimed
}

// checkAnswer checks what the client got against what the LLM said.
func (w *walk) checkAnswer(stream bool, response string, s script) said {
	want := said{role: "assistant"}
	for _, r := range s.rounds {
		want.text = chat.JoinText(want.text, r.message.text)
	}
	want.text = chat.JoinText(want.text, s.last.text)
	for _, c := range s.last.calls {
		if c.name == "book_table" {
			want.calls = append(want.calls, c)
		}
	}
	got := readSaid(gjson.Get(response, "choices.0.message"))
	if stream {
		events := read(response)
		got = said{role: "assistant", text: events.text}
		for i, name := range events.names {
			got.calls = append(got.calls, saidCall{events.callIDs[i], name, events.arguments[i]})
		}
	}
	if got.line() != want.line() {
		w.wrong("the client got %s, want %s, of %s", got.line(), want.line(), response)
	}
	return got
}

// learn notes what the LLM has seen in a turn that ended, and gives the client its
// conversation.
func (w *walk) learn(c *talker, sent, dropped []said, s script) {
	instructs := func(m said) bool { return m.role == "system" }
	here := slices.DeleteFunc(append(slices.Clone(sent), s.got), instructs)
	conversation := append(slices.Clone(dropped), here...)
	c.conversations = append(c.conversations, conversation)
	for _, whole := range [][]said{here, conversation} {
		turn, p := path(c.scope(), here[max(0, lastUser(here)):]), path(c.scope(), whole)
		if w.turns[turn] == nil {
			w.turns[turn] = map[string]origin{}
		}
		if known, ok := w.turns[turn][p]; !ok || known.perhaps {
			w.turns[turn][p] = origin{whole, len(dropped) > 0}
		}
	}
	hidden := len(s.last.calls) != len(s.got.calls)
	var b *behind
	if len(s.rounds) > 0 || hidden {
		b = w.behind(s, hidden)
	}
	switch {
	case len(dropped) > 0 && b != nil:
		for _, p := range []string{path(c.scope(), conversation), path(c.scope(), here)} {
			k := w.table[p]
			w.table[p] = known{append(slices.Clone(k.all), b), k.perhaps || len(k.all) == 0}
		}
	case b != nil:
		w.table[path(c.scope(), conversation)] = known{all: []*behind{b}}
	}
}

func (w *walk) behind(s script, hidden bool) *behind {
	b := &behind{message: s.last, text: s.got.text, results: map[string]string{}}
	for _, r := range s.rounds {
		b.before = append(b.before, r.lines()...)
	}
	if hidden {
		synctest.Wait() // until all its calls run
		for _, call := range s.last.calls {
			if call.name != "book_table" {
				b.results[call.id] = w.result(call.arguments)
			}
		}
	}
	return b
}
