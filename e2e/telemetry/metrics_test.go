package telemetry_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcp-via-llm/mcp-via-llm/e2e/rig"
)

const prometheusConfig = `
global: {scrape_interval: 500ms}
scrape_configs: [{job_name: mcp-via-llm, static_configs: [{targets: [%q]}]}]
`

// startPrometheus starts one that scrapes the service, and gives the URL of its API.
func startPrometheus(t *testing.T, target string) string {
	t.Helper()
	free, err := rig.FreePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "prometheus.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, prometheusConfig, target), 0o600); err != nil {
		t.Fatal(err)
	}
	u := "http://" + free[0]
	launchArgs(t, "prometheus", u+"/-/ready", "--config.file="+file, "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+free[0], "--enable-feature=exemplar-storage")
	return u
}

// ask gives the data of an answer of Prometheus' API.
func ask(t *testing.T, u, path string, parameters url.Values) json.RawMessage {
	t.Helper()
	response, err := http.Get(u + "/api/v1/" + path + "?" + parameters.Encode())
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var answer struct {
		Status string
		Error  string
		Data   json.RawMessage
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil || answer.Status != "success" {
		t.Fatalf("%s %v: %s %v", path, parameters, answer.Error, err)
	}
	return answer.Data
}

// queries must have data once a mixed turn and its resume are over. The names on the right are those of OTLP.
var queries = map[string]string{
	`mcp_via_llm_turns_total{client="default",stop_reason="answer"} == 1`:                                                              "mcp_via_llm.turns",
	`mcp_via_llm_turn_duration_seconds_count{stop_reason="client_tool_calls"} == 1`:                                                    "mcp_via_llm.turn.duration",
	`mcp_via_llm_turn_segments_sum{client="default"} == 4`:                                                                             "mcp_via_llm.turn.segments",
	`mcp_via_llm_turn_time_to_first_byte_seconds_count == 2`:                                                                           "mcp_via_llm.turn.time_to_first_byte",
	`mcp_via_llm_turn_longest_silence_seconds_count == 2`:                                                                              "mcp_via_llm.turn.longest_silence",
	`mcp_via_llm_tool_calls_total{server="shop",tool="refuse",outcome="tool_error"} == 1`:                                              "mcp_via_llm.tool.calls",
	`mcp_via_llm_tool_duration_seconds_count{server="shop",outcome="ok"} == 2`:                                                         "mcp_via_llm.tool.duration",
	`sum(gen_ai_client_operation_duration_seconds_count{gen_ai_request_model="scripted-1",gen_ai_operation_name="chat"}) == 4`:         "gen_ai.client.operation.duration",
	`gen_ai_client_token_usage_sum{gen_ai_token_type="input",gen_ai_provider_name="openai"} == 750`:                                    "gen_ai.client.token.usage",
	`gen_ai_client_operation_time_to_first_chunk_seconds_count == 4`:                                                                   "gen_ai.client.operation.time_to_first_chunk",
	`mcp_via_llm_prompt_cache_tokens_total{cache="read"} == 192`:                                                                       "mcp_via_llm.prompt_cache.tokens",
	`mcp_client_operation_duration_seconds_count{mcp_method_name="tools/call",gen_ai_tool_name="look",mcp_via_llm_server="shop"} == 1`: "mcp.client.operation.duration",
	`mcp_client_operation_duration_seconds_count{mcp_method_name="tools/call",gen_ai_tool_name="refuse",error_type="tool_error"} == 1`: "mcp.client.operation.duration",
	`mcp_via_llm_server_connected{server="shop"} == 1`:                                                                                 "mcp_via_llm.server.connected",
	`mcp_via_llm_server_tools{server="shop"} == 3`:                                                                                     "mcp_via_llm.server.tools",
	`mcp_via_llm_server_catalog_age_seconds{server="shop"} >= 0`:                                                                       "mcp_via_llm.server.catalog.age",
	`mcp_via_llm_session_events_total{event="pending"} == 1`:                                                                           "mcp_via_llm.session.events",
	`mcp_via_llm_store_duration_seconds_count{operation="load",outcome="ok"} > 0`:                                                      "mcp_via_llm.store.duration",
	`mcp_via_llm_turns_active == 0`:                                                                                                    "mcp_via_llm.turns.active",
	`mcp_via_llm_pending_turns == 0`:                                                                                                   "mcp_via_llm.pending.turns",
	`mcp_via_llm_pending_calls == 0`:                                                                                                   "mcp_via_llm.pending.calls",
}

// TestMetrics asserts that a Prometheus finds every metric at the scrape, and a collector the same by push; that
// exemplars lead to traces; and that promtool has nothing to say against names, units and help texts.
func TestMetrics(t *testing.T) {
	w := start(t, setup{brain: mixedTurns(), env: []string{"OTEL_METRICS_EXPORTER=otlp,prometheus"}})
	u := startPrometheus(t, strings.TrimPrefix(w.Admin, "http://"))
	close(w.shop.gate)
	w.post(t, request+"]}", browser(firstTrace, firstSpan))
	w.post(t, request+called+"]}", browser(resumeTrace, resumeSpan))

	for query, name := range queries {
		eventually(t, arrival, func() string {
			var data struct{ Result []json.RawMessage }
			if err := json.Unmarshal(ask(t, u, "query", url.Values{"query": {query}}), &data); err != nil || len(data.Result) == 0 {
				return fmt.Sprintf("%s gives nothing %v", query, err)
			}
			if w.sink.metric(name) == nil {
				return name + " was not pushed"
			}
			return ""
		})
	}
	for _, name := range []string{"mcp_via_llm_turn_duration_seconds_bucket", "gen_ai_client_operation_duration_seconds_bucket", "mcp_via_llm_tool_duration_seconds_bucket", "mcp_client_operation_duration_seconds_bucket"} {
		found := ask(t, u, "query_exemplars", url.Values{"query": {name}, "start": {"0"}, "end": {"4102444800"}})
		// A bucket keeps its latest exemplar, which may be the resume's.
		if !strings.Contains(string(found), firstTrace) && !strings.Contains(string(found), resumeTrace) {
			t.Errorf("%s has no exemplar of the turns' traces: %s", name, found)
		}
	}
	checkWithPromtool(t, w.Admin+"/metrics")
}

func checkWithPromtool(t *testing.T, u string) {
	t.Helper()
	check := exec.CommandContext(t.Context(), tools.Part("promtool"), "check", "metrics")
	check.Stdin = strings.NewReader(rig.Get(t, u))
	if out, err := check.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("promtool check metrics: %v\n%s", err, out)
	}
}

// TestLogs asserts that the line of a turn goes over OTLP too, in the turn's trace, and says nothing of what was said.
func TestLogs(t *testing.T) {
	w := start(t, setup{brain: mixedTurns()})
	close(w.shop.gate)
	w.post(t, request+"]}", browser(firstTrace, firstSpan))
	eventually(t, arrival, func() string {
		if w.sink.record(firstTrace, "turn") == nil {
			return "no log record of the turn in its trace"
		}
		return ""
	})
	if text := w.sink.record(firstTrace, "turn").String(); strings.Contains(text, "bread") || !strings.Contains(text, "client_tool_calls") {
		t.Errorf("the record is %s", text)
	}
	line := ""
	for l := range strings.Lines(w.Service.Log()) {
		if strings.Contains(l, `"msg":"turn"`) {
			line = l
		}
		if strings.Contains(l, "bread") || strings.Contains(l, "test-key") {
			t.Errorf("the log tells what was said: %s", l)
		}
	}
	if !strings.Contains(line, `"trace_id":"`+firstTrace+`"`) || !strings.Contains(line, `"span_id":"`) {
		t.Errorf("the turn's line does not name its trace: %s", line)
	}
}
