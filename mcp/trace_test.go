package mcp

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidwall/gjson"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
)

// witness sees what a host tells.
type witness struct {
	*tracetest.SpanRecorder
	reader *sdkmetric.ManualReader
	tracer trace.Tracer
	Telemetry
}

func newWitness() *witness {
	w := &witness{SpanRecorder: tracetest.NewSpanRecorder(), reader: sdkmetric.NewManualReader()}
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(w))
	w.tracer = provider.Tracer("test")
	w.Telemetry = Telemetry{Traces: provider, Meters: sdkmetric.NewMeterProvider(sdkmetric.WithReader(w.reader)), Propagator: propagation.TraceContext{}}
	return w
}

// named gives the ended spans with a name.
func (w *witness) named(name string) (all []sdktrace.ReadOnlySpan) {
	for _, span := range w.Ended() {
		if span.Name() == name {
			all = append(all, span)
		}
	}
	return all
}

func attr(span sdktrace.ReadOnlySpan, name string) string {
	for _, a := range span.Attributes() {
		if string(a.Key) == name {
			return a.Value.Emit()
		}
	}
	return ""
}

// points gives the attributes of a histogram's points, as text.
func (w *witness) points(t *testing.T, name string) (all []string) {
	t.Helper()
	var data metricdata.ResourceMetrics
	if err := w.reader.Collect(context.Background(), &data); err != nil {
		t.Fatal(err)
	}
	for _, scope := range data.ScopeMetrics {
		for _, m := range scope.Metrics {
			if h, ok := m.Data.(metricdata.Histogram[float64]); ok && m.Name == name {
				for _, p := range h.DataPoints {
					var text []string
					for _, a := range p.Attributes.ToSlice() {
						text = append(text, string(a.Key)+"="+a.Value.Emit())
					}
					all = append(all, strings.Join(text, " "))
				}
			}
		}
	}
	slices.Sort(all)
	return all
}

func TestSpansOfCalls(t *testing.T) {
	for kind, want := range map[string]map[string]string{
		stateful:  {"mcp.protocol.version": legacyVersion, "network.transport": "tcp", "network.protocol.name": "http", "server.address": "127.0.0.1"},
		stateless: {"mcp.protocol.version": "2026-07-28", "network.transport": "tcp", "server.address": "127.0.0.1"},
		plainSSE:  {"network.transport": "tcp"},
		stdio:     {"network.transport": "pipe", "server.address": ""},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			w, box := newWitness(), newToolbox()
			f := box.serve(t, kind)
			var mu sync.Mutex
			var header, meta string
			f.on(func(_ http.ResponseWriter, r *http.Request, body []byte) bool {
				if isMethod(body, "tools/call") {
					mu.Lock()
					defer mu.Unlock()
					header, meta = r.Header.Get("Traceparent"), gjson.GetBytes(body, "params._meta.traceparent").String()
				}
				return false
			})
			h := startHost(t, Options{Servers: []Server{config("box", kind, f)}, Telemetry: w.Telemetry})
			b := toolsOf(t, h, "box").Bind(nil)
			ctx, parent := w.tracer.Start(t.Context(), "parent")
			b.Call(ctx, "box__fails", "{}")
			b.Call(ctx, "box__add_numbers", `{"a":5,"b":7}`)
			parent.End()

			spans := w.named("tools/call add_numbers")
			if len(spans) != 1 || len(w.named("tools/call fails")) != 1 {
				t.Fatalf("%d spans of add_numbers, %d of fails", len(spans), len(w.named("tools/call fails")))
			}
			span := spans[0]
			if span.Parent().SpanID() != parent.SpanContext().SpanID() || span.SpanKind() != trace.SpanKindClient || span.Status().Code != codes.Unset {
				t.Errorf("%v %v %v", span.Parent(), span.SpanKind(), span.Status())
			}
			for name, value := range want {
				if got := attr(span, name); got != value {
					t.Errorf("%s = %q, want %q", name, got, value)
				}
			}
			if attr(span, "mcp.method.name") != "tools/call" || attr(span, "gen_ai.tool.name") != "add_numbers" || attr(span, "gen_ai.operation.name") != "execute_tool" || attr(span, "mcp_via_llm.server") != "box" || attr(span, "jsonrpc.request.id") == "" {
				t.Errorf("attributes %v", span.Attributes())
			}
			if got := attr(span, "mcp.session.id"); (got != "") != (kind == stateful) {
				t.Errorf("session %q", got)
			}
			fails := w.named("tools/call fails")[0]
			if attr(fails, "error.type") != OutcomeToolError || fails.Status().Code != codes.Error || fails.Status().Description != OutcomeToolError {
				t.Errorf("fails: %v %v", fails.Attributes(), fails.Status())
			}
			if kind != stdio {
				mu.Lock()
				defer mu.Unlock()
				if place := "00-" + span.SpanContext().TraceID().String() + "-" + span.SpanContext().SpanID().String() + "-01"; header != place || meta != place {
					t.Errorf("header %q, _meta %q, want %q", header, meta, place)
				}
			}
			w.checkTheRest(t)
		})
	}
}

