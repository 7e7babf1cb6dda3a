package main

import (
	"net/http"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

// TestCollectorAway asserts that a collector that cannot be reached costs a turn
// nothing, and the end of the service neither its exit code nor more than its time.
func TestCollectorAway(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
	t.Setenv("OTEL_METRIC_EXPORT_INTERVAL", "50")
	base, _ := provider(t, "calc__add", `{"a":5,"b":7}`)
	s := start(t, writeConfig(t, serveConfig(base, "")))
	if status, body := ask(t, s, "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"); status != 200 || gjson.Get(body, "choices.0.message.content").String() != "12" {
		t.Errorf("%d %s", status, body)
	}
	if line := s.wait(t, "turn"); line["trace_id"] != "0af7651916cd43dd8448eb211c80319c" {
		t.Errorf("the line of the turn is %v", line)
	}
	s.wait(t, "telemetry")
	if code := s.stop(t); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

func TestWrongTelemetryVariable(t *testing.T) {
	t.Setenv("OTEL_TRACES_EXPORTER", "zipkinn")
	base, _ := provider(t, "calc__add", "{}")
	code, _, stderr := command(t, "serve", "--config", writeConfig(t, serveConfig(base, "")))
	if code != exitFailed || !strings.Contains(stderr, "OTEL_TRACES_EXPORTER") {
		t.Errorf("%d %s", code, stderr)
	}
}

// TestWrongLimit asserts that a limit that is no number is told as all else is: a part
// of OpenTelemetry reads it before main does, and would write text.
func TestWrongLimit(t *testing.T) {
	t.Setenv("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "x")
	base, _ := provider(t, "calc__add", "{}")
	s := start(t, writeConfig(t, serveConfig(base, "")))
	if line := s.wait(t, "an environment variable is wrong"); line["variable"] != "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT" {
		t.Errorf("%v", line)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for line := range strings.Lines(s.raw.String()) {
		if !gjson.Valid(line) {
			t.Errorf("not JSON: %s", line)
		}
	}
}

// TestLinesOfARequest asserts that lines of a request name it and its trace, that of
// one that is refused, too.
func TestLinesOfARequest(t *testing.T) {
	base, _ := provider(t, "calc__add", `{"a":5,"b":7}`)
	s := start(t, writeConfig(t, serveConfig(base, "clients: {default: {constraints: [{tool: '*', rule: 'false', message: no}]}}\n")))
	const trace = "0af7651916cd43dd8448eb211c80319c"
	ask(t, s, "x-request-id: r-1", "traceparent: 00-"+trace+"-b7ad6b7169203331-01")
	if line := s.wait(t, "an mcp call was not made"); line["request_id"] != "r-1" || line["trace_id"] != trace {
		t.Errorf("%v", line)
	}
	request, err := http.NewRequest("POST", s.http+"/v1/chat/completions", strings.NewReader("{nope"))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("X-Request-Id", "r-2")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if line := s.wait(t, "a request is refused"); response.StatusCode != 400 || line["request_id"] != "r-2" || line["code"] != "invalid_body" {
		t.Errorf("%d %v", response.StatusCode, line)
	}
	if metrics := get(t, s.admin+"/metrics"); !strings.Contains(metrics, `mcp_via_llm_requests_refused_total{code="invalid_body"} 1`) {
		t.Error("the refused request is not counted")
	}
}

func TestExplainARequest(t *testing.T) {
	base, _ := provider(t, "calc__add", `{"a":5,"b":7}`)
	s := start(t, writeConfig(t, serveConfig(base, "clients: {default: {explain: true}}\n")))
	_, body := ask(t, s, "x-mcp-via-llm: explain")
	explain := gjson.Get(body, "extensions.mcp_via_llm.explain")
	if explain.Get(`injected.#(name=="calc__add").server`).String() != "calc" || explain.Get("injected_tokens").Int() <= 0 ||
		!explain.Get(`servers.#(name=="calc").up`).Bool() || explain.Get("segments.#").Int() != 2 || explain.Get("calls.0.outcome").String() != "ok" {
		t.Errorf("%s", body)
	}
	if _, body = ask(t, s); gjson.Get(body, "extensions.mcp_via_llm.explain").Exists() {
		t.Errorf("nobody asked: %s", body)
	}
}
