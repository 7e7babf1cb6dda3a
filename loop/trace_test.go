package loop

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/mcp-via-llm/mcp-via-llm/sessions"
	"github.com/mcp-via-llm/mcp-via-llm/sessions/redisrig"
)

// spans are those that a rig's turns have made.
type spans struct{ *tracetest.SpanRecorder }

// traced gives the rig's turns spans; several rigs may share them.
func (s *spans) traced(g *rig) *rig {
	if s.SpanRecorder == nil {
		s.SpanRecorder = tracetest.NewSpanRecorder()
	}
	g.options.Traces = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(s))
	g.options.Propagator = propagation.TraceContext{}
	return g
}

// named gives the ended spans with a name, in the order of their starts.
func (s *spans) named(name string) (all []sdktrace.ReadOnlySpan) {
	for _, span := range s.Ended() {
		if span.Name() == name {
			all = append(all, span)
		}
	}
	slices.SortStableFunc(all, func(a, b sdktrace.ReadOnlySpan) int { return a.StartTime().Compare(b.StartTime()) })
	return all
}

func (s *spans) one(t *testing.T, name string) sdktrace.ReadOnlySpan {
	t.Helper()
	all := s.named(name)
	if len(all) != 1 {
		var names []string
		for _, span := range s.Ended() {
			names = append(names, span.Name())
		}
		t.Fatalf("%d spans %q among %q", len(all), name, names)
	}
	return all[0]
}

func attr(span sdktrace.ReadOnlySpan, name string) string {
	for _, a := range span.Attributes() {
		if string(a.Key) == name {
			return a.Value.Emit()
		}
	}
	return ""
}

const turnSpan = "chat_completions turn"

func under(t *testing.T, parent, child sdktrace.ReadOnlySpan) {
	t.Helper()
	if child.Parent().SpanID() != parent.SpanContext().SpanID() {
		t.Errorf("%s is not under %s", child.Name(), parent.Name())
	}
}

func TestTraceOfATurn(t *testing.T) {
	for _, streaming := range []bool{false, true} {
		t.Run(fmt.Sprintf("stream=%v", streaming), func(t *testing.T) {
			first, second := whole(calls("mcp_wx__now", "{}")), whole(says("Sunny."))
			if streaming {
				first, second = streamed(asStream(calls("mcp_wx__now", "{}"))), streamed(asStream(says("Sunny.")))
			}
			var s spans
			g := s.traced(newRig(first, second))
			var inside trace.SpanContext
			g.tools.run = func(ctx context.Context, _, _ string) Result {
				inside = trace.SpanContextFromContext(ctx)
				return Result{Text: "sunny", Outcome: "ok"}
			}
			g.post(fmt.Sprintf(`{"stream":%v,"temperature":0,"stop":["x"],"seed":7,"response_format":{"type":"json_schema"},%s}`, streaming, question[1:]))
			turn, chats, call := s.one(t, turnSpan), s.named("chat m"), s.one(t, "execute_tool mcp_wx__now")
			under(t, turn, chats[0])
			under(t, turn, chats[1])
			under(t, turn, call)
			if inside.SpanID() != call.SpanContext().SpanID() {
				t.Error("the tool does not run in its span")
			}
			streams := map[bool]string{true: "true"}[streaming]
			for _, row := range []struct {
				span       sdktrace.ReadOnlySpan
				name, want string
			}{
				{turn, "mcp_via_llm.stop_reason", "answer"}, {turn, "mcp_via_llm.segments", "2"}, {turn, "mcp_via_llm.input_tokens", "30"},
				{chats[0], "gen_ai.request.temperature", "0"}, {chats[0], "gen_ai.request.seed", "7"}, {chats[0], "gen_ai.request.stop_sequences", `["x"]`}, {chats[0], "gen_ai.output.type", "json"},
				{chats[0], "gen_ai.response.id", "cc"}, {chats[0], "gen_ai.usage.input_tokens", "10"}, {chats[0], "gen_ai.response.finish_reasons", `["tool_calls"]`},
				{chats[1], "gen_ai.usage.output_tokens", "3"}, {chats[1], "gen_ai.request.stream", streams},
				{call, "gen_ai.tool.call.id", "c1"},
			} {
				if got := attr(row.span, row.name); got != row.want {
					t.Errorf("%s: %s = %q, want %q", row.span.Name(), row.name, got, row.want)
				}
			}
			for i, chat := range chats {
				if chat.SpanKind() != trace.SpanKindClient || chat.Status().Code != codes.Unset {
					t.Errorf("segment %d has kind %v and status %v", i+1, chat.SpanKind(), chat.Status())
				}
				if got, want := g.model.requests[i].Header.Get("Traceparent"), "00-"+chat.SpanContext().TraceID().String()+"-"+chat.SpanContext().SpanID().String()+"-01"; got != want {
					t.Errorf("segment %d was sent with traceparent %q, want %q", i+1, got, want)
				}
			}
			r := g.reports[0]
			if r.TraceID != turn.SpanContext().TraceID().String() || r.Segments[0].Tokens.Input != 10 || r.Injected != len(mcpNames) || r.InjectedTokens != 10*len(mcpNames) || r.FirstByte <= 0 {
				t.Errorf("the report is %+v", r)
			}
		})
	}
}

