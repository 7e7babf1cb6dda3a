// Package telemetry sets up metrics and the log.
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
	"go.opentelemetry.io/otel/attribute"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	sdk "go.opentelemetry.io/otel/sdk/metric"
)

// cardinalityLimit bounds the series of one metric. Names of servers and clients
// come from the configuration, but names of tools from servers.
const cardinalityLimit = 2000

// Buckets for turns and calls, in seconds: from a cached answer to a long loop.
var seconds = metric.WithExplicitBucketBoundaries(0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)

// Buckets for the store, in seconds: from a map in memory to a Redis that hangs.
var milliseconds = metric.WithExplicitBucketBoundaries(0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25)

// Metrics are the instruments of the service. The zero value is not usable.
type Metrics struct {
	provider *sdk.MeterProvider
	registry *prometheus.Registry

	turns        metric.Int64Counter
	turnDuration metric.Float64Histogram
	segments     metric.Int64Counter
	calls        metric.Int64Counter
	callDuration metric.Float64Histogram
	reloads      metric.Int64Counter
	extproc      metric.Int64Counter
	serverUp     metric.Int64ObservableGauge
	sessions     metric.Int64Counter
	storeOps     metric.Float64Histogram
	audit        metric.Int64Counter
	omitted      metric.Int64Gauge
	meter        metric.Meter
}

// NewMetrics makes the instruments on a registry of their own.
func NewMetrics() (*Metrics, error) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	reader, err := exporter.New(
		exporter.WithRegisterer(registry),
		exporter.WithTranslationStrategy(otlptranslator.UnderscoreEscapingWithSuffixes),
		exporter.WithoutTargetInfo(),
		exporter.WithoutScopeInfo(),
	)
	if err != nil {
		return nil, err
	}
	provider := sdk.NewMeterProvider(sdk.WithReader(reader), sdk.WithCardinalityLimit(cardinalityLimit))
	m := &Metrics{provider: provider, registry: registry, meter: provider.Meter("mcp-via-llm")}
	return m, m.instruments(m.meter)
}

func (m *Metrics) instruments(meter metric.Meter) error {
	errs := make([]error, 12)
	m.turns, errs[0] = meter.Int64Counter("mcp_via_llm.turns", metric.WithDescription("Turns that ended, by client and stop reason."))
	m.turnDuration, errs[1] = meter.Float64Histogram("mcp_via_llm.turn.duration", metric.WithUnit("s"), seconds, metric.WithDescription("Wall time of turns."))
	m.segments, errs[2] = meter.Int64Counter("mcp_via_llm.segments", metric.WithDescription("Exchanges with the LLM inside turns."))
	m.calls, errs[3] = meter.Int64Counter("mcp_via_llm.tool.calls", metric.WithDescription("MCP calls that ended, by outcome."))
	m.callDuration, errs[4] = meter.Float64Histogram("mcp_via_llm.tool.duration", metric.WithUnit("s"), seconds, metric.WithDescription("Wall time of MCP calls."))
	m.reloads, errs[5] = meter.Int64Counter("mcp_via_llm.config.reloads", metric.WithDescription("Changes of the configuration file, by outcome."))
	m.extproc, errs[6] = meter.Int64Counter("mcp_via_llm.extproc.events", metric.WithDescription("What happened on external-processing streams."))
	m.serverUp, errs[7] = meter.Int64ObservableGauge("mcp_via_llm.server.connected", metric.WithDescription("1 while the MCP server is connected, else 0."))
	m.sessions, errs[8] = meter.Int64Counter("mcp_via_llm.session.events", metric.WithDescription("What happened to hidden history, mixed turns and journals."))
	m.storeOps, errs[9] = meter.Float64Histogram("mcp_via_llm.store.duration", metric.WithUnit("s"), milliseconds, metric.WithDescription("Time of operations of the session store."))
	m.audit, errs[10] = meter.Int64Counter("mcp_via_llm.audit.records", metric.WithDescription("Records of the audit log, by whether its file has them."))
	m.omitted, errs[11] = meter.Int64Gauge("mcp_via_llm.tools.omitted", metric.WithDescription("Tools for which max_tools had no room in the client's last request."))
	return errors.Join(errs...)
}

// Handler serves the metrics in the Prometheus formats.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{EnableOpenMetrics: true})
}

// Shutdown ends the provider.
func (m *Metrics) Shutdown(ctx context.Context) error { return m.provider.Shutdown(ctx) }

// Turn counts a turn that ended.
func (m *Metrics) Turn(client, stopReason string, duration time.Duration, segments int) {
	byClient := attribute.String("client", client)
	ended := metric.WithAttributes(byClient, attribute.String("stop_reason", stopReason))
	m.turns.Add(context.Background(), 1, ended)
	m.turnDuration.Record(context.Background(), duration.Seconds(), ended)
	m.segments.Add(context.Background(), int64(segments), metric.WithAttributes(byClient))
}

// ToolCall counts an MCP call that ended. Server and tool are empty for a name
// that no server has: the model made it up, and there is no end of such names.
func (m *Metrics) ToolCall(server, tool, outcome string, duration time.Duration) {
	if server == "" {
		tool = ""
	}
	byServer, byOutcome := attribute.String("server", server), attribute.String("outcome", outcome)
	m.calls.Add(context.Background(), 1, metric.WithAttributes(byServer, attribute.String("tool", tool), byOutcome))
	m.callDuration.Record(context.Background(), duration.Seconds(), metric.WithAttributes(byServer, byOutcome))
}

// Omitted tells how many tools had no room in a request of a client.
func (m *Metrics) Omitted(client string, tools int) {
	m.omitted.Record(context.Background(), int64(tools), metric.WithAttributes(attribute.String("client", client)))
}

// Outcomes of a changed configuration file.
const (
	ReloadApplied = "applied"
	ReloadRefused = "refused"
)

// Reload counts a change of the configuration file.
func (m *Metrics) Reload(outcome string) {
	m.reloads.Add(context.Background(), 1, metric.WithAttributes(attribute.String("outcome", outcome)))
}

// ExtProc counts an event on an external-processing stream; outcome is empty
// where the event has none.
func (m *Metrics) ExtProc(event, outcome string) {
	m.extproc.Add(context.Background(), 1, metric.WithAttributes(attribute.String("event", event), attribute.String("outcome", outcome)))
}

// Audit counts records of the audit log: those written to its file, and those lost.
func (m *Metrics) Audit(outcome string, n int) {
	m.audit.Add(context.Background(), int64(n), metric.WithAttributes(attribute.String("outcome", outcome)))
}

// Session counts an event of hidden history, mixed turns or journals.
func (m *Metrics) Session(event string) {
	m.sessions.Add(context.Background(), 1, metric.WithAttributes(attribute.String("event", event)))
}

// Store records an operation of the session store.
func (m *Metrics) Store(operation string, duration time.Duration, failed bool) {
	outcome := "ok"
	if failed {
		outcome = "error"
	}
	m.storeOps.Record(context.Background(), duration.Seconds(), metric.WithAttributes(attribute.String("operation", operation), attribute.String("outcome", outcome)))
}

// Servers makes connected, which tells the state of every MCP server by name,
// the source of the server gauge.
func (m *Metrics) Servers(connected func() map[string]bool) error {
	_, err := m.meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		for name, up := range connected() {
			var value int64
			if up {
				value = 1
			}
			o.ObserveInt64(m.serverUp, value, metric.WithAttributes(attribute.String("server", name)))
		}
		return nil
	}, m.serverUp)
	return err
}
