package telemetry_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// span is one of Jaeger's, with its place in the tree.
type span struct {
	id, parent string
	name       string
	service    string
	kind       string // server, client, internal
	start      int64  // in microseconds since 1970
	tags       map[string]string
	links      []string // ids of spans that are no parents, of this trace or another

	children []*span
}

// traced is a whole trace.
type traced struct {
	id    string
	spans []*span
	byID  map[string]*span
	roots []*span
}

type jaegerTrace struct {
	TraceID   string
	Processes map[string]struct{ ServiceName string }
	Spans     []struct {
		SpanID        string
		OperationName string
		ProcessID     string
		StartTime     int64
		References    []struct{ RefType, TraceID, SpanID string }
		Tags          []struct {
			Key   string
			Value any
		}
	}
}

// fetch reads a trace; nil if there is none yet.
func (b *backend) fetch(t *testing.T, id string) *traced {
	t.Helper()
	response, err := http.Get(b.jaeger + "/api/traces/" + id)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var answer struct{ Data []jaegerTrace }
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil || len(answer.Data) == 0 {
		return nil
	}
	return read(answer.Data[0])
}

func read(in jaegerTrace) *traced {
	out := &traced{id: in.TraceID, byID: map[string]*span{}}
	for _, s := range in.Spans {
		one := &span{id: s.SpanID, name: s.OperationName, service: in.Processes[s.ProcessID].ServiceName, start: s.StartTime, tags: map[string]string{}}
		for _, tag := range s.Tags {
			one.tags[tag.Key] = fmt.Sprint(tag.Value)
		}
		one.kind = one.tags["span.kind"]
		for _, r := range s.References {
			if r.RefType == "CHILD_OF" && r.TraceID == in.TraceID && one.parent == "" {
				one.parent = r.SpanID
			} else {
				one.links = append(one.links, r.SpanID)
			}
		}
		out.spans, out.byID[one.id] = append(out.spans, one), one
	}
	slices.SortFunc(out.spans, func(a, b *span) int { return int(a.start - b.start) })
	for _, s := range out.spans {
		if parent := out.byID[s.parent]; parent != nil {
			parent.children = append(parent.children, s)
		} else {
			out.roots = append(out.roots, s)
		}
	}
	return out
}

// named gives the service's spans with a name, in order of their start.
func (x *traced) named(name string) (all []*span) {
	for _, s := range x.spans {
		if s.service == "mcp-via-llm" && s.label() == name {
			all = append(all, s)
		}
	}
	return all
}

// one gives the only span with a name; an empty one if there is none, or more.
func (x *traced) one(name string) *span {
	if all := x.named(name); len(all) == 1 {
		return all[0]
	}
	return &span{name: "no single " + name, tags: map[string]string{}}
}

func (s *span) store() bool { return strings.HasPrefix(s.name, "session store ") }

func (x *traced) storeSpans() (all []*span) {
	for _, s := range x.spans {
		if s.store() {
			all = append(all, s)
		}
	}
	return all
}

// label is the span's name in paths.
func (s *span) label() string {
	switch {
	case s.service != "mcp-via-llm":
		return s.service + ":" + s.name
	case s.name == "chat_completions turn":
		return "turn"
	}
	return s.name
}

// leaves are the paths from the roots to the spans without children, sorted, those of the store apart.
func (x *traced) leaves() (all []string) {
	var walk func(s *span, path string)
	walk = func(s *span, path string) {
		path += s.label()
		leaf := true
		for _, c := range s.children {
			if !c.store() {
				leaf = false
				walk(c, path+" > ")
			}
		}
		if leaf {
			all = append(all, path)
		}
	}
	for _, root := range x.roots {
		walk(root, "")
	}
	slices.Sort(all)
	return all
}

// String draws the tree, for showing after a failure.
func (x *traced) String() string {
	var b strings.Builder
	var draw func(*span, string)
	draw = func(s *span, indent string) {
		fmt.Fprintf(&b, "%s%s: %s (%s) links %v %v\n", indent, s.service, s.name, s.kind, s.links, s.tags)
		for _, c := range s.children {
			draw(c, indent+"  ")
		}
	}
	for _, root := range x.roots {
		draw(root, "")
	}
	return b.String()
}
