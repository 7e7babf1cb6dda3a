package mcp

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/mcp-via-llm/mcp-via-llm/schema"
)

// Names of the two functions through which a model reaches what MaxTools leaves no
// room for. A client's own function of that name wins, as everywhere.
const (
	searchName = "mcp_search_tools"
	callName   = "mcp_call_tool"

	// maxNamedServers bounds the servers that the description of the search names,
	// maxFound the functions that one search returns, and maxFoundBytes their JSON.
	maxNamedServers = 20
	maxFound        = 50
	defaultFound    = 10
	maxFoundBytes   = 32 << 10

	// throughBytes is room for the two, whose descriptions name servers.
	throughBytes = 4 << 10
)

// The two as tools, of which one has two forms. A call is judged by its target, see Binding.target.
var (
	searchTool = builtIn(searchName, fmt.Sprintf(`{"type":"object","properties":{`+
		`"query":{"type":"string","description":"Words that say what the function should do; empty to list all"},`+
		`"limit":{"type":"integer","minimum":1,"maximum":%d,"description":"How many functions to return at most, %d if left out"}},`+
		`"required":["query"]}`, maxFound, defaultFound))
	callTool = builtIn(callName, `{"type":"object","properties":{`+
		`"name":{"type":"string","description":"The function's name, as it was found"},`+
		`"arguments":{"type":"object","description":"The function's arguments, which fit its parameters"}},`+
		`"required":["name","arguments"]}`)
	// For dialects without objects of any members.
	callTextTool = builtIn(callName, `{"type":"object","properties":{`+
		`"name":{"type":"string","description":"The function's name, as it was found"},`+
		`"arguments":{"type":"string","description":"The function's arguments, as the text of a JSON object that fits its parameters"}},`+
		`"required":["name","arguments"]}`)
)

func builtIn(name, parameters string) *tool {
	return &tool{kind: KindTool, name: name, schema: parameters, input: schema.NewChecker(parameters), readOnly: name == searchName, repeatable: name == searchName}
}

func (e *entry) builtIn(name string) bool { return e.conn == nil && e.tool.name == name }

// limit leaves out what is over the room. Resources and prompts go first, for a
// model can do without them; then tools, of the servers that come last in the query
// first. Two places are for the functions that reach what is left out. Where there is
// only one, it is for a tool: either of the two is of no use without the other.
func (b *Binding) limit(room int) {
	order := slices.Clone(b.entries)
	slices.SortStableFunc(order, func(x, y entry) int {
		if xTool, yTool := x.Kind == KindTool, y.Kind == KindTool; xTool != yTool {
			if xTool {
				return -1
			}
			return 1
		}
		return x.place - y.place
	})
	through := []entry{}
	if room >= 2 {
		room -= 2
		call := callTool
		if d := b.set.dialect; d == schema.Gemini || d == schema.OpenAIStrict {
			call = callTextTool
		}
		for _, t := range []*tool{searchTool, call} {
			e := entry{tool: t, origin: origin{tool: t.name}, Tool: t.offer(t.name, origin{tool: t.name})}
			e.describe(b.set.dialect, "")
			through = append(through, e)
		}
	}
	if b.omitted = b.over(order, room); len(through) == 0 && len(b.omitted) > 0 {
		b.tight(room)
	}
	gone := make(map[*tool]bool, len(b.omitted))
	for _, e := range b.omitted {
		gone[e.tool] = true
	}
	b.entries = append(slices.DeleteFunc(b.entries, func(e entry) bool { return gone[e.tool] }), through...)
}

// tight says in the log, once for the same servers, that what is left out cannot be
// reached.
func (b *Binding) tight(room int) {
	var servers []string
	for _, e := range b.omitted {
		if !slices.Contains(servers, e.Server) {
			servers = append(servers, e.Server)
		}
	}
	slices.Sort(servers)
	if _, before := b.set.host.tight.LoadOrStore(fmt.Sprint(servers, b.set.maxTools, room), true); !before {
		b.set.host.opts.Log.Warn("a request leaves no room under max_tools for "+searchName+" and "+callName+"; what is left out cannot be reached",
			"max_tools", b.set.maxTools, "room", room, "left_out", len(b.omitted), "servers", strings.Join(servers[:min(len(servers), maxNamedServers)], ", "))
	}
}

// over gives what of the functions in this order there is no room for. One that is
// too large alone does not keep out those after it.
func (b *Binding) over(order []entry, room int) (omitted []entry) {
	left := b.set.maxBytes - throughBytes
	for _, e := range order {
		fits := b.set.maxBytes <= 0 || len(e.JSON) < left
		if room == 0 || !fits {
			omitted = append(omitted, e)
			continue
		}
		room--
		left -= len(e.JSON) + 1
	}
	return omitted
}

