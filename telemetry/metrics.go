package telemetry

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/otlptranslator"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	nometric "go.opentelemetry.io/otel/metric/noop"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/semconv/v1.41.0/genaiconv"
)

// cardinalityLimit bounds the series of one metric. Names of servers and clients
// come from the configuration, but names of tools from servers.
const cardinalityLimit = 2000

// Buckets in seconds. Those of gen_ai.* and in tokens are the conventions' own.
var (
	turnSeconds    = metric.WithExplicitBucketBoundaries(0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600) // from a cached answer to a long loop
	storeSeconds   = metric.WithExplicitBucketBoundaries(0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25)
	modelSeconds   = metric.WithExplicitBucketBoundaries(0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
	chunkSeconds   = metric.WithExplicitBucketBoundaries(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)
	tokenBuckets   = metric.WithExplicitBucketBoundaries(1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864)
	segmentBuckets = metric.WithExplicitBucketBoundaries(1, 2, 3, 4, 5, 7, 10, 15, 20, 30)
)

// Metrics are the instruments of the service.
type Metrics struct {
	provider meterProvider
	registry *prometheus.Registry
	meter    metric.Meter
	models   names
	exchange made[exchange, exchangeLabels]

	turns        metric.Int64Counter
	turnDuration metric.Float64Histogram
	firstByte    metric.Float64Histogram
	silence      metric.Float64Histogram
	segments     metric.Int64Histogram
	calls        metric.Int64Counter
	callDuration metric.Float64Histogram
	cached       metric.Int64Counter
	reloads      metric.Int64Counter
	extproc      metric.Int64Counter
	sessions     metric.Int64Counter
	storeOps     metric.Float64Histogram
	audit        metric.Int64Counter
	refused      metric.Int64Counter

	operation  genaiconv.ClientOperationDuration
	tokens     genaiconv.ClientTokenUsage
	firstChunk genaiconv.ClientOperationTimeToFirstChunk
}

// What metrics are told apart by.
var (
	byClient    = labelled("client")
	byStop      = labelled("client", "stop_reason")
	byTool      = labelled("server", "tool", "outcome")
	byServer    = labelled("server", "outcome")
	byCode      = labelled("code")
	byEvent     = labelled("event")
	byOutcome   = labelled("outcome")
	byHappening = labelled("event", "outcome")
	byOperation = labelled("operation", "outcome")
)

// meterProvider is the SDK's, or one that does nothing.
type meterProvider interface {
	metric.MeterProvider
	Shutdown(context.Context) error
}

type noMeters struct{ nometric.MeterProvider }

func (noMeters) Shutdown(context.Context) error { return nil }

// newMetrics makes the instruments, on a registry of their own for Prometheus and
// for whatever else the environment names.
func newMetrics(ctx context.Context, about *resource.Resource, version string) (*Metrics, error) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m := &Metrics{registry: registry, provider: noMeters{}}
	if !disabled() {
		scraped, err := exporter.New(
			exporter.WithRegisterer(registry),
			exporter.WithTranslationStrategy(otlptranslator.UnderscoreEscapingWithSuffixes),
			exporter.WithoutTargetInfo(),
			exporter.WithoutScopeInfo(),
		)
		if err != nil {
			return nil, err
		}
		options := []sdkmetric.Option{sdkmetric.WithReader(scraped), sdkmetric.WithResource(about), sdkmetric.WithCardinalityLimit(cardinalityLimit)}
		readers, err := pushed(ctx)
		if err != nil {
			return nil, err
		}
		for _, reader := range readers {
			options = append(options, sdkmetric.WithReader(reader))
		}
		m.provider = sdkmetric.NewMeterProvider(options...)
	}
	m.provider = versionedMeters{m.provider, version}
	m.meter = m.provider.Meter(Name, metric.WithSchemaURL(semconv.SchemaURL))
	if err := m.instruments(); err != nil {
		return nil, err
	}
	return m, nil
}

// Known are the values that counters are told apart by, as far as they are known
// before anything happens.
type Known struct {
	Clients, StopReasons []string
	ExtProcEvents        []string // of those that have no outcome
	SessionEvents        []string
	AuditOutcomes        []string
}

// Begin starts counters at 0: to Prometheus a series that begins with its first
// event has no increase, and alerts would miss that.
func (m *Metrics) Begin(k Known) {
	ctx := context.Background()
	for _, outcome := range []string{ReloadApplied, ReloadRefused} {
		m.reloads.Add(ctx, 0, byOutcome.of(outcome).add...)
	}
	for _, client := range k.Clients {
		for _, reason := range k.StopReasons {
			m.turns.Add(ctx, 0, byStop.of(client, reason).add...)
		}
	}
	for _, event := range k.ExtProcEvents {
		m.extproc.Add(ctx, 0, byHappening.of(event, "").add...)
	}
	for _, event := range k.SessionEvents {
		m.sessions.Add(ctx, 0, byEvent.of(event).add...)
	}
	for _, outcome := range k.AuditOutcomes {
		m.audit.Add(ctx, 0, byOutcome.of(outcome).add...)
	}
}

// making collects the errors of making instruments.
type making struct {
	meter metric.Meter
	errs  []error
}

func (m *making) counter(name, unit, help string) metric.Int64Counter {
	i, err := m.meter.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(help))
	m.errs = append(m.errs, err)
	return i
}

func (m *making) seconds(name string, buckets metric.HistogramOption, help string) metric.Float64Histogram {
	i, err := m.meter.Float64Histogram(name, metric.WithUnit("s"), buckets, metric.WithDescription(help))
	m.errs = append(m.errs, err)
	return i
}

