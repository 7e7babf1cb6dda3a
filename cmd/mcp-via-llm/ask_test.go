package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A question through the service prints the answer and what was called for it; a
// completion that the service has not touched is a failure.
func TestAsk(t *testing.T) {
	base, requests := provider(t, "calc__add", `{"a":5,"b":7}`)
	s := start(t, writeConfig(t, serveConfig(base, "")))
	t.Setenv("MCP_TEST_KEY", "k")
	code, stdout, stderr := command(t, "ask", "--url", s.http+"/v1", "--model", "m", "--key-env", "MCP_TEST_KEY", "What is 5 plus 7?")
	if want := "12\n(rounds: 2, MCP tools called: [\"calc__add\"])\n"; code != 0 || stdout != want || requests.Load() != 2 {
		t.Errorf("exit code %d, %d requests\n%s%s", code, requests.Load(), stdout, stderr)
	}
	code, stdout, stderr = command(t, "ask", "--url", base, "--model", "m", "hi")
	if code != 1 || !strings.Contains(stderr, "not through mcp-via-llm") {
		t.Errorf("past the service: exit code %d\n%s%s", code, stdout, stderr)
	}
	if !strings.Contains(stderr, `200 OK: {`) {
		t.Errorf("past the service, without what came: %s", stderr)
	}
	code, _, stderr = command(t, "ask", "--url", "http://127.0.0.1:1/v1", "--model", "m", "--wait", "1ms", "hi")
	if code != 1 || !strings.Contains(stderr, "connection refused") {
		t.Errorf("nobody there: exit code %d\n%s", code, stderr)
	}
}

// An Envoy whose routes are for a hostname has none for its address.
func TestAskOfAHost(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Host {
		case "llm.example.com":
			http.Error(w, `{"error":{"message":"no such model"}}`, http.StatusBadRequest)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	defer server.Close()
	for want, args := range map[string][]string{
		"answered 404 Not Found: (no body); where the route is for a hostname, --host must name it": nil,
		`answered 400 Bad Request: {"error":{"message":"no such model"}}`:                           {"--host", "llm.example.com"},
	} {
		if code, _, stderr := command(t, append([]string{"ask", "--url", server.URL, "--model", "m", "hi"}, args...)...); code != 1 || !strings.Contains(stderr, want) {
			t.Errorf("%v: exit code %d, %s", args, code, stderr)
		}
	}
}

// What is exposed for probes and Prometheus has none of the pages of /debug.
func TestMetricsListener(t *testing.T) {
	base, _ := provider(t, "calc__add", `{"a":5,"b":7}`)
	s := start(t, writeConfig(t, strings.Replace(serveConfig(base, ""), "listen: {", "listen: {metrics: '127.0.0.1:0', ", 1)))
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 200, "/metrics": 200, "/debug/servers": 404, "/debug/pprof/": 404, "/": 404} {
		if got := statusOf(s.metrics + path); got != want {
			t.Errorf("%s: %d, want %d", path, got, want)
		}
	}
	if code := s.stop(t); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

func TestEnvoyConfigToFile(t *testing.T) {
	path, file := writeConfig(t, ""), filepath.Join(t.TempDir(), "envoy.yaml")
	_, printed, _ := command(t, "envoy-config", "--config", path)
	code, stdout, stderr := command(t, "envoy-config", "--config", path, "--output", file)
	written, err := os.ReadFile(file)
	if code != 0 || stdout != "" || err != nil || string(written) != printed {
		t.Errorf("exit code %d, %v\n%s%s", code, err, stdout, stderr)
	}
}
