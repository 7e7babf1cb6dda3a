package telemetry

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/goleak"
	"google.golang.org/grpc/metadata"
)

func TestMain(m *testing.M) {
	for _, variable := range os.Environ() {
		if name, _, _ := strings.Cut(variable, "="); strings.HasPrefix(name, "OTEL_") {
			os.Unsetenv(name)
		}
	}
	goleak.VerifyTestMain(m)
}

// start starts with variables given as name and value in turn.
func start(t *testing.T, variables ...string) *Telemetry {
	t.Helper()
	for i := 0; i < len(variables); i += 2 {
		t.Setenv(variables[i], variables[i+1])
	}
	s, err := Start(t.Context(), "1.2.3", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Shutdown(context.Background()); err != nil { // the test's own context has ended
			t.Error(err)
		}
	})
	return s
}

func scrape(m *Metrics, accept string) string {
	recorder := httptest.NewRecorder()
	request := httptest.NewRequest("GET", "/metrics", nil)
	request.Header.Set("Accept", accept)
	m.Handler().ServeHTTP(recorder, request)
	return recorder.Body.String()
}

func TestMetricsByName(t *testing.T) {
	s := start(t)
	ctx := t.Context()
	err := s.Observe(func() State {
		return State{ActiveTurns: 2, PendingTurns: 1, PendingCalls: 3, StoreKeys: 7, StoreBytes: 99, Omitted: map[string]int{"default": 37},
			Servers: []Server{{Name: "files", Connected: true, Tools: 4, Listed: time.Now()}, {Name: "web"}}}
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Turn(ctx, Turn{Client: "default", StopReason: "answer", Duration: 2 * time.Second, FirstByte: time.Second, Silence: time.Second, Segments: 3})
	s.Segment(ctx, Segment{
		Provider: Provider(&url.URL{Scheme: "https", Host: "api.openai.com"}, "openai"), RequestModel: "gpt-5", ResponseModel: "gpt-5-2026",
		Duration: time.Second, FirstChunk: 100 * time.Millisecond, Input: 100, Output: 20, CacheRead: 60,
	})
	s.Segment(ctx, Segment{Provider: Provider(nil, "mistral"), RequestModel: "made-up", Duration: time.Second, ErrorType: "404"})
	s.ToolCall(ctx, "files", "read", "ok", time.Millisecond)
	s.ToolCall(ctx, "", "made_up_by_the_model", "unknown_tool", 0)
	s.Reload(ReloadRefused)
	s.ExtProc("exchange", "answered")
	s.Session("hit")
	s.Audit("written", 2)
	s.Refused("request_too_large")
	s.Begin(Known{Clients: []string{"quiet"}, StopReasons: []string{"error"}, ExtProcEvents: []string{"looped"}, SessionEvents: []string{"expired"}, AuditOutcomes: []string{"lost"}})
	s.Store(ctx, "load", "unavailable", time.Millisecond)
	got := scrape(s.Metrics, "")
	const openai = `gen_ai_operation_name="chat",gen_ai_provider_name="openai",gen_ai_request_model="gpt-5",gen_ai_response_model="gpt-5-2026"`
	const server = `server_address="api.openai.com",server_port="443"`
	for _, want := range []string{
		`mcp_via_llm_turns_total{client="default",stop_reason="answer"} 1`,
		`mcp_via_llm_turn_duration_seconds_sum{client="default",stop_reason="answer"} 2`,
		`mcp_via_llm_turn_segments_sum{client="default"} 3`,
		`mcp_via_llm_turn_time_to_first_byte_seconds_sum{client="default"} 1`,
		`mcp_via_llm_turn_longest_silence_seconds_sum{client="default"} 1`,
		`mcp_via_llm_tool_calls_total{outcome="ok",server="files",tool="read"} 1`,
		`mcp_via_llm_tool_calls_total{outcome="unknown_tool",server="",tool=""} 1`,
		`mcp_via_llm_config_reloads_total{outcome="refused"} 1`,
		`mcp_via_llm_extproc_events_total{event="exchange",outcome="answered"} 1`,
		`mcp_via_llm_server_connected{server="files"} 1`,
		`mcp_via_llm_server_connected{server="web"} 0`,
		`mcp_via_llm_audit_records_total{outcome="written"} 2`,
		`mcp_via_llm_server_tools{server="files"} 4`,
		`mcp_via_llm_server_catalog_age_seconds{server="files"} `,
		`mcp_via_llm_turns_active 2`,
		`mcp_via_llm_pending_turns 1`,
		`mcp_via_llm_pending_calls 3`,
		`mcp_via_llm_store_keys 7`,
		`mcp_via_llm_store_size_bytes 99`,
		`mcp_via_llm_session_events_total{event="hit"} 1`,
		`mcp_via_llm_tools_omitted{client="default"} 37`,
		`mcp_via_llm_store_duration_seconds_count{operation="load",outcome="unavailable"} 1`,
		`gen_ai_client_operation_duration_seconds_sum{` + openai + `,` + server + `} 1`,
		`gen_ai_client_operation_duration_seconds_sum{error_type="404",gen_ai_operation_name="chat",gen_ai_provider_name="mistral_ai",gen_ai_request_model="other"} 1`,
		`gen_ai_client_operation_time_to_first_chunk_seconds_sum{` + openai + `,` + server + `} 0.1`,
		`gen_ai_client_token_usage_sum{` + openai + `,gen_ai_token_type="input",` + server + `} 100`,
		`gen_ai_client_token_usage_sum{` + openai + `,gen_ai_token_type="output",` + server + `} 20`,
		`mcp_via_llm_prompt_cache_tokens_total{cache="read",` + openai + `,` + server + `} 60`,
		`mcp_via_llm_prompt_cache_tokens_total{cache="none",` + openai + `,` + server + `} 40`,
		`mcp_via_llm_turns_total{client="quiet",stop_reason="error"} 0`,
		`mcp_via_llm_extproc_events_total{event="looped",outcome=""} 0`,
		`mcp_via_llm_session_events_total{event="expired"} 0`,
		`mcp_via_llm_audit_records_total{outcome="lost"} 0`,
		`mcp_via_llm_config_reloads_total{outcome="applied"} 0`,
		`mcp_via_llm_requests_refused_total{code="request_too_large"} 1`,
		`go_goroutines `,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in\n%s", want, got)
		}
	}
	if strings.Contains(got, `server_catalog_age_seconds{server="web"}`) {
		t.Error("a server that was never listed has an age")
	}
}

// TestModelNamesAreBounded asserts that clients cannot make series without end: a
// name counts once a provider has answered to it, and there is room for so many.
func TestModelNamesAreBounded(t *testing.T) {
	var n names
	if got := n.known("a"); got != otherModel {
		t.Errorf("a name that nobody answers to counts as %q", got)
	}
	for i := range maxModels + 5 {
		name := strings.Repeat("x", i+1)
		want := name
		if i >= maxModels {
			want = otherModel
		}
		if got := n.admit(name); got != want {
			t.Errorf("name %d is %q", i, got)
		}
	}
	if n.known("x") != "x" || len(n.seen) != maxModels {
		t.Errorf("%d names, and the first is %q", len(n.seen), n.known("x"))
	}
}

func TestExemplars(t *testing.T) {
	s := start(t, "OTEL_TRACES_EXPORTER", "console", "OTEL_BSP_SCHEDULE_DELAY", "3600000")
	ctx, span := s.Traces.Tracer("test").Start(t.Context(), "turn")
	s.Turn(ctx, Turn{Client: "default", StopReason: "answer", Duration: time.Second, Segments: 1})
	got := scrape(s.Metrics, "application/openmetrics-text; version=1.0.0")
	if want := `trace_id="` + span.SpanContext().TraceID().String() + `"`; !strings.Contains(got, want) {
		t.Errorf("no exemplar with %s in\n%s", want, got)
	}
}

func TestWhatTheEnvironmentStarts(t *testing.T) {
	const endpoint = "OTEL_EXPORTER_OTLP_ENDPOINT"
	for _, row := range []struct {
		name                  string
		variables             []string
		traces, logs, metrics string // exporters
	}{
		{name: "nothing"},
		{"an endpoint", []string{endpoint, "http://127.0.0.1:4318"}, "otlp", "otlp", "otlp"},
		{"an endpoint for traces", []string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://127.0.0.1:4318"}, "otlp", "", ""},
		{"names", []string{"OTEL_TRACES_EXPORTER", "otlp", "OTEL_METRICS_EXPORTER", "otlp, prometheus"}, "otlp", "", "otlp prometheus"},
		{"none", []string{endpoint, "http://127.0.0.1:4318", "OTEL_TRACES_EXPORTER", "none", "OTEL_LOGS_EXPORTER", "none"}, "", "", "otlp"},
	} {
		t.Run(row.name, func(t *testing.T) {
			for i := 0; i < len(row.variables); i += 2 {
				t.Setenv(row.variables[i], row.variables[i+1])
			}
			for signal, want := range map[string]string{"TRACES": row.traces, "LOGS": row.logs, "METRICS": row.metrics} {
				if got := strings.Join(exporters(signal), " "); got != want {
					t.Errorf("%s: %q, want %q", signal, got, want)
				}
			}
		})
	}
}

// TestDisabled asserts that OTEL_SDK_DISABLED turns off all signals, and leaves
// the context of a trace its way.
func TestDisabled(t *testing.T) {
	s := start(t, "OTEL_SDK_DISABLED", "true", "OTEL_TRACES_EXPORTER", "console")
	s.Turn(t.Context(), Turn{Client: "default"})
	if got := scrape(s.Metrics, ""); s.Tracing() || strings.Contains(got, "mcp_via_llm") || !strings.Contains(got, "go_goroutines") {
		t.Errorf("tracing %v, metrics\n%s", s.Tracing(), got)
	}
	if ctx := s.Parent(t.Context(), http.Header{"Traceparent": {callers}}, nil); !trace.SpanContextFromContext(ctx).IsValid() {
		t.Error("the caller's trace is lost")
	}
}

const (
	callers = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	envoys  = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01"
)

func TestParent(t *testing.T) {
	header := http.Header{"Traceparent": {callers}, "Tracestate": {"a=1"}, "Baggage": {"user=alice"}}
	for _, row := range []struct {
		name   string
		header http.Header
		envoy  metadata.MD
		want   string // span
	}{
		{"nobody's", http.Header{}, nil, "0000000000000000"},
		{"the caller's", header, nil, "b7ad6b7169203331"},
		{"the caller's, with an Envoy that does not trace", header, metadata.Pairs("x-mcp-client", "a"), "b7ad6b7169203331"},
		{"Envoy's", header, metadata.Pairs("traceparent", envoys), "00f067aa0ba902b7"},
		{"nonsense", http.Header{"Traceparent": {"00-x"}}, metadata.Pairs("traceparent", "y"), "0000000000000000"},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := start(t)
			ctx := s.Parent(t.Context(), row.header, row.envoy.Get)
			if got := trace.SpanContextFromContext(ctx).SpanID().String(); got != row.want {
				t.Errorf("parent %s, want %s", got, row.want)
			}
			sent := http.Header{}
			s.Propagator.Inject(ctx, propagation.HeaderCarrier(sent))
			if sent.Get("Baggage") != "" {
				t.Error("the caller's baggage goes on")
			}
		})
	}
}