// TestCallersTrace asserts that a turn belongs to its caller's trace, and replaces
// what the caller sent by its own place in it; nothing of that without a trace.
func TestCallersTrace(t *testing.T) {
	const caller = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	parent := func(r *http.Request) {
		r.Header.Set("Traceparent", caller)
		r.Header.Set("Tracestate", "a=1")
		*r = *r.WithContext(propagation.TraceContext{}.Extract(r.Context(), propagation.HeaderCarrier(r.Header)))
	}
	var s spans
	g := s.traced(newRig(whole(says("Hi."))))
	g.post(question+"}", parent)
	chat := s.one(t, "chat m")
	sent := g.model.requests[0].Header
	if chat.SpanContext().TraceID().String() != "0af7651916cd43dd8448eb211c80319c" || !strings.Contains(sent.Get("Traceparent"), chat.SpanContext().SpanID().String()) || sent.Get("Tracestate") != "a=1" {
		t.Errorf("the model was sent %v", sent)
	}

	untraced := newRig(whole(says("Hi.")))
	untraced.options.Propagator = propagation.TraceContext{}
	untraced.post(question+"}", parent)
	if got := untraced.model.requests[0].Header.Get("Traceparent"); got != caller {
		t.Errorf("without telemetry the caller's traceparent became %q", got)
	}
	untraced = newRig(whole(says("Hi.")))
	untraced.options.Propagator = propagation.TraceContext{}
	const flags = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-fe" // unknown ones, which a propagator drops
	untraced.post(question+"}", func(r *http.Request) { r.Header.Set("Traceparent", flags) }, func(r *http.Request) {
		*r = *r.WithContext(propagation.TraceContext{}.Extract(r.Context(), propagation.HeaderCarrier(r.Header)))
	})
	if got := untraced.model.requests[0].Header.Get("Traceparent"); got != flags {
		t.Errorf("without telemetry the caller's flags became %q", got)
	}
	untraced = newRig(whole(says("Hi.")))
	untraced.options.Propagator = propagation.TraceContext{}
	untraced.post(question+"}", parent, func(r *http.Request) { // Envoy's call is a child of the caller's span
		*r = *r.WithContext(propagation.TraceContext{}.Extract(r.Context(), propagation.MapCarrier{"traceparent": strings.Replace(caller, "b7ad", "00f0", 1)}))
	})
	if got := untraced.model.requests[0].Header.Get("Traceparent"); got != strings.Replace(caller, "b7ad", "00f0", 1) {
		t.Errorf("without telemetry Envoy's place became %q", got)
	}
	untraced = newRig(whole(says("Hi.")))
	untraced.post(question + "}")
	if got := untraced.model.requests[0].Header.Get("Traceparent"); got != "" {
		t.Errorf("without telemetry the model was sent traceparent %q", got)
	}
	passing := s.traced(newRig(whole(says("Hi."))))
	passing.post(question+`,"n":2}`, parent)
	if got := passing.model.requests[0].Header.Get("Traceparent"); got != caller {
		t.Errorf("a request that passes untouched has traceparent %q", got)
	}
}

