package telemetry_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"

	logscollector "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	metricscollector "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	logs "go.opentelemetry.io/proto/otlp/logs/v1"
	metrics "go.opentelemetry.io/proto/otlp/metrics/v1"
	"google.golang.org/grpc"
	_ "google.golang.org/grpc/encoding/gzip" // the collector compresses

	"github.com/mcp-via-llm/mcp-via-llm/e2e/rig"
)

// backend is where telemetry goes: a collector, Jaeger behind it for traces, and the test itself for metrics and logs.
type backend struct {
	grpc, http string // the collector's OTLP, as host:port
	jaeger     string // its query API, as URL
	sink       *sink
}

const jaegerConfig = `
service:
  extensions: [jaeger_storage, jaeger_query]
  pipelines: {traces: {receivers: [otlp], exporters: [jaeger_storage_exporter]}}
  telemetry: {metrics: {level: none}}
extensions:
  jaeger_storage: {backends: {memory: {memory: {max_traces: 1000}}}}
  jaeger_query: {storage: {traces: memory}, http: {endpoint: %q}, grpc: {endpoint: %q}}
receivers: {otlp: {protocols: {grpc: {endpoint: %q}}}}
exporters: {jaeger_storage_exporter: {trace_storage: memory}}
`

const collectorConfig = `
receivers: {otlp: {protocols: {grpc: {endpoint: %q}, http: {endpoint: %q}}}}
exporters:
  otlp/jaeger: {endpoint: %q, tls: {insecure: true}}
  otlp/test: {endpoint: %q, tls: {insecure: true}}
service:
  pipelines:
    traces: {receivers: [otlp], exporters: [otlp/jaeger]}
    metrics: {receivers: [otlp], exporters: [otlp/test]}
    logs: {receivers: [otlp], exporters: [otlp/test]}
  telemetry: {metrics: {level: none}}
`

func startBackend(t *testing.T) *backend {
	t.Helper()
	free, err := rig.FreePorts(5)
	if err != nil {
		t.Fatal(err)
	}
	b := &backend{grpc: free[0], http: free[1], jaeger: "http://" + free[2], sink: openSink(t)}
	launch(t, "jaeger", fmt.Sprintf(jaegerConfig, free[2], free[3], free[4]), b.jaeger+"/api/services")
	collector := launch(t, "collector", fmt.Sprintf(collectorConfig, b.grpc, b.http, free[4], b.sink.address), "")
	eventually(t, startLimit, func() string {
		select {
		case <-collector.Done():
			t.Fatal("the collector has ended")
		default:
		}
		connection, err := net.Dial("tcp", b.http)
		if err != nil {
			return err.Error()
		}
		connection.Close()
		return ""
	})
	return b
}

// launch starts a part with a configuration, and waits until url answers if there is one.
func launch(t *testing.T, name, config, url string) *rig.Process {
	t.Helper()
	file := filepath.Join(t.TempDir(), name+".yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return launchArgs(t, name, url, "--config", "file:"+file)
}

func launchArgs(t *testing.T, name, url string, arguments ...string) *rig.Process {
	t.Helper()
	p, err := rig.StartProcess(name, []string{"OTEL_TRACES_SAMPLER=always_off"}, tools.Part(name), arguments...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			t.Logf("--- %s printed:\n%s", name, p.Log())
		}
	})
	if url == "" {
		return p
	}
	ctx, cancel := context.WithTimeout(t.Context(), startLimit)
	defer cancel()
	if err := rig.WaitReady(ctx, p, url); err != nil {
		t.Fatal(err)
	}
	return p
}

// sink takes OTLP and keeps it.
type sink struct {
	metricscollector.UnimplementedMetricsServiceServer
	address string

	mu      sync.Mutex
	metrics map[string]*metrics.Metric // the latest of each name
	logs    []*logs.LogRecord
}

func openSink(t *testing.T) *sink {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &sink{address: listener.Addr().String(), metrics: map[string]*metrics.Metric{}}
	server := grpc.NewServer()
	metricscollector.RegisterMetricsServiceServer(server, s)
	logscollector.RegisterLogsServiceServer(server, &logSink{sink: s})
	go server.Serve(listener) //nolint:errcheck // it ends with the test
	t.Cleanup(server.Stop)
	return s
}

func (s *sink) Export(_ context.Context, r *metricscollector.ExportMetricsServiceRequest) (*metricscollector.ExportMetricsServiceResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, resource := range r.ResourceMetrics {
		for _, scope := range resource.ScopeMetrics {
			for _, m := range scope.Metrics {
				s.metrics[m.Name] = m
			}
		}
	}
	return &metricscollector.ExportMetricsServiceResponse{}, nil
}

// logSink is the sink's other service: the two have methods of the same name.
type logSink struct {
	logscollector.UnimplementedLogsServiceServer
	*sink
}

func (s *logSink) Export(_ context.Context, r *logscollector.ExportLogsServiceRequest) (*logscollector.ExportLogsServiceResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, resource := range r.ResourceLogs {
		for _, scope := range resource.ScopeLogs {
			s.logs = append(s.logs, scope.LogRecords...)
		}
	}
	return &logscollector.ExportLogsServiceResponse{}, nil
}

func (s *sink) metric(name string) *metrics.Metric {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.metrics[name]
}

// record gives the first log record with this body in a trace.
func (s *sink) record(traceID, body string) *logs.LogRecord {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.logs {
		if fmt.Sprintf("%x", r.TraceId) == traceID && r.Body.GetStringValue() == body {
			return r
		}
	}
	return nil
}
