package sessions_test

import (
	"context"
	"testing"
	"time"

	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/mcp-via-llm/mcp-via-llm/sessions"
)

// TestSpansOfOperations asserts that an operation has a span only inside one that
// still runs: heartbeats and what comes after a turn would be roots of their own.
func TestSpansOfOperations(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
	var outcomes []string
	store := open(t, sessions.Options{Traces: provider, Observe: func(ctx context.Context, e sessions.Event) { outcomes = append(outcomes, e.Op+" "+e.Outcome()) }})
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
	if keys, bytes, ok := sessions.Size(store); keys != 1 || bytes <= 0 || !ok {
		t.Errorf("size %d keys, %d bytes, %v", keys, bytes, ok)
	}
}
