package chat

import (
	"net/http"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
)

// Request is the body of POST /v1/chat/completions, parsed once. Its bytes are
// kept as the client sent them; Build makes the body of a segment out of them.
type Request struct {
	Model   string
	Stream  bool
	Usage   bool     // the client asked for usage in its stream
	Names   []string // names of the client's own functions and custom tools
	NoCalls bool     // tool_choice is "none"
	User    string   // safety_identifier and user: whom of its people the application speaks for

	// Untouchable says why the request must go on as it is, without injected
	// tools and with its answer copied through; empty if it need not.
	Untouchable string

	raw      string
	messages gjson.Result
	tools    gjson.Result
	choice   gjson.Result
	options  gjson.Result

	known []Message // the messages, when they were read
	read  bool
}

func invalidBody(message string) *Error {
	return &Error{Status: http.StatusBadRequest, Type: "invalid_request_error", Code: "invalid_body", Message: message}
}

// ParseRequest reads a request body, which must not change afterwards. The error
// is what the client gets: 400 with code invalid_body.
func ParseRequest(body []byte) (*Request, *Error) {
	r := &Request{raw: text(body)}
	if !validJSON(r.raw) {
		return nil, invalidBody("The request body is not valid JSON. Send one complete JSON object.")
	}
	if !gjson.Parse(r.raw).IsObject() {
		return nil, invalidBody("The request body is not a JSON object. Send an object with a \"messages\" array.")
	}
	// Of members with the same name the last one counts, as with most parsers.
	var n int64
	legacy := false
	user, safety := "", ""
	each(gjson.Result{Raw: r.raw}, func(key string, value gjson.Result) {
		switch key {
		case "model":
			r.Model = value.String()
		case "messages":
			r.messages = value
		case "stream":
			r.Stream = value.Type == gjson.True
		case "stream_options":
			r.options = value
		case "tools":
			r.tools = value
		case "tool_choice":
			r.choice = value
		case "n":
			n = value.Int()
		case "user":
			user = value.String()
		case "safety_identifier":
			safety = value.String()
		case "functions", "function_call":
			legacy = legacy || present(value)
		}
	})
	if !r.messages.IsArray() {
		err := invalidBody("The request body has no \"messages\" array.")
		err.Param = "messages"
		return nil, err
	}
	if user != "" || safety != "" {
		r.User = quote(safety) + quote(user)
	}
	r.NoCalls = r.choice.String() == "none"
	r.Usage = r.options.Get("include_usage").Type == gjson.True
	switch {
	case n > 1:
		r.Untouchable = "n is greater than 1"
	case legacy:
		r.Untouchable = "the legacy functions parameter is used"
	case present(r.tools) && !r.tools.IsArray():
		r.Untouchable = "tools is not an array"
	}
	if r.tools.IsArray() {
		r.Names = names(r.tools)
	}
	return r, nil
}

// names gives the names of functions and custom tools.
func names(tools gjson.Result) (all []string) {
	each(tools, func(_ string, tool gjson.Result) {
		kinds := members(tool.Raw, "function", "custom")
		for _, kind := range kinds[:2] {
			if name := members(kind.Raw, "name")[0]; name.Type == gjson.String {
				all = append(all, name.String())
			}
		}
	})
	return all
}

// Members visits the members of the body, in their order, save the messages and
// the tools.
func (r *Request) Members(visit func(name string, value gjson.Result)) {
	gjson.Parse(r.raw).ForEach(func(key, value gjson.Result) bool {
		if name := key.String(); name != "messages" && name != "tools" {
			visit(name, value)
		}
		return true
	})
}

// HasTools says whether the client sent tools of any kind.
func (r *Request) HasTools() bool { return r.tools.Get("0").Exists() }

// Original is the body as the client sent it.
func (r *Request) Original() []byte { return []byte(r.raw) }

// Choice says what a segment does with the client's tool_choice.
type Choice int

const (
	KeepChoice Choice = iota // as the client sent it
	FreeChoice               // a forced choice becomes "auto"
	NoCalls                  // "none": the model must answer in text
)

