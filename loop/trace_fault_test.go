package loop

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"go.opentelemetry.io/contrib/propagators/autoprop"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
)

// leaving gives a body after whose end the client is gone, as behind Envoy, which
// ends the exchange when it has all of the answer.
type leaving struct {
	io.Reader
	leave context.CancelCauseFunc
}

func (l leaving) Read(p []byte) (int, error) {
	n, err := l.Reader.Read(p)
	if err == io.EOF {
		l.leave(context.Canceled)
	}
	return n, err
}

func (leaving) Close() error { return nil }

// TestGoneAfterARefusal asserts that what a provider refused counts as that, though
// the client is gone when it is recorded.
func TestGoneAfterARefusal(t *testing.T) {
	for _, row := range []struct {
		status    int
		body      string
		errorType string
		turnFails bool
	}{
		{401, `{"error":{"message":"no"}}`, "401", false},
		{429, `{"error":{"message":"slow down"}}`, "429", false},
		{503, "away", "503", true},
		{200, `{"a":1}`, "upstream_malformed", true},
	} {
		for _, stream := range []bool{false, true} {
			if stream && row.status == 200 {
				continue // a stream is not copied
			}
			t.Run(strconv.Itoa(row.status)+" "+strconv.FormatBool(stream), func(t *testing.T) {
				var s spans
				g := s.traced(newRig())
				ctx, leave := context.WithCancelCause(t.Context())
				g.answer(func(*http.Request) (*http.Response, error) {
					return &http.Response{StatusCode: row.status, Header: http.Header{"Content-Type": {"application/json"}}, Body: leaving{strings.NewReader(row.body), leave}}, nil
				})
				var event SegmentEvent
				g.options.OnSegment = func(_ context.Context, e SegmentEvent) { event = e }
				w := g.post(`{"stream":`+strconv.FormatBool(stream)+`,`+question[1:]+"}", func(r *http.Request) { *r = *r.WithContext(ctx) })
				if w.Code != row.status || w.Body.String() != row.body {
					t.Errorf("the client got %d %s", w.Code, w.Body)
				}
				chat, turn, report := s.one(t, "chat m"), s.one(t, turnSpan), g.reports[0]
				if event.ErrorType != row.errorType || event.Status != row.status {
					t.Errorf("the segment counts as %d %q", event.Status, event.ErrorType)
				}
				status := strconv.Itoa(row.status)
				if attr(chat, "error.type") != row.errorType || attr(chat, "http.response.status_code") != status || chat.Status().Code != codes.Error {
					t.Errorf("segment: %v %v", chat.Attributes(), chat.Status())
				}
				if attr(turn, "error.type") != row.errorType || attr(turn, "http.response.status_code") != status || (turn.Status().Code == codes.Error) != row.turnFails {
					t.Errorf("turn: %v %v", turn.Attributes(), turn.Status())
				}
				if report.StopReason != StopError || report.Status != row.status || row.status != 200 && !strings.Contains(report.Error, "status "+status) {
					t.Errorf("the report says %q, %d, %q", report.StopReason, report.Status, report.Error)
				}
			})
		}
	}
}

// TestCutWhileCopied asserts that an answer that breaks off while it is copied leaves
// all its spans and a report, and is cut for the client, too.
func TestCutWhileCopied(t *testing.T) {
	for name, body := range map[string]string{"a turn": question + "}", "untouched": question + `,"tool_choice":"none"}`} {
		t.Run(name, func(t *testing.T) {
			var s spans
			g := s.traced(newRig(func(*http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: 400, Header: http.Header{}, Body: io.NopCloser(io.MultiReader(strings.NewReader("half"), brokenReader{}))}, nil
			}))
			func() {
				defer func() {
					if p := recover(); p != http.ErrAbortHandler {
						t.Errorf("panic %v", p)
					}
				}()
				g.post(body)
			}()
			turn := s.one(t, turnSpan)
			want, fails := "400", codes.Unset
			if name == "untouched" {
				want, fails = "upstream_truncated", codes.Error
			} else if s.one(t, "chat m").Status().Code != codes.Error || len(g.reports) != 1 {
				t.Errorf("%d reports", len(g.reports))
			}
			if attr(turn, "error.type") != want || turn.Status().Code != fails {
				t.Errorf("%v %v", turn.Attributes(), turn.Status())
			}
		})
	}
}

