package main

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"net"
	"net/http"
	"sync"

	logsv1 "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	metricsv1 "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"
)

// span is what the collector tells of a span.
type span struct {
	Trace   string `json:"trace"`
	Parent  string `json:"parent"`
	Name    string `json:"name"`
	Service string `json:"service"`
}

// collector takes spans by OTLP over gRPC and gives them to GET /spans?trace=ID.
type collector struct {
	tracev1.UnimplementedTraceServiceServer
	mu    sync.Mutex
	spans []span
}

// collect serves OTLP on 4317 and what came on 8000.
func collect() error {
	c := &collector{}
	listener, err := net.Listen("tcp", ":4317")
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	tracev1.RegisterTraceServiceServer(server, c)
	metricsv1.RegisterMetricsServiceServer(server, metrics{})
	logsv1.RegisterLogsServiceServer(server, logs{})
	failed := make(chan error, 2)
	go func() { failed <- server.Serve(listener) }()
	go func() { failed <- listen(":8000", c) }()
	return <-failed
}

// metrics and logs are taken and dropped.
type (
	metrics struct {
		metricsv1.UnimplementedMetricsServiceServer
	}
	logs struct {
		logsv1.UnimplementedLogsServiceServer
	}
)

func (metrics) Export(context.Context, *metricsv1.ExportMetricsServiceRequest) (*metricsv1.ExportMetricsServiceResponse, error) {
	return &metricsv1.ExportMetricsServiceResponse{}, nil
}

func (logs) Export(context.Context, *logsv1.ExportLogsServiceRequest) (*logsv1.ExportLogsServiceResponse, error) {
	return &logsv1.ExportLogsServiceResponse{}, nil
}

// Export implements OTLP's TraceService.
func (c *collector) Export(_ context.Context, in *tracev1.ExportTraceServiceRequest) (*tracev1.ExportTraceServiceResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, resource := range in.ResourceSpans {
		var service string
		for _, a := range resource.GetResource().GetAttributes() {
			if a.Key == "service.name" {
				service = a.Value.GetStringValue()
			}
		}
		for _, scope := range resource.ScopeSpans {
			for _, s := range scope.Spans {
				c.spans = append(c.spans, span{hex.EncodeToString(s.TraceId), hex.EncodeToString(s.ParentSpanId), s.Name, service})
			}
		}
	}
	return &tracev1.ExportTraceServiceResponse{}, nil
}

// ServeHTTP lists the spans of a trace; without one, all.
func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	trace := r.URL.Query().Get("trace")
	c.mu.Lock()
	defer c.mu.Unlock()
	found := []span{}
	for _, s := range c.spans {
		if trace == "" || s.Trace == trace {
			found = append(found, s)
		}
	}
	json.NewEncoder(w).Encode(found) //nolint:errcheck // the reader is gone
}