// checkTheRest asserts that a connection's own requests are measured, and in no trace.
func (w *witness) checkTheRest(t *testing.T) {
	t.Helper()
	for _, span := range w.Ended() {
		if name := span.Name(); name != "parent" && !strings.HasPrefix(name, "tools/call ") {
			t.Errorf("there is a span %s", name)
		}
	}
	points := strings.Join(w.points(t, "mcp.client.operation.duration"), "\n")
	for _, want := range []string{"mcp.method.name=tools/list", "gen_ai.tool.name=add_numbers", "error.type=tool_error", "mcp_via_llm.server=box"} {
		if !strings.Contains(points, want) {
			t.Errorf("no %s among\n%s", want, points)
		}
	}
	if strings.Contains(points, "session.id") {
		t.Errorf("sessions make series:\n%s", points)
	}
}

// TestSpansOfFailures asserts what a failed call is told as: the server's code, the
// status, a time that ran out; never the server's words.
func TestSpansOfFailures(t *testing.T) {
	for _, row := range []struct {
		name, tool string
		answer     func(w http.ResponseWriter, id string)
		kind, code string
	}{
		{"code", "pure", func(w http.ResponseWriter, id string) {
			w.Header().Set("Content-Type", "application/json")
			w.Write([]byte(`{"jsonrpc":"2.0","id":` + id + `,"error":{"code":-32602,"message":"secret words"}}`)) //nolint:errcheck // the client looks
		}, "-32602", "-32602"},
		{"status", "add_numbers", func(w http.ResponseWriter, _ string) { w.WriteHeader(http.StatusTeapot) }, "418", ""},
		{"time", "hang", nil, OutcomeTimeout, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			w, box := newWitness(), newToolbox()
			f := box.serve(t, stateless)
			cfg := config("box", stateless, f)
			cfg.ToolTimeout = 300 * time.Millisecond
			h := startHost(t, Options{Servers: []Server{cfg}, Telemetry: w.Telemetry})
			b := toolsOf(t, h, "box").Bind(nil)
			if row.answer != nil {
				f.on(func(rw http.ResponseWriter, _ *http.Request, body []byte) bool {
					if !isMethod(body, "tools/call") {
						return false
					}
					row.answer(rw, gjson.GetBytes(body, "id").Raw)
					return true
				})
			}
			ctx, parent := w.tracer.Start(t.Context(), "parent")
			b.Call(ctx, "box__"+row.tool, `{"a":1,"b":2}`)
			parent.End()
			spans := w.named("tools/call " + row.tool)
			if len(spans) == 0 {
				t.Fatal("no span")
			}
			span := spans[len(spans)-1]
			if attr(span, "error.type") != row.kind || attr(span, "rpc.response.status_code") != row.code || span.Status().Code != codes.Error {
				t.Errorf("%v %v", span.Attributes(), span.Status())
			}
			if strings.Contains(span.Status().Description, "secret") {
				t.Error("the server's words are on the span")
			}
		})
	}
}

// TestServersThatAreGone asserts that it is told how a server did not answer.
func TestServersThatAreGone(t *testing.T) {
	t.Run("refuses connections", func(t *testing.T) {
		w := newWitness()
		addr, _ := reserve(t)
		h := startHost(t, Options{Servers: []Server{{Name: "box", URL: "http://" + addr + "/mcp"}}, Telemetry: w.Telemetry})
		toolsOf(t, h, "box")
		if points := w.points(t, "mcp.client.operation.duration"); len(points) == 0 || !strings.Contains(points[0], "error.type=connection_refused") {
			t.Errorf("%q", points)
		}
	})
	t.Run("cuts a call", func(t *testing.T) {
		w, box := newWitness(), newToolbox()
		f := box.serve(t, stateless)
		b := toolsOf(t, startHost(t, Options{Servers: []Server{config("box", stateless, f)}, Telemetry: w.Telemetry}), "box").Bind(nil)
		f.on(func(_ http.ResponseWriter, _ *http.Request, body []byte) bool {
			if isMethod(body, "tools/call") {
				panic(http.ErrAbortHandler)
			}
			return false
		})
		ctx, parent := w.tracer.Start(t.Context(), "parent")
		b.Call(ctx, "box__add_numbers", `{"a":1,"b":2}`)
		parent.End()
		spans := w.named("tools/call add_numbers")
		if len(spans) == 0 || attr(spans[0], "error.type") != "connection_lost" || spans[0].Status().Code != codes.Error {
			t.Errorf("%v", spans)
		}
	})
}

