package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/mcp-via-llm/mcp-via-llm/excerpt"
)

// Binding is a toolset fitted to one request: names that the client's own
// functions have are given way to, and the limit holds for both together.
type Binding struct {
	set     *Toolset
	entries []entry           // that are offered, in the order of JSON
	omitted []entry           // that are reached through others, in the order in which they would get room
	names   []string          // of these
	byName  map[string]*entry // all of them
	json    []byte
	tokens  int // of entries, together
}

// Result is the outcome of a call, told to the model.
type Result struct {
	Text    string // never empty
	IsError bool
	Outcome string // one of the Outcome constants
	// Images are the pictures of the result, in its order, within the limits that
	// image.go gives. Text has a marker in the place of each.
	Images []Image
}

// Image is a picture that models with eyes can take.
type Image struct {
	MIME string // image/png, image/jpeg, image/gif or image/webp, as the data says
	Data string // base64 (RFC 4648, section 4)
}

// maxBindings bounds the bindings that a toolset keeps.
const maxBindings = 8

// Bind fits the toolset to a request whose client has functions with the names
// taken. The client's functions always keep their names and their place.
func (ts *Toolset) Bind(taken []string) *Binding {
	clash := slices.ContainsFunc(taken, ts.plain.Has)
	if len(taken) == 0 || !clash && ts.fits(len(taken)) {
		return ts.plain
	}
	var key strings.Builder
	for _, name := range slices.Sorted(slices.Values(taken)) {
		key.WriteString(strconv.Quote(name))
	}
	ts.mu.Lock()
	defer ts.mu.Unlock()
	b := ts.bound[key.String()]
	if b == nil {
		if b = ts.bind(taken); ts.bound == nil || len(ts.bound) >= maxBindings {
			ts.bound = map[string]*Binding{}
		}
		ts.bound[key.String()] = b
	}
	return b
}

// fits reports whether there is room for everything beside a number of functions
// that the client has.
func (ts *Toolset) fits(others int) bool {
	size := 0
	for _, e := range ts.entries {
		size += len(e.JSON) + 1
	}
	return (ts.maxTools <= 0 || others+len(ts.entries) <= ts.maxTools) && (ts.maxBytes <= 0 || size <= ts.maxBytes)
}

func (ts *Toolset) bind(taken []string) *Binding {
	b := &Binding{set: ts, entries: slices.Clone(ts.entries), byName: map[string]*entry{}}
	if !ts.fits(len(taken)) {
		room := len(ts.entries) + 2 // for all, and for what reaches those left out
		if ts.maxTools > 0 {
			room = max(0, ts.maxTools-len(taken))
		}
		b.limit(room)
	}
	names := make(map[string]bool, len(taken)+len(ts.entries))
	for _, name := range taken {
		names[name] = true
	}
	var clashes []*entry
	for _, entries := range [][]entry{b.entries, b.omitted} {
		for i := range entries {
			e := &entries[i]
			if names[e.Name] {
				clashes = append(clashes, e)
			}
			names[e.Name] = true
		}
	}
	for _, e := range clashes {
		e.name(e.origin.rename(names))
		names[e.Name] = true
	}
	b.introduce()
	parts := make([][]byte, len(b.entries))
	for i := range b.entries {
		b.byName[b.entries[i].Name] = &b.entries[i]
		parts[i] = b.entries[i].JSON
		b.tokens += b.entries[i].Tokens
	}
	for i := range b.omitted {
		b.byName[b.omitted[i].Name] = &b.omitted[i]
		b.names = append(b.names, b.omitted[i].Name)
	}
	b.json = bytes.Join(parts, []byte{','})
	return b
}

// List lists the functions in the order of JSON.
func (b *Binding) List() []Tool { return offers(b.entries) }

// Cost tells how many functions there are, and the tokens that they cost together,
// by the same estimate as [Tool.Tokens].
func (b *Binding) Cost() (tools, tokens int) { return len(b.entries), b.tokens }

// JSON is the tools as comma-joined elements of the request's tools, without
// brackets; empty if there are none. The bytes are the same for the same tools.
func (b *Binding) JSON() []byte { return b.json }

// System gives the text of prompts that need no arguments, which belongs into the
// leading system message; empty if there are none. The bytes are the same for the
// same prompts.
func (b *Binding) System() string { return b.set.system }

// Has reports whether a function of this name is an MCP tool of this request, or
// one that the limit left out.
func (b *Binding) Has(name string) bool {
	_, ok := b.byName[name]
	return ok
}

// Omitted lists the injected names of what the limit left out, in the order in
// which it would get room. It can be called all the same.
func (b *Binding) Omitted() []string { return b.names }

// Runs gives the injected name of the function that a call runs: for mcp_call_tool,
// the one that it names. It is "" if there is no function of that name.
func (b *Binding) Runs(name, arguments string) string {
	if e, _ := b.target(name, arguments); e != nil {
		return e.Name
	}
	return ""
}