// TestTurnsThatNeverRan asserts that a turn that is refused before its first segment,
// and one in which the service breaks, end as others do.
func TestTurnsThatNeverRan(t *testing.T) {
	for name, row := range map[string]struct {
		away   bool
		body   string
		status int
		failed string
	}{
		"the store is away":  {true, chatOf(asks, `{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]}`, `{"role":"tool","tool_call_id":"c","content":"x"}`), 503, "store_unavailable"},
		"the service breaks": {false, question + "}", 500, "internal_error"},
	} {
		t.Run(name, func(t *testing.T) {
			var s spans
			rigs, ways, _ := replicas(t, 1)
			g := s.traced(rigs[0])
			g.answer(func(*http.Request) (*http.Response, error) { panic("boom") })
			ways[0].away.Store(row.away)
			started, over := 0, 0
			g.options.OnStart = func(*Ledger) func() { started++; return func() { over++ } }
			func() {
				defer func() {
					if p := recover(); (p == nil) != row.away {
						t.Errorf("panic %v", p)
					}
				}()
				g.post(row.body)
			}()
			if len(g.reports) != 1 || started != 1 || over != 1 {
				t.Fatalf("%d reports, %d started, %d over", len(g.reports), started, over)
			}
			if r := g.reports[0]; r.StopReason != StopError || r.Status != row.status || r.Error == "" {
				t.Errorf("%+v", r)
			}
			turn := s.one(t, turnSpan)
			if turn.Status().Code != codes.Error || attr(turn, "error.type") != row.failed || attr(turn, "mcp_via_llm.stop_reason") != StopError ||
				attr(turn, "http.response.status_code") != strconv.Itoa(row.status) {
				t.Errorf("%v %v", turn.Attributes(), turn.Status())
			}
		})
	}
}

// TestLeavingInATrace asserts that a client's leaving fails what was cut short, and
// not the turn, which is the server's side.
func TestLeavingInATrace(t *testing.T) {
	for name, leavesIn := range map[string]string{"a segment": "chat m", "a call": "execute_tool mcp_wx__now"} {
		t.Run(name, func(t *testing.T) {
			var s spans
			g := s.traced(newRig())
			ctx, leave := context.WithCancelCause(t.Context())
			leaves := func() { leave(context.Canceled) }
			if leavesIn == "chat m" {
				g.answer(func(r *http.Request) (*http.Response, error) { leaves(); return nil, context.Cause(r.Context()) })
			} else {
				g.answer(whole(calls("mcp_wx__now", "{}")))
				g.tools.run = func(ctx context.Context, _, _ string) Result {
					leaves()
					<-ctx.Done()
					return Result{Text: "Error: cancelled", Outcome: "cancelled"}
				}
			}
			g.post(question+"}", func(r *http.Request) { *r = *r.WithContext(ctx) })
			if cut := s.one(t, leavesIn); cut.Status().Code != codes.Error || attr(cut, "error.type") != StopCancelled {
				t.Errorf("%v %v", cut.Attributes(), cut.Status())
			}
			if turn := s.one(t, turnSpan); turn.Status().Code != codes.Unset || attr(turn, "error.type") != "" || attr(turn, "mcp_via_llm.stop_reason") != StopCancelled {
				t.Errorf("%v %v", turn.Attributes(), turn.Status())
			}
		})
	}
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, errors.New("broken") }

