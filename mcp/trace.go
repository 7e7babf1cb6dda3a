package mcp

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	nometric "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/semconv/v1.41.0/mcpconv"
	"go.opentelemetry.io/otel/trace"
	notrace "go.opentelemetry.io/otel/trace/noop"
)

// Telemetry is where a host's requests to servers are told, by the semantic
// conventions for MCP. What is nil is left out.
type Telemetry struct {
	Traces     trace.TracerProvider
	Meters     metric.MeterProvider
	Propagator propagation.TextMapPropagator
}

// Buckets of the conventions, in seconds.
var operationSeconds = metric.WithExplicitBucketBoundaries(0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300)

// attrServer is the server's name in the configuration, which tells two commands
// apart; the conventions have no name for it.
const attrServer = attribute.Key("mcp_via_llm.server")

// tracing is a Telemetry at work.
type tracing struct {
	tracer     trace.Tracer // nil: no spans
	propagator propagation.TextMapPropagator
	operation  mcpconv.ClientOperationDuration
	session    mcpconv.ClientSessionDuration
}

func newTracing(t Telemetry, log *slog.Logger) *tracing {
	const scope = "github.com/mcp-via-llm/mcp-via-llm/mcp"
	out := &tracing{propagator: t.Propagator}
	if t.Propagator == nil {
		out.propagator = propagation.NewCompositeTextMapPropagator()
	}
	if t.Meters == nil {
		t.Meters = nometric.NewMeterProvider()
	}
	if t.Traces != nil {
		out.tracer = t.Traces.Tracer(scope, trace.WithSchemaURL(semconv.SchemaURL))
	}
	meter := t.Meters.Meter(scope, metric.WithSchemaURL(semconv.SchemaURL))
	errs := make([]error, 2)
	out.operation, errs[0] = mcpconv.NewClientOperationDuration(meter, operationSeconds)
	out.session, errs[1] = mcpconv.NewClientSessionDuration(meter, operationSeconds)
	if err := errors.Join(errs...); err != nil {
		log.Warn("metrics of MCP are incomplete", "error", err)
	}
	return out
}

// header puts the context of a trace into the headers of an HTTP request.
func (t *tracing) header(ctx context.Context, header http.Header) {
	if trace.SpanContextFromContext(ctx).IsValid() {
		t.propagator.Inject(ctx, propagation.HeaderCarrier(header))
	}
}

// sender instruments what one session sends.
type sender struct {
	*tracing
	next   sdk.MethodHandler
	server []attribute.KeyValue // which it is, and how it is reached
	known  atomic.Pointer[[]attribute.KeyValue]
	kinds  sync.Map // of requests, by kindKey
}

// reach describes a server and how it is reached (conventions, "Recording MCP
// transport").
func (s *Server) reach() []attribute.KeyValue {
	if len(s.Command) > 0 {
		return []attribute.KeyValue{attrServer.String(s.Name), semconv.NetworkTransportPipe}
	}
	attrs := []attribute.KeyValue{attrServer.String(s.Name), semconv.NetworkTransportTCP, semconv.NetworkProtocolName("http")}
	u, err := url.Parse(s.URL)
	if err != nil {
		return attrs
	}
	port := 80
	if u.Scheme == "https" {
		port = 443
	}
	if n, err := strconv.Atoi(u.Port()); err == nil {
		port = n
	}
	return append(attrs, semconv.ServerAddress(u.Hostname()), semconv.ServerPort(port))
}

// opened notes what only a session that is made has.
func (s *sender) opened(version, id string) {
	attrs := []attribute.KeyValue{semconv.McpProtocolVersion(version)}
	if id != "" {
		attrs = append(attrs, semconv.McpSessionID(id))
	}
	s.known.Store(&attrs)
}

// send sends a request or notification, with a span if the caller's context
// belongs to a trace: what a connection does by itself belongs to none. The frame is
// small, as it is held while the server works.
func (s *sender) send(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
	if method == methodListen {
		return s.next(ctx, method, req) // as long as the session
	}
	start := time.Now()
	kind := s.kind(method, req)
	ctx, span := s.begin(ctx, kind, req)
	result, err := s.next(ctx, method, req)
	s.over(ctx, kind, span, start, err)
	return result, err
}

func (s *sender) begin(ctx context.Context, k *kind, req sdk.Request) (context.Context, trace.Span) {
	span := trace.Span(notrace.Span{})
	if trace.SpanContextFromContext(ctx).IsValid() {
		if s.tracer != nil {
			ctx, span = s.tracer.Start(ctx, k.name, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(k.attrs...), trace.WithAttributes(s.more(ctx)...))
		}
		s.meta(ctx, req)
	}
	return ctx, span
}

func (s *sender) over(ctx context.Context, k *kind, span trace.Span, start time.Time, err error) {
	set, cp := k.set, captureOf(ctx)
	if failed := mishap(ctx, cp, err); len(failed) > 0 {
		set = attribute.NewSet(slices.Concat(k.attrs, failed)...)
		span.SetAttributes(failed...)
		span.SetStatus(codes.Error, failed[0].Value.AsString()) // not the server's words, which may quote arguments
	}
	if span.IsRecording() && cp != nil && cp.requestID() != "" {
		span.SetAttributes(semconv.JSONRPCRequestID(cp.requestID()))
	}
	span.End()
	s.operation.RecordSet(ctx, time.Since(start).Seconds(), set)
}

