package loop

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/mcp-via-llm/mcp-via-llm/chat"
)

// maxName bounds what clients and models write where a name belongs, in bytes.
const maxName = 256

// noSpan is what stands for a span where nothing is traced.
var noSpan trace.Span = noop.Span{}

// span starts a span. Without a provider it costs nothing, not even its options.
func (h *handler) span(ctx context.Context, name string, kind trace.SpanKind, attrs func() []attribute.KeyValue, more ...trace.SpanStartOption) (context.Context, trace.Span) {
	if h.tracer == nil {
		return ctx, noSpan
	}
	return h.tracer.Start(ctx, name, append(more, trace.WithSpanKind(kind), trace.WithAttributes(attrs()...))...)
}

// places are the headers by which the propagators that OTEL_PROPAGATORS can name
// tell a request's place in a trace. Baggage is none of them: it is the
// application's own, like any other header.
var places = []string{
	"Traceparent", "Tracestate", "B3", "X-B3-Traceid", "X-B3-Spanid", "X-B3-Parentspanid", "X-B3-Sampled", "X-B3-Flags",
	"Uber-Trace-Id", "X-Amzn-Trace-Id", "Ot-Tracer-Traceid", "Ot-Tracer-Spanid", "Ot-Tracer-Sampled",
}

// inject puts the context of the trace into a request's headers, as the propagator
// does and no other: a place that the client wrote in another form would be that of
// an earlier span. Where nothing is traced all that stays as it came, unless Envoy
// knows better.
func (h *handler) inject(ctx context.Context, header http.Header) {
	span := trace.SpanContextFromContext(ctx)
	if h.Propagator == nil || !span.IsValid() {
		return
	}
	carrier := propagation.HeaderCarrier(header)
	if h.tracer != nil {
		for _, name := range places {
			delete(header, name)
		}
	} else if trace.SpanContextFromContext(h.Propagator.Extract(context.Background(), carrier)).SpanID() == span.SpanID() {
		return
	}
	for _, name := range h.Propagator.Fields() {
		header.Del(name)
	}
	h.Propagator.Inject(ctx, carrier)
}

// injectUntouched does the same for a request that passes as it is, if it has the
// span of a turn.
func (h *handler) injectUntouched(ctx context.Context, header http.Header) {
	if h.tracer != nil && !trace.SpanContextFromContext(ctx).IsRemote() {
		h.inject(ctx, header)
	}
}

// endUntouched puts what became of a request that passed as it was on the span of
// its turn, if it has one; failure is "" if the provider's answer is the client's.
func endUntouched(ctx context.Context, status int, failure string) {
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return
	}
	span.SetAttributes(semconv.HTTPResponseStatusCode(status))
	if failure == "" && status >= http.StatusInternalServerError {
		failure = strconv.Itoa(status)
	}
	if failure != "" {
		span.SetAttributes(semconv.ErrorTypeKey.String(failure))
		span.SetStatus(codes.Error, failure)
	}
}

// startTurn begins the span of a turn: what the gateway does for one request of
// an application. It belongs to the trace that the request's context has.
func (h *handler) startTurn(r *http.Request, c *Client, req *chat.Request, start time.Time) (*http.Request, trace.Span) {
	if h.tracer == nil {
		return r, noSpan
	}
	ctx, span := h.span(r.Context(), "chat_completions turn", trace.SpanKindServer, func() []attribute.KeyValue {
		attrs := []attribute.KeyValue{
			semconv.HTTPRequestMethodKey.String(r.Method),
			semconv.URLPath(cut(r.URL.Path, maxName)),
			attribute.String("mcp_via_llm.client", c.Name),
			attribute.String("mcp_via_llm.model", cut(req.Model, maxName)),
			attribute.Bool("mcp_via_llm.stream", req.Stream),
		}
		if id := r.Header.Get("X-Request-Id"); id != "" {
			attrs = append(attrs, semconv.HTTPRequestHeader("x-request-id", cut(id, maxName)))
		}
		return attrs
	}, trace.WithTimestamp(start))
	return r.WithContext(ctx), span
}

// endTurn puts what became of the turn on its span. As with all servers, what the
// client did wrong is no error of ours (semantic conventions for HTTP spans).
func (t *turn) endTurn(err error) {
	r, span := &t.rec.report, t.span
	if !span.IsRecording() {
		return
	}
	used := t.tokens(t.rec.usage)
	span.SetAttributes(
		attribute.String("mcp_via_llm.stop_reason", r.StopReason),
		attribute.Int("mcp_via_llm.segments", len(r.Segments)),
		attribute.Int("mcp_via_llm.mcp_calls", len(r.Calls)),
		attribute.Int("mcp_via_llm.client_calls", r.ClientCalls),
		attribute.Int("mcp_via_llm.background_calls", r.Background),
		attribute.Int("mcp_via_llm.recalled", r.Recalled),
		attribute.Int("mcp_via_llm.tools.injected", r.Injected),
		attribute.Int64("mcp_via_llm.input_tokens", used.Input),
		attribute.Int64("mcp_via_llm.output_tokens", used.Output),
	)
	if len(r.Unavailable) > 0 {
		span.SetAttributes(attribute.StringSlice("mcp_via_llm.servers_unavailable", r.Unavailable))
	}
	if r.Status != 0 {
		span.SetAttributes(semconv.HTTPResponseStatusCode(r.Status))
	}
	if err == nil || r.StopReason == StopCancelled {
		return
	}
	span.SetAttributes(semconv.ErrorTypeKey.String(t.failure))
	if r.Status >= 500 || r.Status == http.StatusOK { // an error after the first byte has no status of its own
		span.SetStatus(codes.Error, saying(err, t.failure))
	}
}