// Target tells what a call is of: which server's what, whatever its injected name.
// No two functions ever have the same, unlike the name, which may pass from one to
// another. It is "" if there is no function of that name.
func (b *Binding) Target(name, arguments string) string {
	e, _ := b.target(name, arguments)
	if e == nil {
		return ""
	}
	return strings.Join([]string{e.origin.server, e.origin.prefix, e.origin.tool, e.origin.key}, "\x00")
}

// target is what a call is really of: a call of mcp_call_tool is one of the function
// that it names. It is nil if there is no function of the name.
func (b *Binding) target(name, arguments string) (*entry, string) {
	e := b.byName[name]
	if e != nil && e.builtIn(callName) {
		if inner, args, ok := readCall(arguments); ok && b.byName[inner] != nil && b.byName[inner] != e {
			return b.byName[inner], args
		}
	}
	return e, arguments
}

// Call runs the tool with the injected name. arguments is the JSON text that the
// model wrote; blanks and null mean {}. What fails is told in the result.
func (b *Binding) Call(ctx context.Context, name, arguments string) Result {
	return b.CallResolved(ctx, name, arguments, nil)
}

// CallResolved is [Binding.Call] for who has resolved that call before: args is what
// [Binding.Resolve] gave without an error, and is not checked again; nil otherwise.
func (b *Binding) CallResolved(ctx context.Context, name, arguments string, args json.RawMessage) (res Result) {
	event := &CallEvent{Injected: name, Start: time.Now()}
	defer b.finished(ctx, event, &res)
	e, arguments := b.target(name, arguments)
	if e == nil {
		return b.unknown(name)
	}
	event.Injected, event.Server, event.Tool = e.Name, e.Server, e.Original
	switch {
	case e.builtIn(searchName):
		return b.search(e, arguments)
	case e.builtIn(callName):
		return b.callNothing(e, arguments)
	}
	raw, err := e.run(ctx, b.set.host, arguments, args)
	event.ResultBytes = len(raw)
	if err != nil {
		return e.failed(err)
	}
	return e.result(ctx, raw)
}

// finished ends a call, also one that panicked.
func (b *Binding) finished(ctx context.Context, event *CallEvent, res *Result) {
	host := b.set.host
	if r := recover(); r != nil {
		// Not the value of the panic: it may quote the arguments.
		host.opts.Log.ErrorContext(ctx, "panic in an mcp call", "server", event.Server, "tool", event.Tool,
			"panic", fmt.Sprintf("%T", r), "stack", string(debug.Stack()))
		*res = failure(OutcomeFailed, event.Injected+" failed: internal error.")
	}
	if observe := host.opts.Observe; observe != nil {
		event.Duration, event.Outcome = time.Since(event.Start), res.Outcome
		observe(ctx, *event)
	}
}

// result is what the model gets of a result.
func (e *entry) result(ctx context.Context, raw []byte) Result {
	var c content
	res := Result{Outcome: OutcomeOK}
	if e.tool.read(&c, raw) {
		res = failure(OutcomeToolError, e.Name+" failed: ")
	} else {
		e.checkOutput(ctx, raw)
	}
	res.Text, res.Images = excerpt.Of(res.Text+c.text(), e.conn.cfg.MaxResultBytes), c.images
	return res
}

func (e *entry) run(ctx context.Context, h *Host, arguments string, args json.RawMessage) ([]byte, error) {
	if args == nil {
		var err error
		if args, err = e.arguments(arguments); err != nil {
			return nil, err
		}
	}
	c := h.successor(e.conn)
	if c == nil {
		return nil, &callError{OutcomeUnavailable, fmt.Sprintf("MCP server %q is not configured any more.", e.Server)}
	}
	c.waitFirst(ctx, c.cfg.ConnectTimeout) // replaced by a reload: this is no part of the tool's own time
	return c.call(ctx, e.request(args))
}

// arguments makes tools/call arguments of what the model wrote for the function.
func (e *entry) arguments(text string) (json.RawMessage, error) {
	return e.tool.arguments(e.as.Arguments(text))
}

func (e *entry) failed(err error) Result {
	var bad *errArguments
	var call *callError
	switch {
	case errors.As(err, &bad):
		return failure(OutcomeInvalidArguments, fmt.Sprintf(
			"%s was not called: its arguments do not fit. %s. Correct the arguments and call it again.", e.Name, strings.TrimSuffix(err.Error(), ".")))
	case errors.As(err, &call):
		return failure(call.outcome, call.message)
	}
	return failure(OutcomeFailed, e.Name+" failed: internal error.")
}

func failure(outcome, text string) Result {
	return Result{Text: text, IsError: true, Outcome: outcome}
}

// checkOutput logs a result that is not what the tool promised; the model gets
// it all the same.
func (e *entry) checkOutput(ctx context.Context, raw []byte) {
	structured := gjson.GetBytes(raw, "structuredContent")
	if e.tool.output != nil && structured.Exists() && e.tool.output.Problems(structured.Raw) != nil {
		e.conn.log.WarnContext(ctx, "result does not fit the tool's output schema", "tool", e.Original)
	}
}