func TestProviderByHost(t *testing.T) {
	for base, want := range map[string]attribute.KeyValue{
		"https://api.openai.com/v1":                                 semconv.GenAIProviderNameOpenAI,
		"https://my.openai.azure.com/openai":                        semconv.GenAIProviderNameAzureAIOpenAI,
		"https://api.mistral.ai/v1":                                 semconv.GenAIProviderNameMistralAI,
		"https://europe-west4-aiplatform.googleapis.com/v1":         semconv.GenAIProviderNameGCPVertexAI,
		"https://generativelanguage.googleapis.com/v1beta/openai":   semconv.GenAIProviderNameGCPGemini,
		"https://bedrock-runtime.us-west-2.amazonaws.com/openai/v1": semconv.GenAIProviderNameAWSBedrock,
		"http://127.0.0.1:11434/v1":                                 semconv.GenAIProviderNameDeepseek, // by the dialect
		"https://notapi.openai.com.example.org/v1":                  semconv.GenAIProviderNameDeepseek,
	} {
		u, err := url.Parse(base)
		if err != nil {
			t.Fatal(err)
		}
		if got := Provider(u, "deepseek"); got[0] != want {
			t.Errorf("%s: %v, want %v", base, got[0], want)
		}
	}
}

// TestScopesHaveAVersion asserts that spans and metrics of all packages say which
// version of the service made them.
func TestScopesHaveAVersion(t *testing.T) {
	recorder := tracetest.NewSpanRecorder()
	_, span := versioned{sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder)), "1.2.3"}.Tracer("scope").Start(t.Context(), "x")
	span.End()
	if got := recorder.Ended()[0].InstrumentationScope(); got.Name != "scope" || got.Version != "1.2.3" {
		t.Errorf("%+v", got)
	}
	reader := sdkmetric.NewManualReader()
	count, err := versionedMeters{sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)), "1.2.3"}.Meter("scope").Int64Counter("n")
	if err != nil {
		t.Fatal(err)
	}
	count.Add(t.Context(), 1)
	var data metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &data); err != nil || data.ScopeMetrics[0].Scope.Version != "1.2.3" {
		t.Errorf("%v %+v", err, data.ScopeMetrics)
	}
}

