package loop

import (
	"slices"
	"strings"

	"github.com/mcp-via-llm/mcp-via-llm/chat"
)

// said is a message as the plain model of the conversations has it: what was
// meant, whatever the spelling.
type said struct {
	role, text string
	calls      []saidCall
	answers    string // id of the call that a tool message answers
}

type saidCall struct{ id, name, arguments string }

func (m said) line() string {
	out := m.role + m.answers + ":" + chat.NormalText(m.text)
	for _, c := range m.calls {
		out += "(" + c.id + " " + c.name + " " + c.arguments + ")"
	}
	return out
}

// key is what tells a message from another where clients are free to respell it:
// beside calls they may drop the text.
func (m said) key() string {
	if len(m.calls) > 0 {
		m.text = ""
	}
	return m.line()
}

func path(scope string, messages []said) string {
	keys := []string{scope}
	for _, m := range messages {
		if m.role != "system" {
			keys = append(keys, m.key())
		}
	}
	return strings.Join(keys, "\n")
}

// behind is what the plain model knows to be behind a visible reply.
type behind struct {
	before  []string // lines of the turn's hidden rounds
	message said     // its last message, whole
	text    string   // that the client saw
	results map[string]string
}

// lines gives what the model must see in place of the reply and its results.
func (b *behind) lines(results []said) []string {
	out := append(slices.Clone(b.before), b.message.line())
	if len(b.results) == 0 { // no mixed turn: what follows is as the client has it
		for _, m := range results {
			out = append(out, m.line())
		}
		return out
	}
	given := map[string]string{}
	for _, m := range results {
		given[m.answers] = m.line()
	}
	for _, c := range b.message.calls {
		line, ok := given[c.id]
		if hidden, there := b.results[c.id]; there {
			line = "tool" + c.id + ":" + hidden
		} else if !ok {
			line = "tool" + c.id + ":" + noticeNone
		}
		out = append(out, line)
	}
	return out
}

// round is a step of a turn in which the model made hidden calls alone.
type round struct {
	message said
	results []string // lines
}

func (r round) lines() []string { return append([]string{r.message.line()}, r.results...) }

// known is what may be behind a reply: one of these or, perhaps, nothing. There is
// a choice only where clients have cut off the beginning of a conversation.
type known struct {
	all     []*behind
	perhaps bool
}

// origin is a conversation that ends in a turn, or perhaps does: its client had
// cut off the beginning.
type origin struct {
	messages []said
	perhaps  bool
}

// plain is the model of what the LLM must see: a table of everything that was
// said, looked up by everything that was visible before. It knows nothing of
// hashes, stores, leases or attempts.
type plain struct {
	table    map[string]known
	turns    map[string]map[string]origin // the conversations that end in a turn, by that turn and by themselves
	journals map[string][][]round         // of broken attempts, by request
}

// expect gives the lines that the LLM must see for a request. Where the client
// sends the end of a conversation alone, what is behind its replies may be there
// or not.
func (p *plain) expect(scope string, sent, dropped []said) (all [][]string) {
	whole := append(slices.Clone(dropped), sent...)
	all = [][]string{nil}
	for i := 0; i < len(sent); i++ {
		options := [][]string{{sent[i].line()}}
		end := i + 1
		if sent[i].role == "assistant" {
			for end < len(sent) && sent[end].role == "tool" {
				end++
			}
			options = p.options(p.table[path(scope, whole[:len(dropped)+i+1])], sent[i:end], len(dropped) > 0)
			if len(dropped) > 0 { // the rest may be, word for word, another conversation, or the end of one
				options = append(options, p.options(p.table[path(scope, sent[:i+1])], sent[i:end], false)...)
				at, origins := p.origins(scope, sent[:i+1])
				for _, origin := range origins {
					k := p.table[path(scope, append(slices.Clone(origin), sent[at+1:i+1]...))]
					options = append(options, p.options(k, sent[i:end], false)...)
				}
			}
		}
		var next [][]string
		for _, before := range all {
			for _, o := range options {
				next = append(next, append(slices.Clone(before), o...))
			}
		}
		all, i = next, end-1
	}
	return all
}

// origins are the conversations that may be taken for the one of these messages,
// by its first whole turn, whose reply is at place at. Two with the same turn are
// taken for none.
func (p *plain) origins(scope string, messages []said) (at int, all [][]said) {
	for i, m := range messages {
		begin := lastUser(messages[:i+1])
		if m.role != "assistant" || begin < 0 {
			continue
		}
		certain := 0
		for _, o := range p.turns[path(scope, messages[begin:i+1])] {
			if all = append(all, o.messages); !o.perhaps {
				certain++
			}
		}
		if certain > 1 {
			return i, nil
		}
		return i, all
	}
	return 0, nil
}

func lastUser(messages []said) int {
	for i := len(messages) - 1; i >= 0; i-- {
		if messages[i].role == "user" {
			return i
		}
	}
	return -1
}

// options are the ways in which the LLM may see a reply with its results.
func (p *plain) options(k known, messages []said, cut bool) (all [][]string) {
	var visible []string
	for _, m := range messages {
		visible = append(visible, m.line())
	}
	reply := messages[0]
	for _, b := range k.all {
		if len(reply.calls) > 0 && reply.text != "" && chat.NormalText(reply.text) != chat.NormalText(b.text) {
			all = append(all, visible) // edited
		} else {
			all = append(all, b.lines(messages[1:]))
		}
	}
	if len(k.all) == 0 || k.perhaps || cut {
		all = append(all, visible)
	}
	return all
}
