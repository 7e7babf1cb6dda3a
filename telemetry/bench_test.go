package telemetry

import (
	"context"
	"log/slog"
	"net/url"
	"testing"
	"time"
)

// BenchmarkTurn is what the metrics of a turn cost: two segments, an MCP call and
// the operations of the session store.
func BenchmarkTurn(b *testing.B) {
	for name, disabled := range map[string]string{"scraped": "", "disabled": "true"} {
		b.Run(name, func(b *testing.B) {
			b.Setenv("OTEL_SDK_DISABLED", disabled)
			s, err := Start(b.Context(), "1", slog.New(slog.DiscardHandler))
			if err != nil {
				b.Fatal(err)
			}
			defer s.Shutdown(context.Background()) //nolint:errcheck // nothing is sent
			segment := Segment{
				Provider: Provider(&url.URL{Scheme: "https", Host: "api.openai.com"}, "openai"), RequestModel: "gpt-5", ResponseModel: "gpt-5-2026",
				Duration: time.Second, FirstChunk: 100 * time.Millisecond, Input: 100, Output: 20, CacheRead: 60,
			}
			ctx := context.Background()
			b.ReportAllocs()
			for b.Loop() {
				for range 2 {
					s.Segment(ctx, segment)
				}
				s.ToolCall(ctx, "files", "read", "ok", time.Millisecond)
				for _, operation := range []string{"load", "acquire", "put", "delete", "release"} {
					s.Store(ctx, operation, "ok", time.Microsecond)
				}
				s.Session("miss")
				s.ExtProc("exchange", "answered")
				s.Turn(ctx, Turn{Client: "default", StopReason: "answer", Duration: 2 * time.Second, FirstByte: time.Second, Silence: time.Second, Segments: 2})
			}
		})
	}
}
