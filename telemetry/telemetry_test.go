package telemetry

import (
	"bytes"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func scrape(m *Metrics) string {
	recorder := httptest.NewRecorder()
	m.Handler().ServeHTTP(recorder, httptest.NewRequest("GET", "/metrics", nil))
	return recorder.Body.String()
}

func TestMetricsByName(t *testing.T) {
	m, err := NewMetrics()
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Servers(func() map[string]bool { return map[string]bool{"files": true, "web": false} }); err != nil {
		t.Fatal(err)
	}
	m.Turn("default", "answer", 2*time.Second, 3)
	m.ToolCall("files", "read", "ok", time.Millisecond)
	m.ToolCall("", "made_up_by_the_model", "unknown_tool", 0)
	m.Reload(ReloadRefused)
	m.ExtProc("exchange", "answered")
	m.Session("hit")
	m.Audit("written", 2)
	m.Omitted("default", 37)
	m.Store("load", time.Millisecond, true)
	got := scrape(m)
	for _, want := range []string{
		`mcp_via_llm_turns_total{client="default",stop_reason="answer"} 1`,
		`mcp_via_llm_turn_duration_seconds_sum{client="default",stop_reason="answer"} 2`,
		`mcp_via_llm_segments_total{client="default"} 3`,
		`mcp_via_llm_tool_calls_total{outcome="ok",server="files",tool="read"} 1`,
		`mcp_via_llm_tool_calls_total{outcome="unknown_tool",server="",tool=""} 1`,
		`mcp_via_llm_config_reloads_total{outcome="refused"} 1`,
		`mcp_via_llm_extproc_events_total{event="exchange",outcome="answered"} 1`,
		`mcp_via_llm_server_connected{server="files"} 1`,
		`mcp_via_llm_server_connected{server="web"} 0`,
		`mcp_via_llm_audit_records_total{outcome="written"} 2`,
		`mcp_via_llm_session_events_total{event="hit"} 1`,
		`mcp_via_llm_tools_omitted{client="default"} 37`,
		`mcp_via_llm_store_duration_seconds_count{operation="load",outcome="error"} 1`,
		`go_goroutines `,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in\n%s", want, got)
		}
	}
	if err := m.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestLogFormats(t *testing.T) {
	for _, row := range []struct{ level, format, want string }{
		{"info", "auto", `"msg":"shown"`}, // a buffer is no terminal
		{"info", "json", `"msg":"shown"`},
		{"info", "text", `msg=shown`},
	} {
		var b bytes.Buffer
		log := NewLog(&b, row.level, row.format)
		log.Info("shown")
		log.Debug("hidden")
		if !strings.Contains(b.String(), row.want) || strings.Contains(b.String(), "hidden") {
			t.Errorf("%v: %s", row, &b)
		}
	}
}