// TestUntouchedInATrace asserts that a request that passes for want of tools has a
// span with what became of it.
func TestUntouchedInATrace(t *testing.T) {
	for _, row := range []struct {
		name   string
		answer answerFunc
		status string
		fails  string // error.type
	}{
		{"well", whole(says("Hi.")), "200", ""},
		{"refused", respond(404, "text/plain", "x"), "404", ""},
		{"down", respond(502, "text/plain", "x"), "502", "502"},
		{"unreachable", func(*http.Request) (*http.Response, error) { return nil, errors.New("connection refused") }, "502", "upstream_unreachable"},
	} {
		t.Run(row.name, func(t *testing.T) {
			var s spans
			s.traced(newRig(row.answer)).post(question + `,"tool_choice":"none"}`)
			turn := s.one(t, turnSpan)
			if attr(turn, "mcp_via_llm.untouched") == "" || attr(turn, "http.response.status_code") != row.status || attr(turn, "error.type") != row.fails {
				t.Error(turn.Attributes())
			}
			if (turn.Status().Code == codes.Error) != (row.fails != "") {
				t.Error(turn.Status())
			}
		})
	}
}

// TestPropagators asserts that a provider is told of the trace as the propagators
// say, and of nothing that was true for an earlier span.
func TestPropagators(t *testing.T) {
	const id, caller = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	sent := http.Header{
		"Traceparent": {"00-" + id + "-" + caller + "-01"}, "Tracestate": {"a=1"}, "B3": {id + "-" + caller + "-1"}, "X-B3-Traceid": {id}, "X-B3-Spanid": {caller},
		"X-B3-Sampled": {"1"}, "Uber-Trace-Id": {id + ":" + caller + ":0:1"}, "X-Amzn-Trace-Id": {"Root=1-0af76519-16cd43dd8448eb211c80319c"}, "Baggage": {"user=ann"},
	}
	for _, row := range []struct {
		names string
		want  []string // headers that tell the place
	}{
		{"none", nil},
		{"tracecontext", []string{"Traceparent", "Tracestate"}},
		{"b3", []string{"B3"}},
		{"b3multi", []string{"X-B3-Traceid", "X-B3-Spanid", "X-B3-Sampled"}},
		{"jaeger", []string{"Uber-Trace-Id"}},
		{"tracecontext,b3", []string{"Traceparent", "B3"}}, // the last place that is read counts, and has no tracestate
	} {
		for _, body := range []string{question + "}", question + `,"tool_choice":"none"}`} {
			var s spans
			g := s.traced(newRig(whole(calls("mcp_wx__now", "{}")), whole(says("Hi."))))
			var err error
			if g.options.Propagator, err = autoprop.TextMapPropagator(strings.Split(row.names, ",")...); err != nil {
				t.Fatal(err)
			}
			g.post(body, func(r *http.Request) {
				for name, values := range sent {
					r.Header[name] = values
				}
				*r = *r.WithContext(g.options.Propagator.Extract(r.Context(), propagation.HeaderCarrier(r.Header)))
			})
			for i, request := range g.model.requests {
				var told bytes.Buffer
				for _, name := range places {
					if value := request.Header.Get(name); value != "" {
						told.WriteString(name + " ")
						if strings.Contains(value, caller) {
							t.Errorf("%s: segment %d has the caller's %s", row.names, i+1, name)
						}
					}
				}
				if len(strings.Fields(told.String())) != len(row.want) {
					t.Errorf("%s: segment %d has %s, want %q", row.names, i+1, &told, row.want)
				}
				for _, name := range row.want {
					if request.Header.Get(name) == "" {
						t.Errorf("%s: segment %d has no %s", row.names, i+1, name)
					}
				}
				if request.Header.Get("Baggage") != "user=ann" {
					t.Errorf("%s: the application's baggage is %q", row.names, request.Header.Get("Baggage"))
				}
			}
		}
	}
	for _, names := range []string{"none", "b3"} { // nothing is traced
		g := newRig(whole(says("Hi.")))
		g.options.Propagator, _ = autoprop.TextMapPropagator(names)
		g.post(question+"}", func(r *http.Request) {
			for name, values := range sent {
				r.Header[name] = values
			}
			*r = *r.WithContext(g.options.Propagator.Extract(r.Context(), propagation.HeaderCarrier(r.Header)))
		})
		for name, values := range sent {
			if got := g.model.requests[0].Header.Get(name); got != values[0] {
				t.Errorf("%s, untraced: %s became %q", names, name, got)
			}
		}
	}
}