// saying describes an error without the words of a provider, which may quote what it
// was asked.
func saying(err error, kind string) string {
	var upstream *chat.UpstreamError
	if errors.As(err, &upstream) {
		return kind
	}
	return cut(err.Error(), maxName)
}

// startSegment begins the span of an exchange with the model (semantic
// conventions for generative AI, "Inference").
func (t *turn) startSegment(ctx context.Context) (context.Context, trace.Span) {
	if t.h.tracer == nil {
		return ctx, noSpan
	}
	ctx, span := t.h.span(ctx, strings.TrimSpace("chat "+cut(t.req.Model, maxName)), trace.SpanKindClient, t.operation)
	if span.IsRecording() {
		span.SetAttributes(requestAttributes(t.req)...)
	}
	return ctx, span
}

// operation describes what is asked of whom.
func (t *turn) operation() []attribute.KeyValue {
	return append(t.provider(), semconv.GenAIOperationNameChat, semconv.GenAIRequestModel(cut(t.req.Model, maxName)))
}

// provider describes who answers.
func (t *turn) provider() []attribute.KeyValue {
	if t.h.Provider == nil {
		return nil
	}
	attrs := t.h.Provider(t.r, t.client)
	return attrs[:len(attrs):len(attrs)]
}

// endSegment completes the report of an exchange with the model, whose times and
// status it has, and ends its span with it.
func (t *turn) endSegment(ctx context.Context, span trace.Span, body []byte, r *SegmentReport, reply *chat.Reply, err error) SegmentEvent {
	defer span.End()
	if reply != nil {
		r.Tools, r.Finish, r.Model, r.Tokens = len(reply.Calls), reply.Finish, reply.Origin.Model, chat.ReadTokens(reply.Usage)
	}
	if err != nil {
		r.Error, r.ErrorType = err.Error(), t.errorType(ctx, r.Status, err)
	}
	event := SegmentEvent{*r, t.req.Model, t.provider()}
	if !span.IsRecording() {
		return event
	}
	var attrs []attribute.KeyValue
	if r.Status != 0 {
		attrs = append(attrs, semconv.HTTPResponseStatusCode(r.Status))
	}
	if r.Chunk > 0 {
		attrs = append(attrs, semconv.GenAIResponseTimeToFirstChunk(r.Chunk.Seconds()))
	}
	if reply != nil {
		attrs = append(attrs, replyAttributes(reply)...)
	}
	if err != nil {
		attrs = append(attrs, semconv.ErrorTypeKey.String(r.ErrorType))
		span.SetStatus(codes.Error, saying(err, r.ErrorType))
	}
	span.SetAttributes(attrs...)
	t.h.Content.exchange(ctx, span, body, reply, func() []attribute.KeyValue {
		return slices.Concat(t.operation(), requestAttributes(t.req), attrs)
	})
	return event
}

// tellSegment tells of the latest exchange, if that was not done yet. Of one that ends
// the turn it is told when the client has its answer.
func (t *turn) tellSegment() {
	if ctx := t.endedIn; ctx != nil {
		t.endedIn = nil
		t.h.OnSegment(ctx, t.ended)
	}
}

// errorType is a word for why a segment or a turn failed, of few kinds (semantic
// conventions, error.type).
func (t *turn) errorType(ctx context.Context, status int, err error) string {
	var refused *statusError
	var upstream *chat.UpstreamError
	// What the provider refused is refused, and what was copied to the client is
	// answered, also if the client is gone by now: clients leave when they have it all.
	switch {
	case errors.As(err, &refused):
		return strconv.Itoa(refused.status)
	case status != 0 && status/100 != 2:
		return strconv.Itoa(status)
	case errors.Is(err, errCopied):
		ctx = context.WithoutCancel(ctx)
	}
	switch known := t.describe(ctx, err); {
	case known == nil:
		return StopCancelled
	case errors.As(err, &upstream):
		return "upstream_error"
	default:
		return known.Code
	}
}

// endAwait ends the span of a wait for calls.
func (t *turn) endAwait(ctx context.Context, span trace.Span, err error) {
	if err != nil {
		kind := t.errorType(ctx, 0, err)
		span.SetAttributes(semconv.ErrorTypeKey.String(kind))
		span.SetStatus(codes.Error, kind)
	}
	span.End()
}

// startCall begins the span of an MCP call (semantic conventions for generative
// AI, "Execute tool span").
func (t *turn) startCall(ctx context.Context, call chat.Call, links ...trace.Link) (context.Context, trace.Span) {
	ctx, span := t.h.span(ctx, "execute_tool "+cut(call.Name, maxName), trace.SpanKindInternal, func() []attribute.KeyValue {
		return []attribute.KeyValue{
			semconv.GenAIOperationNameExecuteTool, semconv.GenAIToolName(cut(call.Name, maxName)),
			semconv.GenAIToolCallID(cut(call.ID, maxName)), semconv.GenAIToolType("function"),
		}
	}, trace.WithLinks(links...))
	if span.IsRecording() {
		t.h.Content.arguments(span, call.Arguments)
	}
	return ctx, span
}

// endCall puts what became of a call on its span. The text of an error is content.
func (t *turn) endCall(span trace.Span, result Result) {
	if !span.IsRecording() {
		return
	}
	if result.Outcome != "ok" {
		span.SetAttributes(semconv.ErrorTypeKey.String(result.Outcome))
		span.SetStatus(codes.Error, result.Outcome)
	}
	t.h.Content.result(span, result.Text)
}

// cut shortens a text to at most limit bytes, at the end of a character.
func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && s[limit]&0xC0 == 0x80 {
		limit--
	}
	return s[:limit]
}