func TestFailuresInATrace(t *testing.T) {
	broken := `data: {"id":"x","choices":[{"index":0,"delta":{"content":"a"}}]}` + "\n\n"
	for _, row := range []struct {
		name                string
		answers             []answerFunc
		stream              bool
		chat, turn          string // error.type
		turnFails, callOnly bool
	}{
		{name: "refused", answers: []answerFunc{respond(429, "application/json", `{"error":{}}`)}, chat: "429", turn: "429"},
		{name: "down", answers: []answerFunc{respond(503, "text/plain", "x")}, chat: "503", turn: "503", turnFails: true},
		{name: "cut", answers: []answerFunc{streamed(broken)}, stream: true, chat: "upstream_truncated", turn: "upstream_truncated", turnFails: true},
		{name: "malformed", answers: []answerFunc{whole(`{"a":1}`)}, chat: "upstream_malformed", turn: "upstream_malformed", turnFails: true},
		{name: "an error in the stream", answers: []answerFunc{streamed(`data: {"error":{"message":"secret words","code":503}}` + "\n\n")}, stream: true, chat: "upstream_error", turn: "upstream_error", turnFails: true},
	} {
		t.Run(row.name, func(t *testing.T) {
			var s spans
			g := s.traced(newRig(row.answers...))
			g.post(fmt.Sprintf(`{"stream":%v,%s}`, row.stream, question[1:]))
			chat, turn := s.one(t, "chat m"), s.one(t, turnSpan)
			if attr(chat, "error.type") != row.chat || chat.Status().Code != codes.Error {
				t.Errorf("segment: %q %v", attr(chat, "error.type"), chat.Status())
			}
			if attr(turn, "error.type") != row.turn || (turn.Status().Code == codes.Error) != row.turnFails {
				t.Errorf("turn: %q %v", attr(turn, "error.type"), turn.Status())
			}
			if strings.Contains(fmt.Sprint(chat.Status(), turn.Status()), "secret words") {
				t.Error("a provider's words are on a span")
			}
		})
	}
}

func TestFailedCallInATrace(t *testing.T) {
	var s spans
	g := s.traced(newRig(whole(calls("mcp_wx__now", "{}")), whole(says("Sorry."))))
	g.tools.run = func(context.Context, string, string) Result { return Result{Text: "private", Outcome: "tool_error"} }
	g.post(question + "}")
	call := s.one(t, "execute_tool mcp_wx__now")
	if attr(call, "error.type") != "tool_error" || call.Status().Code != codes.Error || s.one(t, turnSpan).Status().Code != codes.Unset {
		t.Errorf("%v %v", call.Attributes(), call.Status())
	}
	for _, span := range s.Ended() {
		for _, a := range span.Attributes() {
			if strings.Contains(a.Value.Emit(), "private") {
				t.Errorf("%s has %v", span.Name(), a)
			}
		}
	}
}