func (m *Metrics) instruments() error {
	n := &making{meter: m.meter}
	m.turns = n.counter("mcp_via_llm.turns", "{turn}", "Turns that ended, by client and stop reason.")
	m.turnDuration = n.seconds("mcp_via_llm.turn.duration", turnSeconds, "Wall time of turns.")
	m.firstByte = n.seconds("mcp_via_llm.turn.time_to_first_byte", turnSeconds, "From a turn's start to the first byte of its answer.")
	m.silence = n.seconds("mcp_via_llm.turn.longest_silence", turnSeconds, "The longest time in which a streamed answer that had begun brought nothing but keep-alives.")
	m.calls = n.counter("mcp_via_llm.tool.calls", "{call}", "MCP calls that ended, by outcome.")
	m.callDuration = n.seconds("mcp_via_llm.tool.duration", turnSeconds, "Wall time of MCP calls.")
	m.cached = n.counter("mcp_via_llm.prompt_cache.tokens", "{token}", "Input tokens by what the provider's prompt cache did for them: read, write or none.")
	m.reloads = n.counter("mcp_via_llm.config.reloads", "{reload}", "Changes of the configuration file, by outcome.")
	m.extproc = n.counter("mcp_via_llm.extproc.events", "{event}", "What happened on external-processing streams.")
	m.sessions = n.counter("mcp_via_llm.session.events", "{event}", "What happened to hidden history, mixed turns and journals.")
	m.storeOps = n.seconds("mcp_via_llm.store.duration", storeSeconds, "Time of operations of the session store, by outcome.")
	m.audit = n.counter("mcp_via_llm.audit.records", "{record}", "Records of the audit log, by whether its file has them.")
	m.refused = n.counter("mcp_via_llm.requests.refused", "{request}", "Requests that were refused before they were turns, by the code of the error.")
	errs := make([]error, 4)
	m.segments, errs[0] = m.meter.Int64Histogram("mcp_via_llm.turn.segments", segmentBuckets, metric.WithUnit("{segment}"), metric.WithDescription("Exchanges with the LLM in one turn."))
	m.operation, errs[1] = genaiconv.NewClientOperationDuration(m.meter, modelSeconds)
	m.tokens, errs[2] = genaiconv.NewClientTokenUsage(m.meter, tokenBuckets)
	m.firstChunk, errs[3] = genaiconv.NewClientOperationTimeToFirstChunk(m.meter, chunkSeconds)
	return errors.Join(append(n.errs, errs...)...)
}

// Meters makes instruments of other packages.
func (m *Metrics) Meters() metric.MeterProvider { return m.provider }

// Handler serves the metrics in the Prometheus formats; exemplars are in that of
// OpenMetrics.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{EnableOpenMetrics: true})
}

// Turn is a turn that ended.
type Turn struct {
	Client, StopReason string
	Duration           time.Duration
	FirstByte          time.Duration // 0: the client got nothing
	Silence            time.Duration // 0: not streamed
	Segments           int
}

// Turn counts a turn. A sampled span in ctx makes exemplars.
func (m *Metrics) Turn(ctx context.Context, t Turn) {
	client, ended := byClient.of(t.Client), byStop.of(t.Client, t.StopReason)
	m.turns.Add(ctx, 1, ended.add...)
	m.turnDuration.Record(ctx, t.Duration.Seconds(), ended.record...)
	m.segments.Record(ctx, int64(t.Segments), client.record...)
	if t.FirstByte > 0 {
		m.firstByte.Record(ctx, t.FirstByte.Seconds(), client.record...)
	}
	if t.Silence > 0 {
		m.silence.Record(ctx, t.Silence.Seconds(), client.record...)
	}
}

// ToolCall counts an MCP call that ended. Server and tool are empty for a name
// that no server has: the model made it up, and there is no end of such names.
func (m *Metrics) ToolCall(ctx context.Context, server, tool, outcome string, duration time.Duration) {
	if server == "" {
		tool = ""
	}
	m.calls.Add(ctx, 1, byTool.of(server, tool, outcome).add...)
	m.callDuration.Record(ctx, duration.Seconds(), byServer.of(server, outcome).record...)
}

// Outcomes of a changed configuration file.
const (
	ReloadApplied = "applied"
	ReloadRefused = "refused"
)

// Reload counts a change of the configuration file.
func (m *Metrics) Reload(outcome string) {
	m.reloads.Add(context.Background(), 1, byOutcome.of(outcome).add...)
}

// ExtProc counts an event on an external-processing stream; outcome is empty
// where the event has none.
func (m *Metrics) ExtProc(event, outcome string) {
	m.extproc.Add(context.Background(), 1, byHappening.of(event, outcome).add...)
}

// Audit counts records of the audit log: those written to its file, and those lost.
func (m *Metrics) Audit(outcome string, n int) {
	m.audit.Add(context.Background(), int64(n), byOutcome.of(outcome).add...)
}

// Refused counts a request that was refused before it was a turn.
func (m *Metrics) Refused(code string) {
	m.refused.Add(context.Background(), 1, byCode.of(code).add...)
}

// Session counts an event of hidden history, mixed turns or journals.
func (m *Metrics) Session(event string) {
	m.sessions.Add(context.Background(), 1, byEvent.of(event).add...)
}

// Store records an operation of the session store.
func (m *Metrics) Store(ctx context.Context, operation, outcome string, duration time.Duration) {
	m.storeOps.Record(ctx, duration.Seconds(), byOperation.of(operation, outcome).record...)
}
