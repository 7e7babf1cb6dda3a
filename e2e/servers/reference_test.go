package servers

import (
	"strings"
	"testing"
	"time"

	"github.com/mcp-via-llm/mcp-via-llm/mcp"
)

// The reference server of the Go SDK does what it can in both eras: with sessions, as
// 2025-11-25 has them, and without, as 2026-07-28.
func TestReference(t *testing.T) {
	for _, row := range []struct{ name, mode, version string }{
		{"sessions", "-stateless=false", "2025-11-25"},
		{"stateless", "-stateless=true", "2026-07-28"},
		{"stdio", "", "2026-07-28"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			cfg := mcp.Server{Command: []string{reference}}
			if row.mode != "" {
				address := listen(t, func(string) []string { return nil }, func(address string) []string { return []string{reference, "-http", address, row.mode} })
				cfg = mcp.Server{URL: "http://" + address}
			}
			cfg.ToolTimeout, cfg.ToolTimeoutMax = 20*time.Second, patience
			host, b, _ := connect(t, cfg)
			if st := host.Status()[0]; st.ProtocolVersion != row.version {
				t.Errorf("%+v", st)
			}
			who := &user{
				sample: `{"role":"assistant","content":{"type":"text","text":"forty-two"},"model":"scripted"}`,
				elicit: `{"action":"accept","content":{"username":"ann","email":"ann@example.com","name":"Ann","response":"yes","confirmed":true,"ok":true,"step1":"a","step2":"b","color":"red"}}`,
			}
			moved := 0
			ctx := mcp.WithAsker(mcp.WithProgress(t.Context(), func(_, _, _ string, _, _ float64) { moved++ }), who)
			for _, call := range []struct{ tool, arguments, want string }{
				{"test_simple_text", "", "simple text"},
				{"test_image_content", "", "[image image/png"},
				{"test_audio_content", "", "[audio audio/wav"},
				{"test_embedded_resource", "", "[resource test://"},
				{"test_multiple_content_types", "", "[image image/png"},
				{"test_error_handling", "", "failed"},
				{"test_tool_with_progress", "", ""},
				{"test_tool_with_logging", "", ""},
				{"json_schema_2020_12_tool", `{"name":"x","phone":"1","email":"a@b.c"}`, ""},
			} {
				if res := b.Call(ctx, "box__"+call.tool, call.arguments); res.IsError != (call.tool == "test_error_handling") || !strings.Contains(res.Text, call.want) {
					t.Errorf("%s: %+v", call.tool, res)
				}
			}
			if moved < 3 {
				t.Errorf("told %d times of progress", moved)
			}
			asks := map[string]string{"test_sampling": `{"prompt":"p"}`, "test_elicitation": `{"message":"m"}`, "test_elicitation_sep1034_defaults": ""}
			if row.version > "2025-11-25" {
				asks = map[string]string{"test_input_required_result_elicitation": "", "test_input_required_result_sampling": "", "test_input_required_result_list_roots": "",
					"test_input_required_result_request_state": "", "test_input_required_result_multiple_inputs": "", "test_input_required_result_multi_round": ""}
			}
			for tool, arguments := range asks {
				before := len(who.asked)
				res := b.Call(ctx, "box__"+tool, arguments)
				if res.IsError || len(who.asked) == before && !strings.HasSuffix(tool, "list_roots") {
					t.Errorf("%s: %+v, asked %q", tool, res, who.asked[before:])
				}
				// With nobody to ask the call fails, and says why.
				if res := b.Call(t.Context(), "box__"+tool, arguments); row.version > "2025-11-25" && !strings.HasSuffix(tool, "list_roots") &&
					(!res.IsError || !strings.Contains(res.Text, "nobody can be asked")) {
					t.Errorf("%s, with nobody: %+v", tool, res)
				}
			}
		})
	}
}
