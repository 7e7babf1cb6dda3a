package monitoring_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/mcp-via-llm/mcp-via-llm/e2e/llm"
	"github.com/mcp-via-llm/mcp-via-llm/e2e/rig"
)

// TestEnvoyKnowsWhoLeft asserts what the runbook says of cancelled turns: a provider that breaks off its answer to the first
// segment looks to the service like a client that leaves, and Envoy's metrics tell them apart.
func TestEnvoyKnowsWhoLeft(t *testing.T) {
	const provider, client = `envoy_cluster_upstream_(rq_rx_reset|cx_destroy_remote_with_active_rq)`, `envoy_http_downstream_(rq_rx_reset|cx_destroy_remote_active_rq)`
	const begun = "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"Hel\"},\"finish_reason\":null}]}\n\n"
	for name, row := range map[string]struct {
		brain      llm.Step
		leaves     bool
		rises, not string
	}{
		"the provider": {llm.Cut(llm.Chunk{Bytes: begun}), false, provider, "none"}, // the client may hang up before Envoy does
		"the client":   {llm.Hang(llm.Chunk{Bytes: begun}), true, client, provider},
	} {
		t.Run(name, func(t *testing.T) {
			w := start(t, docsOnly)
			w.LLM.Use(llm.Always(row.brain))
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			request, err := http.NewRequestWithContext(ctx, http.MethodPost, w.URL+"/v1/chat/completions", strings.NewReader(`{"model":"gpt-x","stream":true,"messages":[{"role":"user","content":"hi"}]}`))
			if err != nil {
				t.Fatal(err)
			}
			request.Header.Set("Content-Type", "application/json")
			if response, err := w.http.Do(request); err == nil {
				response.Body.Read(make([]byte, 1)) //nolint:errcheck // as far as it comes
				if row.leaves {
					leave()
				}
				io.Copy(io.Discard, response.Body) //nolint:errcheck // it breaks off
				response.Body.Close()
			}
			eventually(t, "the end of the turn", func() string {
				metrics := w.page(t, "/metrics")
				for _, want := range []string{`mcp_via_llm_turns_total{client="default",stop_reason="cancelled"} 1`, `mcp_via_llm_extproc_events_total{event="exchange",outcome="client_gone"} 1`} {
					if !strings.Contains(metrics, want) {
						return "no " + want
					}
				}
				return ""
			})
			eventually(t, "Envoy's metrics", func() string {
				if rises, not := w.envoySeries(t, row.rises), w.envoySeries(t, row.not); len(rises) == 0 || len(not) > 0 {
					return fmt.Sprintf("of %s these have risen: %q, and of %s these: %q", row.rises, rises, row.not, not)
				}
				return ""
			})
		})
	}
}

// envoySeries gives the series of Envoy's whose names match and that are not 0.
func (w *world) envoySeries(t *testing.T, names string) (risen []string) {
	t.Helper()
	text := rig.Get(t, w.EnvoyAdmin+"/stats/prometheus")
	for _, found := range regexp.MustCompile(`(?m)^`+names+`\{[^}]*\} [1-9]\d*$`).FindAllString(text, -1) {
		// Not of the way to the service, nor of Envoy's own pages, whose readers may lose patience.
		if !strings.Contains(found, "ext_proc") && !strings.Contains(found, `prefix="admin"`) {
			risen = append(risen, found)
		}
	}
	return risen
}
