package main

import (
	"context"
	"maps"
	"net/http"
	"net/url"
	"slices"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/attribute"

	"github.com/mcp-via-llm/mcp-via-llm/chat"
	"github.com/mcp-via-llm/mcp-via-llm/config"
	"github.com/mcp-via-llm/mcp-via-llm/extproc"
	"github.com/mcp-via-llm/mcp-via-llm/loop"
	"github.com/mcp-via-llm/mcp-via-llm/mcp"
	"github.com/mcp-via-llm/mcp-via-llm/policy"
	"github.com/mcp-via-llm/mcp-via-llm/sessions"
	"github.com/mcp-via-llm/mcp-via-llm/telemetry"
)

// place gives a request's context its place in its caller's trace, and its id for log
// lines.
func (a *app) place(r *http.Request) context.Context {
	info, _ := extproc.InfoFrom(r.Context())
	ctx := a.telemetry.Parent(r.Context(), r.Header, info.Metadata)
	return telemetry.WithRequest(ctx, r.Header.Get("X-Request-Id"))
}

// placed does the same for a handler without Envoy. Requests get an id, as from Envoy.
func (a *app) placed(next http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Request-Id") == "" {
			r.Header.Set("X-Request-Id", uuid.NewString())
		}
		next(w, r.WithContext(a.place(r)))
	})
}

// observed are the loop's options by which it tells what it does.
func (a *app) observed(o *loop.Options, cfg *config.Config) {
	t := a.telemetry
	if t.Tracing() {
		o.Traces = t.Traces
	}
	o.Propagator = t.Propagator
	o.Provider = answers(cfg)
	o.Content = loop.Content{Spans: t.Content.Spans, Limit: telemetry.ContentLimit}
	if t.Content.Events {
		o.Content.Events = t.Logs.Logger(telemetry.Name)
	}
	o.OnStart = func(l *loop.Ledger) func() { return a.turns.Start(l) }
	o.OnRefused = t.Refused
	o.OnTurn, o.OnSegment = a.turnEnded, a.segmentEnded
}

// begin starts the counters of a configuration.
func (a *app) begin(cfg *config.Config) {
	var events []string
	for _, kind := range extproc.Faults {
		events = append(events, string(kind))
	}
	a.telemetry.Begin(telemetry.Known{
		Clients: slices.Collect(maps.Keys(cfg.Clients)), StopReasons: loop.StopReasons, ExtProcEvents: events, SessionEvents: loop.Events,
		AuditOutcomes: []string{policy.AuditWritten, policy.AuditLost},
	})
}

// answers says who answers a profile's requests.
func answers(cfg *config.Config) func(*http.Request, *loop.Client) []attribute.KeyValue {
	var base *url.URL
	if cfg.LLM.BaseURL != "" {
		base = mustParse(cfg.LLM.BaseURL)
	}
	byDialect := map[string][]attribute.KeyValue{}
	for dialect := range chat.Dialects {
		byDialect[dialect] = telemetry.Provider(base, dialect)
	}
	return func(_ *http.Request, c *loop.Client) []attribute.KeyValue { return byDialect[c.Dialect] }
}

func (a *app) turnEnded(ctx context.Context, r *loop.Report) {
	a.telemetry.Turn(ctx, telemetry.Turn{
		Client: r.Client, StopReason: r.StopReason, Duration: r.Duration, FirstByte: r.FirstByte, Silence: r.Silence,
		Segments: len(r.Segments),
	})
	a.log.InfoContext(ctx, "turn", "turn", r)
}

func (a *app) segmentEnded(ctx context.Context, s loop.SegmentEvent) {
	a.telemetry.Segment(ctx, telemetry.Segment{
		Provider: s.Provider, RequestModel: s.Requested, ResponseModel: s.Model, Duration: s.Duration, FirstChunk: s.Chunk, ErrorType: s.ErrorType,
		Input: s.Tokens.Input, Output: s.Tokens.Output, CacheRead: s.Tokens.CacheRead, CacheWrite: s.Tokens.CacheWrite,
	})
}

func (a *app) callEnded(ctx context.Context, e mcp.CallEvent) {
	a.telemetry.ToolCall(ctx, e.Server, e.Tool, e.Outcome, e.Duration)
}

func (a *app) storeUsed(ctx context.Context, e sessions.Event) {
	a.telemetry.Store(ctx, e.Op, e.Outcome(), e.Duration)
}

// state is what the gauges show.
func (a *app) state() telemetry.State {
	s := telemetry.State{ActiveTurns: a.turns.Active(), StoreKeys: -1, Omitted: a.short.counts(a.current.Load().config.Clients)}
	s.PendingTurns, s.PendingCalls = a.memory.Pending()
	if keys, bytes, ok := sessions.Size(a.store); ok {
		s.StoreKeys, s.StoreBytes = keys, bytes
	}
	for _, server := range a.host.Status() {
		s.Servers = append(s.Servers, telemetry.Server{Name: server.Name, Connected: server.State == "connected", Tools: server.Tools, Listed: server.Listed})
	}
	return s
}