// introduce describes the two functions, when it is settled what they are called.
func (b *Binding) introduce() {
	n := len(b.entries)
	if n < 2 || !b.entries[n-1].builtIn(callName) {
		return
	}
	var servers []string
	for _, e := range b.omitted {
		if !slices.Contains(servers, e.Server) {
			servers = append(servers, e.Server)
		}
	}
	slices.Sort(servers)
	names := strings.Join(servers[:min(len(servers), maxNamedServers)], ", ")
	if len(servers) > maxNamedServers {
		names += " and others"
	}
	search, call := &b.entries[n-2], &b.entries[n-1]
	search.describe(b.set.dialect, fmt.Sprintf("Finds more functions of the MCP servers %s, for which there is no room in the list. "+
		"Returns their names, descriptions and parameters. Call what it finds with %s.", names, call.Name))
	call.describe(b.set.dialect, fmt.Sprintf("Calls a function that %s has found.", search.Name))
}

func (e *entry) describe(dialect schema.Dialect, text string) {
	as, _, err := schema.Convert(dialect, text, e.tool.schema)
	if err != nil {
		panic(err) // it is a constant
	}
	e.as, e.Description = as, as.Description
	e.name(e.Name)
}

// readCall reads the arguments of mcp_call_tool. Models also write the inner ones as
// a string of JSON, and leave them out.
func readCall(arguments string) (name, inner string, ok bool) {
	if !gjson.Valid(arguments) {
		return "", "", false
	}
	call := gjson.Parse(arguments)
	args := call.Get("arguments")
	switch {
	case !args.Exists():
		inner = "{}"
	case args.Type == gjson.String:
		inner = args.String()
	default:
		inner = args.Raw
	}
	name = call.Get("name").String()
	return name, inner, name != ""
}

// callNothing answers a call of mcp_call_tool that reaches no function.
func (b *Binding) callNothing(e *entry, arguments string) Result {
	name, _, ok := readCall(arguments)
	switch {
	case !ok:
		_, err := e.arguments(arguments)
		if err == nil {
			err = &errArguments{[]string{"/name: is empty"}}
		}
		return e.failed(err)
	case name == e.Name:
		return e.failed(&errArguments{[]string{"/name: " + name + " cannot call itself"}})
	}
	return b.unknown(name)
}

// found is a function as the search shows it.
type found struct {
	Name        string  `json:"name"`
	Description string  `json:"description"`
	Parameters  rawJSON `json:"parameters,omitempty"`
}

// rawJSON is JSON whose bytes stay as they are.
type rawJSON string

func (r rawJSON) MarshalJSON() ([]byte, error) { return []byte(r), nil }

// search answers a call of mcp_search_tools.
func (b *Binding) search(e *entry, arguments string) Result {
	args, err := e.arguments(arguments)
	if err != nil {
		return e.failed(err)
	}
	query, limit := gjson.GetBytes(args, "query").String(), int(gjson.GetBytes(args, "limit").Int())
	if limit == 0 {
		limit = defaultFound
	}
	left := make(map[*tool]*entry, len(b.omitted))
	for i := range b.omitted {
		left[b.omitted[i].tool] = &b.omitted[i]
	}
	var matches []*entry
	if strings.TrimSpace(query) == "" {
		for i := range b.omitted {
			matches = append(matches, &b.omitted[i])
		}
	} else {
		for _, t := range b.set.index().find(query) {
			if e := left[t]; e != nil {
				matches = append(matches, e)
			}
		}
	}
	if len(matches) == 0 {
		return Result{Text: `{"tools":[],"note":"Nothing matches. Try other words, or an empty query to list all."}`, Outcome: OutcomeOK}
	}
	return Result{Text: showFound(matches, limit), Outcome: OutcomeOK}
}

// showFound writes the first functions as JSON, as many as there is room for. One
// that is too large alone goes without its parameters.
func showFound(matches []*entry, limit int) string {
	var shown []string
	size := 0
	for _, e := range matches[:min(len(matches), limit)] {
		text := encode(found{e.Name, e.Description, rawJSON(e.as.Parameters)})
		if len(shown) == 0 && len(text) > maxFoundBytes {
			text = encode(found{Name: e.Name, Description: e.Description + " (Its parameters are too long to be shown here.)"})
		}
		if size += len(text); size > maxFoundBytes {
			break
		}
		shown = append(shown, text)
	}
	more := ""
	if n := len(matches) - len(shown); n > 0 {
		more = fmt.Sprintf(`,"more":%d`, n)
	}
	return `{"tools":[` + strings.Join(shown, ",") + `]` + more + `}`
}
