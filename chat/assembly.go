package chat

import (
	"bytes"
	"strings"

	"github.com/tidwall/gjson"
	"github.com/tidwall/pretty"
)

// assembly puts the deltas of one choice in one segment together to a message.
//
// Text is kept in its escaped form: a provider may cut a string between the two
// halves of a surrogate pair, each of which is no character by itself.
type assembly struct {
	known func(name string) bool // is it the name of any function of the request?
	ids   *callIDs

	members []*member // of the message, without tool_calls, in order of arrival
	calls   []*call
	slots   map[int64]*call // the latest call of each explicit index
}

type member struct {
	name string
	raw  []byte // of text: escaped, without its quotes
	text bool
}

// call is a tool call that may still grow.
type call struct {
	id, name string
	args     []byte // escaped, without quotes
	whole    string // arguments that came as an object instead of text
	extra    string // raw object of the members unknown to us, "" if none
	funcs    string // the same for the members of "function"
	final    bool   // the name is final and the id is given

	released bool // the client has its beginning
	sent     int  // bytes of args that the client has
	index    int  // its index in what the client gets
	told     int  // length of extra that the client has
}

// add takes the delta of one chunk.
func (a *assembly) add(delta gjson.Result) {
	delta.ForEach(func(key, value gjson.Result) bool {
		switch name := key.String(); name {
		case "tool_calls":
			for _, entry := range value.Array() {
				a.addCall(entry)
			}
		default:
			a.addMember(name, value)
		}
		return true
	})
}

// addMember joins text, appends to arrays and replaces anything else. The role is
// set once; null only says that the member is there.
func (a *assembly) addMember(name string, value gjson.Result) {
	var m *member
	for _, have := range a.members {
		if have.name == name {
			m = have
		}
	}
	isText := value.Type == gjson.String
	switch {
	case m == nil:
		m = &member{name: name, text: isText}
		a.members = append(a.members, m)
		m.raw = []byte(value.Raw)
		if isText {
			m.raw = []byte(value.Raw[1 : len(value.Raw)-1])
		}
	case value.Type == gjson.Null || name == "role":
	case m.text && isText:
		m.raw = append(m.raw, value.Raw[1:len(value.Raw)-1]...)
	case !m.text && value.IsArray() && bytes.HasPrefix(m.raw, []byte("[")):
		m.appendArray(value.Raw)
	default:
		m.text, m.raw = isText, []byte(value.Raw)
		if isText {
			m.raw = m.raw[1 : len(m.raw)-1]
		}
	}
}

// appendArray puts the elements of a raw array after those of m.
func (m *member) appendArray(array string) {
	more := strings.TrimSpace(array[1 : len(array)-1])
	if more == "" {
		return
	}
	m.raw = m.raw[:len(m.raw)-1]
	if len(bytes.TrimSpace(m.raw)) > 1 {
		m.raw = append(m.raw, ',')
	}
	m.raw = append(append(m.raw, more...), ']')
}

// addCall takes one entry of tool_calls. A function name begins a call; an id
// alone, even a new one, continues; see find for what providers really send.
func (a *assembly) addCall(entry gjson.Result) {
	id, name := entry.Get("id").String(), entry.Get("function.name").String()
	args := entry.Get("function.arguments")
	c := a.find(entry.Get("index"), id, name, args)
	if c == nil {
		if name == "" && len(a.calls) > 0 {
			return // a continuation of nothing
		}
		for _, earlier := range a.calls {
			a.finalize(earlier)
		}
		c = &call{name: name, id: id}
		a.calls = append(a.calls, c)
	} else {
		if !c.final && (name != c.name || !a.known(name)) { // else the whole name again
			c.name += name
		}
		if c.id == "" {
			c.id = id
		}
	}
	if index := entry.Get("index"); index.Type == gjson.Number {
		if a.slots == nil {
			a.slots = map[int64]*call{}
		}
		a.slots[index.Int()] = c
	}
	c.addArguments(args)
	if len(c.args) > 0 || c.whole != "" {
		a.finalize(c)
	}
	c.extra = gather(c.extra, entry, "index", "id", "type", "function")
	c.funcs = gather(c.funcs, entry.Get("function"), "name", "arguments")
}

