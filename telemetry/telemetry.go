// Package telemetry sets up traces, metrics and logs: OpenTelemetry, configured
// by its standard environment variables alone (OpenTelemetry specification,
// "Environment Variable Specification"), and the metrics for Prometheus.
//
// Names and attributes are those of the semantic conventions 1.41.0, the last
// release that has those of generative AI and MCP as constants for Go; what they
// have no name for is called mcp_via_llm.….
package telemetry

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/uuid"
	"go.opentelemetry.io/contrib/propagators/autoprop"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/log"
	nolog "go.opentelemetry.io/otel/log/noop"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"
	notrace "go.opentelemetry.io/otel/trace/noop"
)

// Name is the service's name unless OTEL_SERVICE_NAME or OTEL_RESOURCE_ATTRIBUTES
// give another one.
const Name = "mcp-via-llm"

// Telemetry is what the service tells of itself.
type Telemetry struct {
	*Metrics
	// Traces makes spans; without an exporter it does nothing, at no cost.
	Traces trace.TracerProvider
	// Logs takes records for OTLP; without an exporter it does nothing.
	Logs log.LoggerProvider
	// Propagator carries the context of a trace from request to request. The
	// default is W3C Trace Context alone: a caller's baggage may name people, and
	// goes to MCP servers only where OTEL_PROPAGATORS lists it.
	Propagator propagation.TextMapPropagator
	// Content says how much of what is said goes into spans and events.
	Content Content

	version string
	tracing bool
	close   []func(context.Context) error
}

// Start reads the environment and starts what it asks for. version is the
// service's. The error names the variable that cannot be used. log gets what goes
// wrong besides, such as a collector that is away; it must not lead back here. No
// error and no line has the headers for a collector.
func Start(ctx context.Context, version string, log *slog.Logger) (*Telemetry, error) {
	secrets := readSecrets()
	log = slog.New(redacting{log.Handler(), secrets})
	if err := readEnvironment(log); err != nil {
		return nil, err
	}
	otel.SetErrorHandler(&complaints{log: log, last: map[string]time.Time{}})
	otel.SetLogger(logr.FromSlogHandler(log.Handler()))
	t := &Telemetry{
		version:    version,
		Traces:     notrace.NewTracerProvider(),
		Logs:       nolog.NewLoggerProvider(),
		Propagator: autoprop.NewTextMapPropagator(propagation.TraceContext{}),
		Content:    contentFromEnv(),
	}
	about, err := describe(ctx, version)
	if errors.Is(err, resource.ErrPartialResource) {
		log.Warn("telemetry does not say all of where it is from", "err", err)
		err = nil
	}
	if err == nil && !disabled() {
		err = errors.Join(t.startTraces(ctx, about), t.startLogs(ctx, about))
	}
	if err == nil {
		t.Metrics, err = newMetrics(ctx, about, version)
	}
	if err != nil {
		return nil, errors.New(secrets.hide(errors.Join(err, t.Shutdown(ctx)).Error()))
	}
	return t, nil
}

// Tracing says whether spans go anywhere.
func (t *Telemetry) Tracing() bool { return t.tracing }

// Shutdown sends what is waiting, until ctx ends, and stops.
func (t *Telemetry) Shutdown(ctx context.Context) error {
	var errs []error
	for _, end := range t.close {
		errs = append(errs, end(ctx))
	}
	if t.Metrics != nil {
		errs = append(errs, t.provider.Shutdown(ctx))
	}
	return errors.Join(errs...)
}

// describe is what all signals say of their origin. The environment's word is the
// last: OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES.
func describe(ctx context.Context, version string) (*resource.Resource, error) {
	about, err := resource.New(ctx,
		resource.WithAttributes(semconv.ServiceName(Name), semconv.ServiceVersion(version), semconv.ServiceInstanceID(uuid.NewString())),
		resource.WithTelemetrySDK(),
		resource.WithHost(),
		resource.WithFromEnv(),
	)
	if errors.Is(err, resource.ErrSchemaURLConflict) {
		err = nil // of the SDK's own detectors; the attributes are there
	}
	return about, err
}

// complaints logs what goes wrong inside OpenTelemetry, the same thing once a
// minute: a collector that is away is met at every export.
type complaints struct {
	log *slog.Logger

	mu   sync.Mutex
	last map[string]time.Time
}

// Handle implements otel.ErrorHandler.
func (c *complaints) Handle(err error) {
	text := err.Error()
	c.mu.Lock()
	again := time.Since(c.last[text]) < time.Minute
	if !again {
		if len(c.last) >= 100 {
			clear(c.last)
		}
		c.last[text] = time.Now()
	}
	c.mu.Unlock()
	if !again {
		c.log.Warn("telemetry", "err", err)
	}
}
