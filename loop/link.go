package loop

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/mcp-via-llm/mcp-via-llm/sessions"
)

// How a span is linked to another of the same mixed exchange.
const (
	linkMixedTurn  = "mixed_turn"      // to the turn in which the model made the call
	linkResume     = "resume"          // to the turn that brought the client's results and waited for the call
	linkBackground = "background_call" // to a call that ran while the client was at its own
)

// at writes the span of a context as it is stored, for links from other
// replicas: the header of W3C Trace Context. It is "" for none, and for one that
// is not sampled, to which no link leads.
func at(ctx context.Context) string {
	if !trace.SpanContextFromContext(ctx).IsSampled() {
		return ""
	}
	into := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, into)
	return into.Get("traceparent")
}

// linkTo makes the link to a stored span; false for "".
func linkTo(stored, relation string) (trace.Link, bool) {
	ctx := propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{"traceparent": stored})
	span := trace.SpanContextFromContext(ctx)
	return trace.Link{SpanContext: span, Attributes: []attribute.KeyValue{attribute.String("mcp_via_llm.link", relation)}}, span.IsValid()
}

func addLink(span trace.Span, stored, relation string) {
	if link, ok := linkTo(stored, relation); ok {
		span.AddLink(link)
	}
}

// openSpan is the span of a call that has ended, while its links are not all known.
// All methods work on nil.
type openSpan struct {
	trace.Span
	ended time.Time
}

func (o *openSpan) end() {
	if o != nil {
		o.End(trace.WithTimestamp(o.ended))
	}
}

// in gives a context with the span.
func (o *openSpan) in(ctx context.Context) context.Context {
	if o == nil {
		return ctx
	}
	return trace.ContextWithSpan(ctx, o.Span)
}

// mixedTurn is the link from a hidden call to where the model made it: the segment,
// or on another replica the turn.
func (r *record) mixedTurn() []trace.Link {
	if link, ok := linkTo(cmp.Or(r.segment, r.span), linkMixedTurn); ok {
		return []trace.Link{link}
	}
	return nil
}

// linkBack links a resume to the turn that it goes on from, and to that turn's calls.
func (t *turn) linkBack(r *record) {
	if !t.span.IsRecording() {
		return
	}
	addLink(t.span, r.span, linkMixedTurn)
	for _, i := range slices.Sorted(maps.Keys(r.results)) {
		addLink(t.span, r.results[i].span, linkBackground)
	}
}

// awaits starts the span of a resume's wait for calls, and notes in their record who
// waits. One span stands for the wait, with none for each look at the store.
func (t *turn) awaits(ctx context.Context, h *held) (context.Context, trace.Span) {
	if waits := at(ctx); waits != "" && len(h.missing()) > 0 {
		h.waits(ctx, waits)
	}
	ctx, span := t.h.span(ctx, "await background calls", trace.SpanKindInternal, func() []attribute.KeyValue {
		return []attribute.KeyValue{attribute.Int("mcp_via_llm.background_calls", len(h.missing()))}
	})
	return trace.ContextWithSpanContext(ctx, trace.SpanContextFromContext(ctx)), span
}

// waits notes in a record that a resume, with the given span, waits for results.
// That is for the trace alone, so an error costs the link and no more.
func (h *held) waits(ctx context.Context, span string) {
	ctx, cancel := h.s.inTime(ctx)
	defer cancel()
	if _, err := h.s.store.Update(ctx, h.s.scope, turnKey(h.anchor), sessions.Fields{waitField(h.attempt): []byte(span)}, h.s.ttl); err != nil {
		h.s.log.DebugContext(ctx, "a call in the background will have no link to its resume", "err", err)
	}
}