// TestBackgroundCallsAreLinked asserts that the calls of a mixed turn, the turn and
// its resume lead to each other, whether or not the resume came before their end.
func TestBackgroundCallsAreLinked(t *testing.T) {
	for _, early := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			var s spans
			rigs, _, _ := replicas(t, 2)
			for _, g := range rigs {
				s.traced(g).tools.run = slowTools(20 * time.Second)
			}
			rigs[0].answer(whole(mixedCalls()))
			rigs[0].post(chatOf(asks))
			if early {
				time.Sleep(5 * time.Second)
			} else {
				time.Sleep(25 * time.Second)
			}
			rigs[1].answer(whole(says("Done.")))
			rigs[1].post(chatOf(asks, booking, booked))
			synctest.Wait() // the resume has a result when it is stored, and the call's span ends after that
			turns, chats := s.named(turnSpan), s.named("chat m")
			calls := append(s.named("execute_tool mcp_mail__send"), s.named("execute_tool mcp_clock__now")...)
			if len(turns) != 2 || len(calls) != 2 {
				t.Fatalf("%d turns, %d calls", len(turns), len(calls))
			}
			wantCall := "mixed_turn " + chats[0].SpanContext().SpanID().String()
			if early {
				wantCall += ", resume " + turns[1].SpanContext().SpanID().String()
			}
			wantResume := "mixed_turn " + turns[0].SpanContext().SpanID().String()
			for _, call := range calls {
				under(t, turns[0], call)
				if got := links(call); got != wantCall {
					t.Errorf("early %v: %s has links %q, want %q", early, call.Name(), got, wantCall)
				}
				if d := call.EndTime().Sub(call.StartTime()); d != 20*time.Second {
					t.Errorf("early %v: %s took %v", early, call.Name(), d)
				}
				wantResume += ", background_call " + call.SpanContext().SpanID().String()
			}
			if got := links(turns[1]); got != wantResume {
				t.Errorf("early %v: the resume has links %q, want %q", early, got, wantResume)
			}
			if waits := s.named("await background calls"); early != (len(waits) == 1 && waits[0].EndTime().Sub(waits[0].StartTime()) == 15*time.Second) {
				t.Errorf("early %v: waits %v", early, waits)
			}
		})
	}
}

func links(span sdktrace.ReadOnlySpan) string {
	var all []string
	for _, l := range span.Links() {
		relation := ""
		for _, a := range l.Attributes {
			if a.Key == "mcp_via_llm.link" {
				relation = a.Value.AsString()
			}
		}
		all = append(all, relation+" "+l.SpanContext.SpanID().String())
	}
	return strings.Join(all, ", ")
}

// TestUnsampledLeavesNothing asserts that a trace that is not sampled leaves no place
// of its own in stored records.
func TestUnsampledLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rigs, _, store := replicas(t, 1)
		g := rigs[0]
		g.options.Traces = sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.NeverSample()))
		g.answer(whole(mixedCalls()), whole(says("Done.")))
		g.post(chatOf(asks))
		time.Sleep(time.Second)
		g.post(chatOf(asks, booking, booked))
		if n, err := store.Count(t.Context(), "default/"); err != nil || n == 0 {
			t.Fatalf("%d keys %v", n, err)
		}
		if got := at(context.Background()); got != "" {
			t.Errorf("nobody's span is %q", got)
		}
	})
}

func TestStoreSpans(t *testing.T) {
	var s spans
	g := s.traced(newRig(whole(calls("mcp_wx__now", "{}")), whole(says("Sunny."))))
	store, err := sessions.Open(sessions.Options{RedisURL: redisrig.Start(t).URL, Traces: g.options.Traces})
	if err != nil {
		t.Fatal(err)
	}
	g.memory = g.remember(store)
	g.post(question + "}")
	g.memory.Close(context.Background())
	if err := store.Close(); err != nil {
		t.Error(err)
	}
	turn := s.one(t, turnSpan)
	n := 0
	for _, span := range s.Ended() {
		if strings.HasPrefix(span.Name(), "session store ") {
			n++
			under(t, turn, span)
		}
	}
	if n < 4 {
		t.Errorf("%d operations of the store", n)
	}
}

func TestSegmentEvents(t *testing.T) {
	g := newRig(whole(calls("mcp_wx__now", "{}")), respond(500, "text/plain", "x"))
	var got []string
	g.options.Provider = func(*http.Request, *Client) []attribute.KeyValue {
		return []attribute.KeyValue{attribute.Bool("p", true)}
	}
	g.options.OnSegment = func(_ context.Context, e SegmentEvent) {
		got = append(got, fmt.Sprint(e.Requested, " ", e.Status, " ", e.Tokens.Input, " ", e.ErrorType, " ", len(e.Provider)))
	}
	g.post(question + "}")
	if want := []string{"m 200 10  1", "m 500 0 500 1"}; !slices.Equal(got, want) {
		t.Errorf("events %q, want %q", got, want)
	}
}
