package telemetry

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"go.opentelemetry.io/contrib/exporters/autoexport"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/stdout/stdoutmetric"
	"go.opentelemetry.io/otel/metric"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

func disabled() bool { return strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") }

// exporters are those that the environment names for a signal (TRACES, METRICS or
// LOGS). OTLP is the standard's default, but only if there is an endpoint to send
// to: nothing leaves a service that nobody has configured.
func exporters(signal string) []string {
	var all []string
	for name := range strings.SplitSeq(os.Getenv("OTEL_"+signal+"_EXPORTER"), ",") {
		if name = strings.ToLower(strings.TrimSpace(name)); name != "" && !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	if len(all) == 0 && otlp(signal, "ENDPOINT") != "" {
		return []string{"otlp"}
	}
	return slices.DeleteFunc(all, func(name string) bool { return name == "none" })
}

// otlp is a variable of the OTLP exporter, that of the signal before the general one.
func otlp(signal, name string) string {
	if value := os.Getenv("OTEL_EXPORTER_OTLP_" + signal + "_" + name); value != "" {
		return value
	}
	return os.Getenv("OTEL_EXPORTER_OTLP_" + name)
}

// The sampler, the limits of spans and the queue of the batch processor
// (OTEL_TRACES_SAMPLER, OTEL_SPAN_…, OTEL_BSP_…) are read by the SDK itself.
func (t *Telemetry) startTraces(ctx context.Context, about *resource.Resource) error {
	if len(exporters("TRACES")) == 0 {
		return nil
	}
	exporter, err := autoexport.NewSpanExporter(ctx)
	if err != nil {
		return fmt.Errorf("OTEL_TRACES_EXPORTER or OTEL_EXPORTER_OTLP_…: %w", err)
	}
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(about))
	t.Traces, t.tracing, t.close = versioned{provider, t.version}, true, append(t.close, provider.Shutdown)
	return nil
}

// versioned gives all scopes the service's version: its packages have no other.
type versioned struct {
	trace.TracerProvider
	version string
}

func (v versioned) Tracer(name string, options ...trace.TracerOption) trace.Tracer {
	return v.TracerProvider.Tracer(name, append(options, trace.WithInstrumentationVersion(v.version))...)
}

// versionedMeters do the same.
type versionedMeters struct {
	meterProvider
	version string
}

func (v versionedMeters) Meter(name string, options ...metric.MeterOption) metric.Meter {
	return v.meterProvider.Meter(name, append(options, metric.WithInstrumentationVersion(v.version))...)
}

func (t *Telemetry) startLogs(ctx context.Context, about *resource.Resource) error {
	if len(exporters("LOGS")) == 0 {
		return nil
	}
	exporter, err := autoexport.NewLogExporter(ctx)
	if err != nil {
		return fmt.Errorf("OTEL_LOGS_EXPORTER or OTEL_EXPORTER_OTLP_…: %w", err)
	}
	provider := sdklog.NewLoggerProvider(sdklog.WithProcessor(sdklog.NewBatchProcessor(exporter)), sdklog.WithResource(about))
	t.Logs, t.close = provider, append(t.close, provider.Shutdown)
	return nil
}

// pushed are the readers beside that for Prometheus, which is always there: the
// admin listener serves it, so "prometheus" needs no listener of its own.
func pushed(ctx context.Context) ([]sdkmetric.Reader, error) {
	var readers []sdkmetric.Reader
	for _, name := range exporters("METRICS") {
		if name == "prometheus" {
			continue
		}
		exporter, err := metricExporter(ctx, name)
		if err != nil {
			return nil, fmt.Errorf("OTEL_METRICS_EXPORTER or OTEL_EXPORTER_OTLP_…: %w", err)
		}
		readers = append(readers, sdkmetric.NewPeriodicReader(exporter)) // OTEL_METRIC_EXPORT_INTERVAL and …_TIMEOUT
	}
	return readers, nil
}

// metricExporter makes one exporter. Unlike autoexport's it can be one of several:
// OTEL_METRICS_EXPORTER may be a list.
func metricExporter(ctx context.Context, name string) (sdkmetric.Exporter, error) {
	switch {
	case name == "console":
		return stdoutmetric.New()
	case otlp("METRICS", "PROTOCOL") == "grpc":
		return otlpmetricgrpc.New(ctx)
	default:
		return otlpmetrichttp.New(ctx)
	}
}
