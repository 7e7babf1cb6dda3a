package mcp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/gjson"
)

// Binding is a toolset fitted to one request: names that the client's own
// functions have are given way to, and the limit holds for both together.
type Binding struct {
	host    *Host
	entries []entry
	byName  map[string]int
	omitted []string
	json    []byte
	system  string
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

// Bind fits the toolset to a request whose client has functions with the names
// taken. The client's functions always keep their names and their place.
func (ts *Toolset) Bind(taken []string) *Binding {
	clash := slices.ContainsFunc(taken, ts.plain.Has)
	full := ts.maxTools > 0 && len(taken)+len(ts.entries) > ts.maxTools
	if len(taken) == 0 || !clash && !full {
		return ts.plain
	}
	return ts.bind(taken)
}

func (ts *Toolset) bind(taken []string) *Binding {
	b := &Binding{host: ts.host, system: ts.system, entries: slices.Clone(ts.entries)}
	names := make(map[string]bool, len(taken)+len(b.entries))
	for _, name := range taken {
		names[name] = true
	}
	var clashes []*entry
	for i := range b.entries {
		e := &b.entries[i]
		if names[e.Name] {
			clashes = append(clashes, e)
		}
		names[e.Name] = true
	}
	for _, e := range clashes {
		e.name(origin{server: e.Server, tool: e.Original}.rename(names))
		names[e.Name] = true
	}
	if ts.maxTools > 0 {
		b.limit(max(0, ts.maxTools-len(taken)))
	}
	b.byName = make(map[string]int, len(b.entries))
	parts := make([][]byte, len(b.entries))
	for i, e := range b.entries {
		b.byName[e.Name] = i
		parts[i] = e.JSON
	}
	b.json = bytes.Join(parts, []byte{','})
	return b
}

// limit leaves out what is over the room: of the servers that come last in the
// query first, and of each the names that come last.
func (b *Binding) limit(room int) {
	if len(b.entries) <= room {
		return
	}
	keep := slices.Clone(b.entries)
	slices.SortStableFunc(keep, func(x, y entry) int { return x.place - y.place })
	gone := map[string]bool{}
	for _, e := range keep[room:] {
		gone[e.Name] = true
		b.omitted = append(b.omitted, e.Name)
	}
	b.entries = slices.DeleteFunc(b.entries, func(e entry) bool { return gone[e.Name] })
}

func (b *Binding) list() []Tool {
	tools := make([]Tool, len(b.entries))
	for i, e := range b.entries {
		tools[i] = e.Tool
	}
	return tools
}

// JSON is the tools as comma-joined elements of the request's tools, without
// brackets; empty if there are none. The bytes are the same for the same tools.
func (b *Binding) JSON() []byte { return b.json }

// System gives the text of prompts that need no arguments, which belongs into the
// leading system message; empty if there are none. The bytes are the same for the
// same prompts.
func (b *Binding) System() string { return b.system }

// Has reports whether a function of this name is an MCP tool of this request.
func (b *Binding) Has(name string) bool {
	_, ok := b.byName[name]
	return ok
}

// Omitted lists the injected names of the tools that the limit left out.
func (b *Binding) Omitted() []string { return b.omitted }

// Call runs the tool with the injected name. arguments is the JSON text that the
// model wrote; blanks and null mean {}. What fails is told in the result.
func (b *Binding) Call(ctx context.Context, name, arguments string) (res Result) {
	event := CallEvent{Injected: name, Start: time.Now()}
	defer func() {
		if r := recover(); r != nil {
			// Not the value of the panic: it may quote the arguments.
			b.host.opts.Log.Error("panic in an mcp call", "server", event.Server, "tool", event.Tool,
				"panic", fmt.Sprintf("%T", r), "stack", string(debug.Stack()))
			res = failure(OutcomeFailed, name+" failed: internal error.")
		}
		if observe := b.host.opts.Observe; observe != nil {
			event.Duration, event.Outcome = time.Since(event.Start), res.Outcome
			observe(event)
		}
	}()
	i, ok := b.byName[name]
	if !ok {
		return b.unknown(name)
	}
	e := b.entries[i]
	event.Server, event.Tool = e.Server, e.Original
	raw, err := e.run(ctx, b.host, arguments)
	event.ResultBytes = len(raw)
	if err != nil {
		return e.failed(err)
	}
	limit := e.conn.cfg.MaxResultBytes
	var c content
	res = Result{Outcome: OutcomeOK}
	if c.read(raw) {
		res = failure(OutcomeToolError, name+" failed: ")
	} else {
		e.checkOutput(raw)
	}
	res.Text, res.Images = capText(res.Text+c.text(), limit), c.images
	return res
}

func (e *entry) run(ctx context.Context, h *Host, arguments string) ([]byte, error) {
	args, err := e.tool.arguments(arguments)
	if err != nil {
		return nil, err
	}
	c := h.successor(e.conn)
	if c == nil {
		return nil, &callError{OutcomeUnavailable, fmt.Sprintf("MCP server %q is not configured any more.", e.Server)}
	}
	c.waitFirst(ctx, c.cfg.ConnectTimeout) // replaced by a reload: this is no part of the tool's own time
	return c.call(ctx, e.request(args))
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
func (e *entry) checkOutput(raw []byte) {
	structured := gjson.GetBytes(raw, "structuredContent")
	if e.tool.output != nil && structured.Exists() && violations(e.tool.output, structured.Raw) != nil {
		e.conn.log.Warn("result does not fit the tool's output schema", "tool", e.Original)
	}
}
