package loop

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/log"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/mcp-via-llm/mcp-via-llm/chat"
)

// Content says where what is said in a turn is recorded: messages, and the
// arguments and results of calls. The zero value records nothing.
type Content struct {
	Spans  bool
	Events log.Logger // gets an event for each exchange with the model; nil: none
	Limit  int        // of one attribute, in bytes
}

// eventDetails is the event of an exchange's content (semantic conventions for
// generative AI, "Event: gen_ai.client.inference.operation.details").
const eventDetails = "gen_ai.client.inference.operation.details"

// exchange records what the model was told in a segment, and what it said; reply is
// nil if it said nothing. about describes the exchange besides. System and developer
// messages are part of the history of chat completions, so they stay in their places
// there: gen_ai.system_instructions is for what goes to a provider apart from it.
func (c Content) exchange(ctx context.Context, span trace.Span, body []byte, reply *chat.Reply, about func() []attribute.KeyValue) {
	if !c.Spans && c.Events == nil {
		return
	}
	attrs := []attribute.KeyValue{semconv.GenAIInputMessagesKey.String(c.messages(gjson.GetBytes(body, "messages")))}
	if reply != nil {
		left := c.Limit
		m := contentOf(gjson.Parse(reply.Message), &left)
		m.Finish = reply.Finish
		attrs = append(attrs, semconv.GenAIOutputMessagesKey.String(encode([]utterance{m})))
	}
	if c.Spans {
		span.SetAttributes(attrs...)
	}
	if c.Events == nil {
		return
	}
	var event log.Record
	event.SetEventName(eventDetails)
	event.SetSeverity(log.SeverityInfo)
	event.AddAttributes(about()...)
	for _, a := range attrs { // in structured form, which spans do not have
		event.AddAttributes(attribute.KeyValue{Key: a.Key, Value: structured(gjson.Parse(a.Value.AsString()))})
	}
	c.Events.Emit(ctx, event)
}

func structured(v gjson.Result) attribute.Value {
	switch {
	case v.IsArray():
		var all []attribute.Value
		for _, one := range v.Array() {
			all = append(all, structured(one))
		}
		return attribute.SliceValue(all...)
	case v.IsObject():
		var all []attribute.KeyValue
		v.ForEach(func(key, one gjson.Result) bool {
			all = append(all, attribute.KeyValue{Key: attribute.Key(key.String()), Value: structured(one)})
			return true
		})
		return attribute.MapValue(all...)
	case v.Type == gjson.Null:
		return attribute.Value{}
	case v.Type == gjson.Number:
		return number(v.Raw)
	case v.Type == gjson.True, v.Type == gjson.False:
		return attribute.BoolValue(v.Bool())
	}
	return attribute.StringValue(v.String())
}

// number keeps a number as it is written: as an integer, as a text where that has
// not the room, and else as what JSON's fractions are read as everywhere.
func number(raw string) attribute.Value {
	if n, err := strconv.ParseInt(raw, 10, 64); err == nil {
		return attribute.Int64Value(n)
	}
	if f, err := strconv.ParseFloat(raw, 64); err == nil && strings.ContainsAny(raw, ".eE") {
		return attribute.Float64Value(f)
	}
	return attribute.StringValue(raw)
}

func (c Content) arguments(span trace.Span, arguments string) {
	if c.Spans {
		span.SetAttributes(semconv.GenAIToolCallArgumentsKey.String(cut(arguments, c.Limit)))
	}
}

func (c Content) result(span trace.Span, text string) {
	if c.Spans {
		span.SetAttributes(semconv.GenAIToolCallResultKey.String(cut(text, c.Limit)))
	}
}

// utterance is a message in the form of the conventions (gen-ai-input-messages.json).
type utterance struct {
	Role   string `json:"role"`
	Parts  []part `json:"parts"`
	Finish string `json:"finish_reason,omitempty"`
}

type part struct {
	Type      string          `json:"type"`
	Content   string          `json:"content,omitempty"`
	ID        string          `json:"id,omitempty"`
	Name      string          `json:"name,omitempty"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
	Response  string          `json:"response,omitempty"`
}

// messages gives the conversation, as much of it as the limit leaves room for: the
// newest messages.
func (c Content) messages(all gjson.Result) string {
	var out []utterance
	left, list := c.Limit, all.Array()
	for i := len(list) - 1; i >= 0 && left > 0; i-- {
		out = append(out, contentOf(list[i], &left))
	}
	slices.Reverse(out)
	return encode(out)
}

// contentOf reads a message of the chat completions wire, taking its size off
// left. Pictures, sound and files are named, not copied.
func contentOf(m gjson.Result, left *int) utterance {
	take := func(s string) string {
		s = cut(s, max(*left, 0))
		*left -= len(s) + 40 // about what the members around it take
		return s
	}
	out := utterance{Role: m.Get("role").String(), Parts: []part{}}
	content := m.Get("content")
	if id := m.Get("tool_call_id"); id.Exists() {
		out.Parts = append(out.Parts, part{Type: "tool_call_response", ID: take(id.String()), Response: take(textOf(content))})
		return out
	}
	if reasoning := m.Get("reasoning_content"); reasoning.String() != "" {
		out.Parts = append(out.Parts, part{Type: "reasoning", Content: take(reasoning.String())})
	}
	switch {
	case content.IsArray():
		content.ForEach(func(_, p gjson.Result) bool {
			if kind := p.Get("type").String(); kind == "text" {
				out.Parts = append(out.Parts, part{Type: "text", Content: take(p.Get("text").String())})
			} else {
				out.Parts = append(out.Parts, part{Type: take(kind)})
			}
			return *left > 0
		})
	case content.String() != "":
		out.Parts = append(out.Parts, part{Type: "text", Content: take(content.String())})
	}
	m.Get("tool_calls").ForEach(func(_, call gjson.Result) bool {
		p := part{Type: "tool_call", ID: take(call.Get("id").String()), Name: take(call.Get("function.name").String())}
		arguments := take(call.Get("function.arguments").String())
		if p.Arguments = json.RawMessage(arguments); !json.Valid(p.Arguments) {
			p.Arguments = json.RawMessage(encode(arguments))
		}
		out.Parts = append(out.Parts, p)
		return *left > 0
	})
	return out
}

// textOf is the text of a content that is a string or a list of parts.
func textOf(content gjson.Result) (text string) {
	if !content.IsArray() {
		return content.String()
	}
	for _, p := range content.Array() {
		text += p.Get("text").String()
	}
	return text
}

func encode(v any) string {
	out, err := json.Marshal(v)
	if err != nil {
		panic(err) // strings and valid JSON always encode
	}
	return string(out)
}
