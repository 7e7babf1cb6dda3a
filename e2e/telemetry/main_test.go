// Package telemetry_test shows a turn's traces, metrics and logs on real parts: the built binary behind an Envoy that
// traces too, a Redis, MCP servers, an OpenTelemetry Collector, Jaeger and a Prometheus.
package telemetry_test

import (
	"os"
	"testing"
	"time"

	"github.com/mcp-via-llm/mcp-via-llm/e2e/rig"
)

var (
	tools     *rig.Tools
	service   string // the built mcp-via-llm
	addServer string // the built add server
)

const (
	startLimit = 2 * time.Minute // generous, for busy cores
	// arrival bounds how long telemetry takes to where it is looked for: Envoy sends its spans every 5 s.
	arrival = time.Minute
)

func TestMain(m *testing.M) {
	os.Exit(rig.Main(m, &tools, rig.Program{Into: &service, Package: "./cmd/mcp-via-llm"}, rig.Program{Into: &addServer, Package: "./e2e/addserver"}))
}

// eventually polls until a condition holds; why says what is amiss.
func eventually(t *testing.T, limit time.Duration, why func() string) {
	t.Helper()
	for deadline := time.Now().Add(limit); ; time.Sleep(100 * time.Millisecond) {
		amiss := why()
		if amiss == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", limit, amiss)
		}
	}
}
