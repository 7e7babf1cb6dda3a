package sessions_test

import (
	"context"
	"net/url"
	"slices"
	"strconv"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/mcp-via-llm/mcp-via-llm/sessions"
	"github.com/mcp-via-llm/mcp-via-llm/sessions/redisrig"
)

// TestSpansOfOperations asserts that an operation has a span only inside one that
// still runs: heartbeats and what comes after a turn would be roots of their own.
func TestSpansOfOperations(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
	var outcomes []string
	address := redisrig.Start(t).URL
	node, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(node.Port())
	if err != nil {
		t.Fatal(err)
	}
	store := open(t, sessions.Options{RedisURL: address, Traces: provider, Observe: func(ctx context.Context, e sessions.Event) { outcomes = append(outcomes, e.Op+" "+e.Outcome()) }})
	scope := sessions.Scope{Client: "c", ID: "i"}
	put := func(ctx context.Context, ttl time.Duration) {
		store.Put(ctx, scope, "k", sessions.Fields{"f": []byte("v")}, ttl) //nolint:errcheck // its event tells
	}
	put(t.Context(), time.Minute)
	ctx, turn := provider.Tracer("test").Start(t.Context(), "turn")
	put(ctx, time.Minute)
	put(ctx, 0)
	turn.End()
	put(ctx, time.Minute)

	var got []sdktrace.ReadOnlySpan
	for _, s := range spans.Ended() {
		if s.Name() == "session store put" {
			got = append(got, s)
		}
	}
	if len(got) != 2 || got[0].Status().Code != codes.Unset || got[1].Status().Code != codes.Error || got[1].Status().Description != "invalid" {
		t.Errorf("spans %v", got)
	}
	if len(outcomes) != 4 || outcomes[2] != "put invalid" {
		t.Errorf("outcomes %q", outcomes)
	}
	for _, s := range got {
		for _, want := range []attribute.KeyValue{semconv.DBSystemNameRedis, semconv.DBOperationName("put"), semconv.ServerAddress(node.Hostname()), semconv.ServerPort(port)} {
			if !slices.Contains(s.Attributes(), want) {
				t.Errorf("no %v in %v", want, s.Attributes())
			}
		}
		if s.SpanKind() != trace.SpanKindClient {
			t.Errorf("%v %v", s.SpanKind(), s.Attributes())
		}
	}
}

// TestMemoryMakesNoSpans asserts that the store in memory is counted, and leaves
// traces alone.
func TestMemoryMakesNoSpans(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
	events := 0
	store := open(t, sessions.Options{Traces: provider, Observe: func(context.Context, sessions.Event) { events++ }})
	ctx, turn := provider.Tracer("test").Start(t.Context(), "turn")
	if err := store.Put(ctx, sessions.Scope{Client: "c", ID: "i"}, "k", sessions.Fields{"f": []byte("v")}, time.Minute); err != nil {
		t.Fatal(err)
	}
	turn.End()
	if len(spans.Ended()) != 1 || events != 1 {
		t.Errorf("%d spans, %d events", len(spans.Ended()), events)
	}
	if keys, bytes, ok := sessions.Size(store); keys != 1 || bytes <= 0 || !ok {
		t.Errorf("size %d keys, %d bytes, %v", keys, bytes, ok)
	}
}