// TestSpansOfReads asserts that a resource's URI is there as its server lists it, and
// nothing of what a model has filled in.
func TestSpansOfReads(t *testing.T) {
	w := newWitness()
	h := startHost(t, Options{Servers: []Server{config("box", stateful, newLibrary(nil).serve(t, stateful))}, Telemetry: w.Telemetry})
	b := all(t, h, "box").Bind(nil)
	ctx, parent := w.tracer.Start(t.Context(), "parent")
	b.Call(ctx, "mcp_resource__box__notes", "{}")
	if r := b.Call(ctx, "mcp_resource__box__row", `{"table":"people","id":"ann"}`); !strings.Contains(r.Text, "ann") {
		t.Errorf("%+v", r)
	}
	parent.End()
	var uris []string
	for _, span := range w.named("resources/read") {
		uris = append(uris, attr(span, "mcp.resource.uri"))
		if strings.Contains(fmt.Sprint(span.Attributes()), "ann") {
			t.Errorf("%v", span.Attributes())
		}
	}
	if !slices.Equal(uris, []string{"box://notes", "db://{table}/{id}{?columns}"}) {
		t.Errorf("%q", uris)
	}
}

// TestWithoutATrace asserts that nothing is added to requests that belong to none.
func TestWithoutATrace(t *testing.T) {
	w, box := newWitness(), newToolbox()
	f := box.serve(t, stateless)
	added := make(chan string, 100)
	f.on(func(_ http.ResponseWriter, r *http.Request, body []byte) bool {
		if r.Header.Get("Traceparent") != "" || strings.Contains(string(body), "traceparent") {
			added <- string(body)
		}
		return false
	})
	h := startHost(t, Options{Servers: []Server{config("box", stateless, f)}, Telemetry: w.Telemetry})
	toolsOf(t, h, "box").Bind(nil).Call(t.Context(), "box__pure", "{}")
	if len(added) > 0 || len(w.Ended()) > 0 {
		t.Errorf("added to %d requests: %s", len(added), <-added)
	}
}

// TestServersAreToldApart asserts that two servers that are reached alike, and have
// the same tools, have series of their own, and that a call makes none anew.
func TestServersAreToldApart(t *testing.T) {
	w, box := newWitness(), newToolbox()
	f := box.serve(t, stdio)
	h := startHost(t, Options{Servers: []Server{config("left", stdio, f), config("right", stdio, f)}, Telemetry: w.Telemetry})
	b := toolsOf(t, h, "left", "right").Bind(nil)
	for range 3 {
		b.Call(t.Context(), "left__pure", "{}")
		b.Call(t.Context(), "right__pure", "{}")
	}
	var calls []string
	for _, p := range w.points(t, "mcp.client.operation.duration") {
		if strings.Contains(p, "gen_ai.tool.name=pure") {
			calls = append(calls, p)
		}
	}
	if len(calls) != 2 || !strings.Contains(calls[0], "mcp_via_llm.server=left") || !strings.Contains(calls[1], "mcp_via_llm.server=right") {
		t.Errorf("%q", calls)
	}
}

// TestSessionDuration asserts that the end of a session is measured, and that one
// that was lost is told from one that was ended.
func TestSessionDuration(t *testing.T) {
	w, box := newWitness(), newToolbox()
	f := box.serve(t, stateful)
	h := startHost(t, Options{Servers: []Server{config("box", stateful, f)}, Telemetry: w.Telemetry})
	toolsOf(t, h, "box")
	h.Update(nil)
	eventually(t, "the session's end is measured", func() bool { return len(w.points(t, "mcp.client.session.duration")) == 1 })
	if got := w.points(t, "mcp.client.session.duration")[0]; strings.Contains(got, "error.type") || !strings.Contains(got, "mcp.protocol.version") {
		t.Errorf("an ended session: %s", got)
	}
}

// TestCallersTraceGoesOn asserts that a server gets its caller's place in a trace
// also where the service records nothing.
func TestCallersTraceGoesOn(t *testing.T) {
	const caller = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	box := newToolbox()
	f := box.serve(t, stateless)
	got := make(chan [2]string, 1)
	f.on(func(_ http.ResponseWriter, r *http.Request, body []byte) bool {
		if isMethod(body, "tools/call") {
			got <- [2]string{r.Header.Get("Traceparent"), gjson.GetBytes(body, "params._meta.traceparent").String()}
		}
		return false
	})
	h := startHost(t, Options{Servers: []Server{config("box", stateless, f)}, Telemetry: Telemetry{Propagator: propagation.TraceContext{}}})
	ctx := propagation.TraceContext{}.Extract(t.Context(), propagation.MapCarrier{"traceparent": caller})
	toolsOf(t, h, "box").Bind(nil).Call(ctx, "box__pure", "{}")
	if place := await(t, "the call", got); place != [2]string{caller, caller} {
		t.Errorf("header and _meta %q", place)
	}
}
