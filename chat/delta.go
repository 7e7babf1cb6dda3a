package chat

import (
	"strconv"

	"github.com/tidwall/gjson"
)

// deltaAt is where the delta stands in a chunk: a relayed chunk has one choice.
const deltaAt = "choices.0.delta"

// show makes what the client sees of a chunk whose delta is given, and holds its
// finish back: only the turn's last segment may end the stream.
func (r *Relay) show(data string, delta gjson.Result) string {
	news := false // does the delta say anything to the client?
	delta.ForEach(func(key, value gjson.Result) bool {
		switch name := key.String(); name {
		case "role":
			switch {
			case r.role || value.String() == "":
				data = remove(data, deltaAt+".role")
			default:
				r.role, news = true, true
			}
		case "tool_calls":
		default:
			if !present(value) || value.Type == gjson.String && value.String() == "" {
				break
			}
			news = true
			data = r.separated(data, name, value)
		}
		return true
	})
	had := delta.Get("tool_calls").Exists()
	ends := gjson.Get(data, "choices.0.finish_reason").String() != ""
	switch entries := r.fragments(); {
	case len(entries) > 0:
		news = true
		data = set(data, deltaAt+".tool_calls", "["+join(entries)+"]")
	case had && (news || ends):
		data = remove(data, deltaAt+".tool_calls")
	}
	if news && !r.role {
		r.role = true
		data = set(data, deltaAt+".role", `"assistant"`)
	}
	if ends {
		r.held = data
		if news {
			r.held = set(data, deltaAt, "{}")
			return set(data, "choices.0.finish_reason", "null")
		}
		return ""
	}
	if news || r.segment == 1 && !had {
		return data
	}
	return ""
}

// separated notes the text that the client gets, and puts a blank line before
// the first text of a segment if another segment's text precedes it.
func (r *Relay) separated(data, name string, value gjson.Result) string {
	for _, known := range textMembers {
		if name != known || value.Type != gjson.String {
			continue
		}
		if sep := r.separate[name]; sep != "" {
			delete(r.separate, name)
			data = set(data, deltaAt+"."+name, `"`+quoteInner(sep)+value.Raw[1:])
		}
		r.keepTail(name, value.String())
	}
	return data
}

// keepTail keeps the end of what the client has of a text.
func (r *Relay) keepTail(name, more string) {
	if r.tails == nil {
		r.tails = map[string]string{}
	}
	tail := r.tails[name] + more
	r.tails[name] = tail[max(0, len(tail)-2):]
}

func quoteInner(s string) string { q := quote(s); return q[1 : len(q)-1] }

// fragments gives what the client has not got yet of its own calls whose names
// are final: entries for delta.tool_calls, with indexes 0, 1, ….
func (r *Relay) fragments() (entries [][]byte) {
	for _, c := range r.asm.calls {
		if !c.final || r.Hidden(c.name) {
			continue
		}
		if !c.released {
			c.released, c.index, c.sent, c.told = true, r.calls, len(c.args), len(c.extra)
			r.calls++
			entries = append(entries, []byte(c.entry(index(c.index), 0)))
			continue
		}
		more := ""
		if len(c.args) > c.sent {
			more = `,"function":{"arguments":"` + string(c.args[c.sent:]) + `"}`
		}
		if len(c.extra) > c.told {
			more += inner(c.extra)
		}
		if more != "" {
			entries = append(entries, []byte("{"+index(c.index)+more[1:]+"}"))
			c.sent, c.told = len(c.args), len(c.extra)
		}
	}
	return entries
}

func index(n int) string { return `"index":` + strconv.Itoa(n) + "," }
