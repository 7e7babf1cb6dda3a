package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/pprof"
	"slices"
	"sync/atomic"

	"github.com/mcp-via-llm/mcp-via-llm/admin"
	"github.com/mcp-via-llm/mcp-via-llm/schema"
)

// adminHandler serves health, metrics and what happens inside. It is plain HTTP
// without authentication, for loopback and the pod's own network; address is the
// listener's, as configured. notReady holds why the service is not ready, as a
// string; empty when it is.
func (a *app) adminHandler(notReady *atomic.Value, address string) http.Handler {
	mux := http.NewServeMux()
	number, _ := build()
	pages := admin.Source{
		Version:  number,
		NotReady: func() string { return fmt.Sprint(notReady.Load()) },
		Servers:  a.host.Status,
		Turns:    &a.turns,
		Clients:  func() []string { return slices.Sorted(maps.Keys(a.current.Load().config.Clients)) },
		Catalog:  func(client, dialect string) (admin.Catalog, bool) { return a.current.Load().catalog(client, dialect) },
		Schemas:  schema.Dialects(),
	}
	pages.Register(mux)
	mux.HandleFunc("GET /debug/sessions", a.serveSessions)
	mux.HandleFunc("GET /debug/sessions.json", a.serveSessions)
	mux.HandleFunc("DELETE /debug/sessions", a.serveSessions)
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	all := a.metricsMux(notReady)
	all.Handle("/", admin.Guard(mux, address))
	return all
}

// catalog is what a client profile has of the servers that are connected. Those of
// callers with credentials of their own are not counted, as nobody calls.
func (s *snapshot) catalog(client, dialect string) (admin.Catalog, bool) {
	profile, err := s.config.Client(client)
	if err != nil || dialect != "" && !slices.Contains(schema.Dialects(), dialect) {
		return admin.Catalog{}, false
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // it shows what is there, and waits for nothing
	asked := query(loopClient(client, profile), profile.Servers, nil, s.profiles[client])
	asked.Schema = cmp.Or(schema.Dialect(dialect), asked.Schema)
	return admin.NewCatalog(client, string(asked.Schema), s.app.host.Toolset(ctx, asked)), true
}

// metricsMux serves what probes and Prometheus may see, and no more: it can be
// exposed where the pages of /debug must not.
func (a *app) metricsMux(notReady *atomic.Value) *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if reason := notReady.Load(); reason != "" {
			http.Error(w, fmt.Sprint(reason), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	mux.Handle("GET /metrics", a.telemetry.Handler())
	return mux
}

func writeJSON(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.Encode(value) //nolint:errcheck // the reader is gone, nobody is left to tell
}