// Edit is what a segment's request has besides the client's own bytes.
type Edit struct {
	System   string        // instructions put ahead of the client's own, in one leading system message
	Tools    []byte        // function tools, joined by commas, put after the client's own
	Replace  []Replacement // of messages of the client, in order
	Append   [][]byte      // messages put after the client's own
	Choice   Choice
	AskUsage bool // a streamed answer shall have usage, whatever the client asked
}

// Build makes the body of one segment. Bytes outside the edits are the client's.
func (r *Request) Build(e Edit) []byte {
	var room [12]cut // for most requests
	cuts := room[:0]
	end := strings.LastIndexByte(r.raw, '}')
	member := func(name, value string) { cuts = append(cuts, cut{end, end, `,"` + name + `":` + value}) }

	if e.System != "" { // before what is put at the same place
		cuts = append(cuts, r.instruct(e.System, len(e.Append) > 0))
	}
	if len(e.Replace) > 0 {
		cuts = append(cuts, replace(r.Messages(), e.Replace)...)
	}
	if len(e.Append) > 0 {
		cuts = append(cuts, into(r.messages, join(e.Append))...)
	}
	// The tools may be many: they are copied once, into the body.
	switch tools := text(e.Tools); {
	case tools == "":
	case r.tools.IsArray():
		cuts = append(cuts, into(r.tools, tools)...)
	case r.tools.Exists():
		after := r.tools.Index + len(r.tools.Raw)
		cuts = append(cuts, over(r.tools, "["), cut{after, after, tools}, cut{after, after, "]"})
	default:
		cuts = append(cuts, cut{end, end, `,"tools":[`}, cut{end, end, tools}, cut{end, end, "]"})
	}
	if choice, ok := r.choose(e.Choice); !ok {
	} else if r.choice.Exists() {
		cuts = append(cuts, over(r.choice, choice))
	} else {
		member("tool_choice", choice)
	}
	if e.AskUsage && r.Stream && !r.Usage {
		switch {
		case r.options.IsObject():
			cuts = append(cuts, over(r.options, set(r.options.Raw, "include_usage", "true")))
		case r.options.Exists():
			cuts = append(cuts, over(r.options, `{"include_usage":true}`))
		default:
			member("stream_options", `{"include_usage":true}`)
		}
	}
	return splice(r.raw, cuts)
}

// choose gives the new value of tool_choice, if it changes.
func (r *Request) choose(c Choice) (string, bool) {
	switch {
	case c == NoCalls:
		return `"none"`, true
	case c == KeepChoice || !present(r.choice):
		return "", false
	case r.choice.Get("type").String() == "allowed_tools":
		if r.choice.Get("allowed_tools.mode").String() == "auto" {
			return "", false
		}
		return set(r.choice.Raw, "allowed_tools.mode", `"auto"`), true
	case r.choice.IsObject() || r.choice.String() == "required" || r.choice.String() == "any": // Mistral's word
		return `"auto"`, true
	}
	return "", false
}

// cut replaces the bytes [from, to) of a text.
type cut struct {
	from, to int
	with     string
}

func over(v gjson.Result, with string) cut { return cut{v.Index, v.Index + len(v.Raw), with} }

// into puts values at the end of the array v.
func into(v gjson.Result, values string) []cut {
	at := v.Index + len(v.Raw) - 1
	if v.Get("0").Exists() {
		return []cut{{at, at, ","}, {at, at, values}}
	}
	return []cut{{at, at, values}}
}

// splice applies cuts that do not overlap. Those at one place keep their order.
func splice(s string, cuts []cut) []byte {
	slices.SortStableFunc(cuts, func(a, b cut) int { return a.from - b.from })
	size := len(s)
	for _, c := range cuts {
		size += len(c.with) - (c.to - c.from)
	}
	out, at := make([]byte, 0, size), 0
	for _, c := range cuts {
		out = append(append(out, s[at:c.from]...), c.with...)
		at = c.to
	}
	return append(out, s[at:]...)
}

func join(parts [][]byte) string {
	var b strings.Builder
	for i, p := range parts {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(p)
	}
	return b.String()
}
