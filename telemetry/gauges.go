package telemetry

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// State is what is true at the moment, for gauges.
type State struct {
	Servers      []Server
	ActiveTurns  int
	PendingTurns int // mixed turns with calls in the background, on this replica
	PendingCalls int // those calls
	StoreKeys    int // of the store in memory; less than 0: in Redis, not counted
	StoreBytes   int64
	Omitted      map[string]int // tools without room in the last request of each client that is configured
}

// Server is the state of an MCP server.
type Server struct {
	Name      string
	Connected bool
	Tools     int
	Listed    time.Time // when its tools were last listed; zero: never
}

// Observe makes now, which is asked at each scrape or push, the source of the
// gauges. It is called once.
func (m *Metrics) Observe(now func() State) error {
	var errs []error
	gauge := func(name, unit, help string) metric.Int64ObservableGauge {
		g, err := m.meter.Int64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(help))
		errs = append(errs, err)
		return g
	}
	connected := gauge("mcp_via_llm.server.connected", "", "1 while the MCP server is connected, else 0.")
	tools := gauge("mcp_via_llm.server.tools", "{tool}", "Tools in the catalog of the MCP server.")
	active := gauge("mcp_via_llm.turns.active", "{turn}", "Turns that run.")
	turns := gauge("mcp_via_llm.pending.turns", "{turn}", "Mixed turns whose MCP calls run in the background on this replica.")
	calls := gauge("mcp_via_llm.pending.calls", "{call}", "MCP calls that run in the background on this replica.")
	keys := gauge("mcp_via_llm.store.keys", "{key}", "Records, bags and leases in the embedded session store.")
	size := gauge("mcp_via_llm.store.size", "By", "Size of the embedded session store.")
	omitted := gauge("mcp_via_llm.tools.omitted", "{tool}", "Tools for which max_tools had no room in the client's last request.")
	age, err := m.meter.Float64ObservableGauge("mcp_via_llm.server.catalog.age", metric.WithUnit("s"), metric.WithDescription("Time since the MCP server's tools were last listed."))
	errs = append(errs, err)
	_, err = m.meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		s := now()
		for _, server := range s.Servers {
			name := metric.WithAttributes(attribute.String("server", server.Name))
			var up int64
			if server.Connected {
				up = 1
			}
			o.ObserveInt64(connected, up, name)
			o.ObserveInt64(tools, int64(server.Tools), name)
			if !server.Listed.IsZero() {
				o.ObserveFloat64(age, time.Since(server.Listed).Seconds(), name)
			}
		}
		o.ObserveInt64(active, int64(s.ActiveTurns))
		o.ObserveInt64(turns, int64(s.PendingTurns))
		o.ObserveInt64(calls, int64(s.PendingCalls))
		if s.StoreKeys >= 0 {
			o.ObserveInt64(keys, int64(s.StoreKeys))
			o.ObserveInt64(size, s.StoreBytes)
		}
		for client, n := range s.Omitted {
			o.ObserveInt64(omitted, int64(n), metric.WithAttributes(attribute.String("client", client)))
		}
		return nil
	}, connected, tools, active, turns, calls, keys, size, age, omitted)
	return errors.Join(append(errs, err)...)
}
