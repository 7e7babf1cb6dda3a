package monitoring_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mcp-via-llm/mcp-via-llm/e2e/rig"
)

const prometheusConfig = `
global: {scrape_interval: 500ms, evaluation_interval: 1s}
rule_files: [%q]
scrape_configs:
  - job_name: mcp-via-llm
    static_configs:
      - {targets: [%q], labels: {pod: embedded}}
      - {targets: [%q], labels: {pod: redis}}
`

// chart is the folder of what the chart brings for monitoring.
func chart(file string) string {
	return filepath.Join(tools.Root(), "charts", "mcp-via-llm", "files", file)
}

// prometheus is one that runs, by the URL of its API.
type prometheus string

// startPrometheus starts one that scrapes two services and evaluates the chart's rules.
func startPrometheus(t *testing.T, embedded, redis *world) prometheus {
	t.Helper()
	free, err := rig.FreePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "prometheus.yaml")
	host := func(w *world) string { return strings.TrimPrefix(w.Admin, "http://") }
	if err := os.WriteFile(file, fmt.Appendf(nil, prometheusConfig, chart("rules.yaml"), host(embedded), host(redis)), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := rig.StartProcess("prometheus", nil, tools.Part("prometheus"), "--config.file="+file,
		"--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+free[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			t.Logf("--- prometheus printed:\n%s", p.Log())
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), startLimit)
	defer cancel()
	if err := rig.WaitReady(ctx, p, "http://"+free[0]+"/-/ready"); err != nil {
		t.Fatal(err)
	}
	return prometheus("http://" + free[0] + "/api/v1/")
}

// get gives the data of an answer of the API.
func (p prometheus) get(t *testing.T, into any, path string, parameters url.Values) {
	t.Helper()
	response, err := http.Get(string(p) + path + "?" + parameters.Encode())
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var answer struct {
		Status, Error string
		Data          json.RawMessage
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil || answer.Status != "success" {
		t.Fatalf("%s %v: %s %v", path, parameters, answer.Error, err)
	}
	if err := json.Unmarshal(answer.Data, into); err != nil {
		t.Fatalf("%s %v: %v in %s", path, parameters, err, answer.Data)
	}
}

// numbers gives the values that a query has now, as text; those that are no number apart.
func (p prometheus) numbers(t *testing.T, query string) (values, odd []string) {
	t.Helper()
	var data struct {
		Result []struct{ Value [2]any }
	}
	p.get(t, &data, "query", url.Values{"query": {query}})
	for _, r := range data.Result {
		switch v := fmt.Sprint(r.Value[1]); v {
		case "NaN", "+Inf", "-Inf":
			odd = append(odd, v)
		default:
			values = append(values, v)
		}
	}
	return values, odd
}

// series counts the series that match.
func (p prometheus) series(t *testing.T, match string) int {
	t.Helper()
	var found []map[string]string
	p.get(t, &found, "series", url.Values{"match[]": {match}})
	return len(found)
}

// eventually polls until nothing is amiss.
func eventually(t *testing.T, what string, amiss func() string) {
	t.Helper()
	for deadline := time.Now().Add(limit); ; time.Sleep(100 * time.Millisecond) {
		why := amiss()
		if why == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %v: %s", what, limit, why)
		}
	}
}
