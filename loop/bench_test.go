package loop

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/mcp-via-llm/mcp-via-llm/chat"
	"github.com/mcp-via-llm/mcp-via-llm/sessions"
)

// BenchmarkConversation recognises a conversation of about the given size.
func BenchmarkConversation(b *testing.B) {
	for _, size := range []int{1 << 10, 100 << 10, 1 << 20} {
		var body strings.Builder
		body.WriteString(`{"model":"m","messages":[{"role":"user","content":"x"}`)
		for body.Len() < size {
			body.WriteString(`,{"role":"user","content":"And then?"},{"role":"assistant","content":"` + strings.Repeat("All work and no play. ", 20) + `"}`)
		}
		body.WriteString("]}")
		b.Run(fmt.Sprintf("%d KiB", size>>10), func(b *testing.B) {
			b.SetBytes(int64(body.Len()))
			b.ReportAllocs()
			for b.Loop() {
				r, err := chat.ParseRequest([]byte(body.String()))
				if err != nil {
					b.Fatal(err)
				}
				newConversation("scope", r.Messages())
			}
		})
	}
}

// BenchmarkMixed is a mixed exchange in which the MCP call and the client's own
// take 20 ms each. It reports what the whole takes in units of the longer one: 1
// is perfect, 2 would be one after the other.
func BenchmarkMixed(b *testing.B) {
	const each = 20 * time.Millisecond
	store := sessions.NewMemory(10_000, 64<<20)
	defer store.Close() //nolint:errcheck // in memory
	g := newRig()
	g.memory = g.remember(store)
	defer g.memory.Close(context.Background())
	g.tools.run = func(context.Context, string, string) Result {
		time.Sleep(each)
		return Result{Text: "x", Outcome: "ok"}
	}
	n := 0
	for b.Loop() {
		n++
		asks := fmt.Sprintf(`{"role":"user","content":"%d"}`, n)
		g.answer(whole(mixedCalls()), whole(says("Done.")))
		g.post(chatOf(asks))
		time.Sleep(each) // the client is at its own call
		g.post(chatOf(asks, booking, booked))
	}
	b.ReportMetric(float64(b.Elapsed())/float64(b.N)/float64(each), "of-the-longer")
}

// BenchmarkTurnUnsampled is a turn of two segments with one MCP call, of which the
// trace is not sampled, as most are where there is traffic. It reports what the turn
// takes in units of one without telemetry, the two taken in turn.
func BenchmarkTurnUnsampled(b *testing.B) {
	provider := sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.NeverSample()), sdktrace.WithBatcher(tracetest.NewNoopExporter()))
	defer provider.Shutdown(context.Background()) //nolint:errcheck // there is nothing to send
	plain, traced := newRig(), newRig()
	traced.options.Traces, traced.options.Propagator = provider, propagation.TraceContext{}
	traced.options.Provider = func(*http.Request, *Client) []attribute.KeyValue {
		return []attribute.KeyValue{attribute.String("gen_ai.provider.name", "openai"), attribute.String("server.address", "llm")}
	}
	var took [2]time.Duration
	one := func(i int, g *rig) {
		g.model = &model{answers: []answerFunc{whole(calls("mcp_clock__now", "{}")), whole(says("It is noon."))}}
		start := time.Now()
		g.post(question + "}")
		took[i] += time.Since(start)
	}
	for b.Loop() {
		one(0, plain)
		one(1, traced)
	}
	b.ReportMetric(float64(took[1])/float64(took[0]), "of-untraced")
}