func TestLogFormats(t *testing.T) {
	for _, row := range []struct{ level, format, want string }{
		{"info", "auto", `"msg":"shown"`}, // a buffer is no terminal
		{"info", "json", `"msg":"shown"`},
		{"info", "text", `msg=shown`},
	} {
		var b bytes.Buffer
		log := NewLog(&b, row.level, row.format)
		log.Info("shown")
		log.Debug("hidden")
		if !strings.Contains(b.String(), row.want) || strings.Contains(b.String(), "hidden") || strings.Contains(b.String(), "trace_id") {
			t.Errorf("%v: %s", row, &b)
		}
	}
}

func TestLogLinesNameTheirTrace(t *testing.T) {
	s := start(t)
	var b bytes.Buffer
	log := NewLog(&b, "info", "json").With("server", "files")
	log.InfoContext(WithRequest(s.Parent(t.Context(), http.Header{"Traceparent": {callers}}, nil), "r-1"), "turn")
	if got := b.String(); !strings.Contains(got, `"request_id":"r-1"`) || !strings.Contains(got, `"trace_id":"0af7651916cd43dd8448eb211c80319c","span_id":"b7ad6b7169203331"`) || !strings.Contains(got, `"server":"files"`) {
		t.Error(got)
	}
}

// TestComplaintsAreNotRepeated asserts that a collector that is away does not fill
// the log.
func TestComplaintsAreNotRepeated(t *testing.T) {
	var b bytes.Buffer
	c := &complaints{log: slog.New(slog.NewJSONHandler(&b, nil)), last: map[string]time.Time{}}
	for range 5 {
		c.Handle(errAway)
	}
	if n := strings.Count(b.String(), "\n"); n != 1 {
		t.Errorf("%d lines", n)
	}
}

var errAway = http.ErrServerClosed

func TestContent(t *testing.T) {
	for value, want := range map[string]Content{
		"": {}, "false": {}, "NO_CONTENT": {}, "true": {Spans: true}, "span_only": {Spans: true}, "EVENT_ONLY": {Events: true},
		"SPAN_AND_EVENT": {Spans: true, Events: true}, "yes please": {},
	} {
		t.Setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", value)
		if got := contentFromEnv(); got != want {
			t.Errorf("%q: %+v", value, got)
		}
	}
}
