package telemetry_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/mcp-via-llm/mcp-via-llm/e2e/llm"
	"github.com/mcp-via-llm/mcp-via-llm/e2e/rig"
)

// TestPropagators asserts that the provider and the MCP server are told of the trace as OTEL_PROPAGATORS says, in the
// first segment, which Envoy sends, as in later ones, and are not told what the client sent in another form.
func TestPropagators(t *testing.T) {
	for names, want := range map[string]struct{ present, absent []string }{
		"none":         {nil, []string{"Traceparent", "Tracestate", "B3"}},
		"b3":           {[]string{"B3"}, []string{"Traceparent", "Tracestate"}},
		"tracecontext": {[]string{"Traceparent"}, []string{"B3"}},
	} {
		t.Run(names, func(t *testing.T) {
			t.Parallel()
			w := start(t, setup{dark: true, env: []string{"OTEL_PROPAGATORS=" + names},
				brain: llm.Sequence(llm.Calls(llm.Call("c1", "shop__look", `{"name":"bread"}`)), llm.Text("Hi."))})
			header := browser(firstTrace, firstSpan)
			header.Set("B3", firstTrace+"-"+firstSpan+"-1")
			w.post(t, request+"]}", header)
			requests := w.LLM.Requests()
			if len(requests) != 2 {
				t.Fatalf("%d requests", len(requests))
			}
			for i, r := range requests {
				for _, name := range want.present {
					if got := r.Header.Get(name); got == "" || strings.Contains(got, firstSpan) || !strings.Contains(got, firstTrace) {
						t.Errorf("segment %d has %s %q", i+1, name, got)
					}
				}
				for _, name := range want.absent {
					if got := r.Header.Get(name); got != "" {
						t.Errorf("segment %d has %s %q", i+1, name, got)
					}
				}
			}
			w.shop.mu.Lock()
			defer w.shop.mu.Unlock()
			told := w.shop.headers["look"] != "" || w.shop.meta["look"] != ""
			if told != (names == "tracecontext") {
				t.Errorf("the MCP server got traceparent %q and %q", w.shop.headers["look"], w.shop.meta["look"])
			}
		})
	}
}

// TestRefusals asserts that each answer of the provider that is no success counts as that, though Envoy ends the
// exchange as soon as the client has it all.
func TestRefusals(t *testing.T) {
	const times = 40
	refusal := llm.Raw(http.StatusTooManyRequests, http.Header{"Content-Type": {"application/json"}}, `{"error":{"message":"slow down"}}`)
	w := start(t, setup{brain: llm.Always(refusal)})
	for range times {
		response, err := http.DefaultClient.Do(w.request(t, request+"]}", browser(firstTrace, firstSpan)))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, response.Body); err != nil || response.StatusCode != http.StatusTooManyRequests {
			t.Errorf("%d %v", response.StatusCode, err)
		}
		response.Body.Close()
	}
	eventually(t, arrival, func() string {
		x := w.fetch(t, firstTrace)
		if x == nil || len(x.named("chat scripted-1")) < times {
			return "not all segments have spans"
		}
		for _, s := range x.named("chat scripted-1") {
			if s.tags["error.type"] != "429" || s.tags["http.response.status_code"] != "429" || s.tags["otel.status_code"] != "ERROR" {
				t.Errorf("%v", s.tags)
			}
		}
		return ""
	})
	for line := range strings.Lines(rig.Get(t, w.Admin+"/metrics")) {
		if strings.HasPrefix(line, "gen_ai_client_operation_duration_seconds_count{") && (!strings.Contains(line, `error_type="429"`) || !strings.HasSuffix(line, " 40\n")) {
			t.Error(line)
		}
	}
}