// find gives the call that an entry continues, nil if it begins one.
func (a *assembly) find(index gjson.Result, id, name string, args gjson.Result) *call {
	var c *call
	if index.Type == gjson.Number {
		c = a.slots[index.Int()]
	} else if len(a.calls) > 0 {
		c = a.calls[len(a.calls)-1]
	}
	if c == nil {
		return nil
	}
	if name == "" {
		if id != "" && id != c.id {
			for _, other := range a.calls {
				if other.id == id {
					return other
				}
			}
		}
		return c
	}
	switch {
	case id != "" && c.id != "" && id != c.id:
		return nil // every parallel call stamped with the same index
	case id != "" && id == c.id:
		return c // a repetition
	case name == c.name && a.known(name):
		// No id tells them apart: the whole name again, or the next call?
		// Arguments that are complete take nothing more but themselves again.
		if piece := escaped(args); len(piece) > 0 && c.complete() && !c.same(piece) {
			return nil
		}
		return c
	case c.final || a.known(c.name) && !a.known(c.name+name):
		return nil
	}
	return c // a further piece of the name
}

// addArguments appends a piece of the arguments. A piece that repeats arguments
// which are complete already is dropped: some relays close with the whole call.
func (c *call) addArguments(args gjson.Result) {
	if args.IsObject() {
		c.whole = args.Raw
		return
	}
	piece := escaped(args)
	if bytes.HasPrefix(piece, []byte("{")) && bytes.HasSuffix(piece, []byte("}")) && c.complete() && c.same(piece) {
		return
	}
	c.args = append(c.args, piece...)
}

// complete says whether the arguments so far are one JSON object.
func (c *call) complete() bool { return isObject(unescape(c.args)) }

// same says whether piece is the value that the arguments have, white space apart.
func (c *call) same(piece []byte) bool {
	ugly := func(escaped []byte) []byte { return pretty.Ugly([]byte(unescape(escaped))) }
	return bytes.Equal(ugly(c.args), ugly(piece))
}

// finalize fixes the name and the id of a call, in the order of the calls.
func (a *assembly) finalize(c *call) {
	if !c.final {
		c.final, c.id = true, a.ids.unique(c.id)
	}
}

// finalizeAll says that no call will grow any more.
func (a *assembly) finalizeAll() {
	for _, c := range a.calls {
		a.finalize(c)
	}
}

// message is the whole message, raw JSON.
func (a *assembly) message() string {
	var b strings.Builder
	b.WriteString(`{"role":`)
	role := `"assistant"`
	for _, m := range a.members {
		if m.name == "role" && len(m.raw) > 0 && m.text {
			role = `"` + string(m.raw) + `"`
		}
	}
	b.WriteString(role)
	for _, m := range a.members {
		if m.name == "role" {
			continue
		}
		b.WriteString("," + quote(m.name) + ":")
		if m.text {
			b.WriteString(`"` + string(m.raw) + `"`)
		} else {
			b.Write(m.raw)
		}
	}
	if len(a.calls) > 0 {
		var entries [][]byte
		for _, c := range a.calls {
			entries = append(entries, []byte(c.entry("", 0)))
		}
		b.WriteString(`,"tool_calls":[` + join(entries) + "]")
	}
	b.WriteString("}")
	return b.String()
}

// entry is the call as an entry of tool_calls, its arguments from byte from on.
func (c *call) entry(index string, from int) string {
	args := `"` + string(c.args[from:]) + `"`
	if c.whole != "" {
		args = quote(c.whole)
	}
	return "{" + index + `"id":` + quote(c.id) + `,"type":"function","function":{"name":` + quote(c.name) +
		`,"arguments":` + args + inner(c.funcs) + "}" + inner(c.extra) + "}"
}

// gather adds the members of v, save the named ones, to the raw object have.
func gather(have string, v gjson.Result, except ...string) string {
	v.ForEach(func(key, value gjson.Result) bool {
		for _, name := range except {
			if key.String() == name {
				return true
			}
		}
		if have == "" {
			have = "{}"
		}
		have = set(have, gjson.Escape(key.String()), value.Raw)
		return true
	})
	return have
}

// inner is a raw object's members, each after a comma, to go into another one.
func inner(object string) string {
	if len(object) <= len("{}") {
		return ""
	}
	return "," + object[1:len(object)-1]
}

// escaped is a JSON string without its quotes, nil for anything else.
func escaped(v gjson.Result) []byte {
	if v.Type != gjson.String {
		return nil
	}
	return []byte(v.Raw[1 : len(v.Raw)-1])
}

func unescape(escaped []byte) string {
	return gjson.Parse(`"` + string(escaped) + `"`).String()
}