// kind is what is known of a request before it is made, in the forms in which spans
// and metrics take it.
type kind struct {
	name  string // of the span
	attrs []attribute.KeyValue
	set   attribute.Set
}

type kindKey struct {
	method, name string
	opened       bool
}

// kind gives the kind of a request. There are as many as the server has tools and
// prompts.
func (s *sender) kind(method string, req sdk.Request) *kind {
	known := s.known.Load()
	key := kindKey{method: method, opened: known != nil}
	var name attribute.Key
	switch p := req.GetParams().(type) {
	case *sdk.CallToolParams:
		key.name, name = p.Name, semconv.GenAIToolNameKey
	case *sdk.GetPromptParams:
		key.name, name = p.Name, semconv.GenAIPromptNameKey
	}
	if made, ok := s.kinds.Load(key); ok {
		return made.(*kind)
	}
	k := &kind{name: strings.TrimSpace(method + " " + key.name), attrs: append(slices.Clone(s.server), semconv.McpMethodNameKey.String(method))}
	switch name {
	case semconv.GenAIToolNameKey:
		k.attrs = append(k.attrs, semconv.GenAIOperationNameExecuteTool, semconv.GenAIToolName(key.name))
	case semconv.GenAIPromptNameKey:
		k.attrs = append(k.attrs, semconv.GenAIPromptName(key.name))
	}
	if known != nil {
		k.attrs = append(k.attrs, (*known)[0])
	}
	k.set = attribute.NewSet(slices.Clone(k.attrs)...)
	s.kinds.Store(key, k)
	return k
}

// listedKey is for the URI, or the URI template, of a resource that is read, as its
// server lists it.
type listedKey struct{}

// more is what has so many values that it is for spans alone. What stands in a URI
// template's place was filled in by the model, so the template is there for it.
func (s *sender) more(ctx context.Context) (attrs []attribute.KeyValue) {
	if uri, ok := ctx.Value(listedKey{}).(string); ok {
		attrs = append(attrs, semconv.McpResourceURI(uri))
	}
	if known := s.known.Load(); known != nil {
		attrs = append(attrs, (*known)[1:]...)
	}
	return attrs
}

// meta puts the context of the trace into the request (SEP-414: the keys
// traceparent, tracestate and baggage of params._meta).
func (s *sender) meta(ctx context.Context, req sdk.Request) {
	params := req.GetParams()
	if v := reflect.ValueOf(params); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return
	}
	carrier := propagation.MapCarrier{}
	s.propagator.Inject(ctx, carrier)
	if len(carrier) == 0 {
		return
	}
	meta := maps.Clone(params.GetMeta())
	if meta == nil {
		meta = map[string]any{}
	}
	for key, value := range carrier {
		meta[key] = value
	}
	params.SetMeta(meta)
}

// mishap says how a request failed, the error's type first; nothing if it did not.
func mishap(ctx context.Context, cp *capture, err error) []attribute.KeyValue {
	kind := func(s string) []attribute.KeyValue { return []attribute.KeyValue{semconv.ErrorTypeKey.String(s)} }
	var got answer
	if cp != nil {
		got = cp.peek()
	}
	var rpc *jsonrpc.Error
	switch {
	case cp != nil && cp.run != nil && cp.run.timedOut(), errors.Is(context.Cause(ctx), context.DeadlineExceeded):
		return kind(OutcomeTimeout)
	case ctx.Err() != nil:
		return kind(OutcomeCancelled)
	case got.status != 0 && got.rpc == nil:
		return kind(strconv.Itoa(got.status))
	case got.rpc != nil, errors.As(err, &rpc) && !sdkCode(rpc.Code):
		if got.rpc != nil {
			rpc = got.rpc
		}
		code := strconv.FormatInt(rpc.Code, 10)
		return append(kind(code), semconv.RPCResponseStatusCode(code))
	case gjson.GetBytes(got.result, "isError").Bool():
		return kind(OutcomeToolError)
	case err != nil && got.result == nil:
		return kind(unanswered(err))
	}
	return nil
}

// unanswered is a word for why there was no answer.
func unanswered(err error) string {
	var name *net.DNSError
	var certificate *tls.CertificateVerificationError
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection_refused"
	case errors.As(err, &name):
		return "name_not_resolved"
	case errors.As(err, &certificate):
		return "certificate_invalid"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "connection_lost"
	}
	return "_OTHER" // as the conventions have it
}

// ended records how long a session was there.
func (s *sender) ended(age time.Duration, err error) {
	attrs := append([]attribute.KeyValue{}, s.server...)
	if known := s.known.Load(); known != nil {
		attrs = append(attrs, (*known)[0])
	}
	if err != nil && !errors.Is(err, errEnded) {
		attrs = append(attrs, semconv.ErrorTypeKey.String("session_lost"))
	}
	s.session.RecordSet(context.Background(), age.Seconds(), attribute.NewSet(attrs...))
}
