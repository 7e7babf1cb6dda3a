package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/pprof"
	"sync"
	"sync/atomic"

	"github.com/mcp-via-llm/mcp-via-llm/loop"
)

// turnRing keeps the last turns for GET /debug/turns.
type turnRing struct {
	mu   sync.Mutex
	last []*loop.Report
}

const keptTurns = 200

func (t *turnRing) add(r *loop.Report) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.last) == keptTurns {
		t.last = t.last[1:]
	}
	t.last = append(t.last, r)
}

// newest lists the kept turns, the newest first.
func (t *turnRing) newest() []*loop.Report {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make([]*loop.Report, 0, len(t.last))
	for i := len(t.last) - 1; i >= 0; i-- {
		out = append(out, t.last[i])
	}
	return out
}

// adminHandler serves health, metrics and what happens inside. It is plain HTTP
// without authentication, for loopback and the pod's own network. notReady holds
// why the service is not ready, as a string; empty when it is.
func (a *app) adminHandler(notReady *atomic.Value) http.Handler {
	mux := a.metricsMux(notReady)
	mux.HandleFunc("GET /debug/servers", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, a.host.Status()) })
	mux.HandleFunc("GET /debug/turns", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, a.turns.newest()) })
	mux.HandleFunc("GET /debug/sessions", a.serveSessions)
	mux.HandleFunc("DELETE /debug/sessions", a.serveSessions)
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	return mux
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
