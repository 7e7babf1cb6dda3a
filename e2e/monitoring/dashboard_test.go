package monitoring_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcp-via-llm/mcp-via-llm/e2e/llm"
	"github.com/mcp-via-llm/mcp-via-llm/sessions/redisrig"
)

// dashboard is the part of a Grafana dashboard that this test reads.
type dashboard struct {
	Templating struct {
		List []struct{ Name, Type, Query string }
	}
	Panels []struct {
		Type, Title string
		ID          int
		GridPos     struct{ H, W, X, Y int }
		Targets     []struct{ Expr string }
	}
}

func readDashboard(t *testing.T) (d dashboard) {
	t.Helper()
	raw, err := os.ReadFile(chart("dashboard.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// TestDashboardAndAlertsSeeARun has turns of every kind run on two services, one with the embedded store and one with Redis,
// and asks a real Prometheus everything that the dashboard asks: each query must have numbers. It also evaluates the alerts.
func TestDashboardAndAlertsSeeARun(t *testing.T) {
	store := redisrig.Start(t)
	config := docsOnly + fmt.Sprintf("audit: {file: %q}\n", filepath.Join(t.TempDir(), "audit.jsonl"))
	embedded := start(t, config)
	redis := start(t, fmt.Sprintf("store: {redis: {url: %q}}\nservers: {docs: {url: DOCS, optional: false}}\nclients: {default: {max_tools: 2}}\n", store.URL))
	p := startPrometheus(t, embedded, redis)

	for round := range 2 { // a rate needs what was there before
		embedded.everything(t, config, round)
		redis.LLM.Use(llm.Always(llm.Text("Hello.")))
		redis.ask(t, `{"model":"gpt-x","messages":[{"role":"user","content":"hi"}]}`)
		if round == 0 {
			store.Kill()
		}
		redis.ask(t, `{"model":"gpt-x","messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"Hello."},{"role":"user","content":"again"}]}`)
		eventually(t, "a scrape of the round", func() string {
			for query, want := range map[string]int{
				`sum(mcp_via_llm_turns_total{pod="embedded",stop_reason!="error"})`:                         3 * (round + 1),
				`sum(mcp_via_llm_config_reloads_total{pod="embedded"})`:                                     2 * (round + 1),
				`sum(mcp_via_llm_store_duration_seconds_count{pod="redis",outcome="unavailable"}) > bool 0`: 1,
				`sum(mcp_via_llm_audit_records_total{pod="embedded",outcome="written"})`:                    13 * (round + 1),
				`sum(mcp_via_llm_turns_total{pod="embedded",stop_reason="error"})`:                          round + 1,
			} {
				if got, _ := p.numbers(t, query); len(got) != 1 || got[0] != fmt.Sprint(want) {
					return fmt.Sprintf("%s is %v, want %d", query, got, want)
				}
			}
			return ""
		})
	}

	d := readDashboard(t)
	asked := 0
	for _, panel := range d.Panels {
		for _, target := range panel.Targets {
			asked++
			query := inserted(target.Expr)
			eventually(t, fmt.Sprintf("panel %q", panel.Title), func() string {
				values, odd := p.numbers(t, query)
				if len(values) == 0 {
					return fmt.Sprintf("%s gives %v", query, odd)
				}
				return ""
			})
		}
	}
	if asked < 40 {
		t.Errorf("the dashboard has only %d queries", asked)
	}
	for _, v := range d.Templating.List {
		if match, ok := strings.CutPrefix(v.Query, "label_values("); ok && p.series(t, strings.Split(match, ",")[0]) == 0 {
			t.Errorf("variable %s has nothing to choose from: %s", v.Name, v.Query)
		}
	}
	alertsWork(t, p)
}

// inserted puts into a query what Grafana would put there.
func inserted(query string) string {
	return strings.NewReplacer("$__rate_interval", "2m", "$__range", "2m", "$job", ".*", "$client", ".*").Replace(query)
}

// alertsWork asserts that Prometheus evaluates every rule without an error, that each asks for series that exist, and that
// what is wrong in this run is seen.
func alertsWork(t *testing.T, p prometheus) {
	t.Helper()
	type rule struct {
		Name, Query, Health, LastError, State string
	}
	var rules []rule
	eventually(t, "the rules", func() string {
		var data struct{ Groups []struct{ Rules []rule } }
		p.get(t, &data, "rules", url.Values{"type": {"alert"}})
		if rules = nil; len(data.Groups) != 1 {
			return fmt.Sprintf("%d groups", len(data.Groups))
		}
		rules = data.Groups[0].Rules
		states := map[string]string{}
		for _, r := range rules {
			if r.Health != "ok" {
				return r.Name + ": " + r.Health + " " + r.LastError
			}
			states[r.Name] = r.State
		}
		for name, want := range map[string]string{
			"McpViaLlmConfigurationRefused": "firing", // at once
			"McpViaLlmServerAway":           "pending", "McpViaLlmStoreFails": "pending", "McpViaLlmToolCallsFail": "pending",
			"McpViaLlmToolsLeftOut": "pending", "McpViaLlmModelFails": "pending",
			"McpViaLlmAbsent": "inactive", "McpViaLlmTurnsCancelled": "inactive", "McpViaLlmAuditLost": "inactive", "McpViaLlmEnvoyDisagrees": "inactive", "McpViaLlmCatalogOld": "inactive",
		} {
			if states[name] != want {
				return fmt.Sprintf("%s is %s, want %s", name, states[name], want)
			}
		}
		return ""
	})
	for _, r := range rules {
		for _, metric := range regexp.MustCompile(`\b(mcp_via_llm|gen_ai|mcp_client)_\w+`).FindAllString(r.Query, -1) {
			if strings.HasPrefix(metric, "gen_ai_request") { // a label
				continue
			}
			if p.series(t, metric) == 0 {
				t.Errorf("%s asks for %s, which there is not", r.Name, metric)
			}
		}
	}
}

// everything runs turns of every kind: an answer after calls, most of which fail; a mixed turn and its resume; an answer of
// the provider that is an error; and has the configuration changed twice, once to what is refused.
func (w *world) everything(t *testing.T, config string, round int) {
	t.Helper()
	gate := fmt.Sprintf("call-%d", round)
	calls := llm.Answer{Text: "Let me look.", Calls: []llm.ToolCall{llm.Call("c1", "docs__find", `{"query":"x"}`), llm.Call("c2", "docs__write", `{"query":"y"}`)}, Prompt: 1200, Output: 40, Cached: 1000, Pace: 20 * time.Millisecond}
	for i := range 10 { // too few calls raise no alert
		calls.Calls = append(calls.Calls, llm.Call(fmt.Sprintf("m%d", i), "docs__write", `{"query":"z"}`))
	}
	w.LLM.Use(llm.Sequence(
		calls.Step(), llm.Answer{Text: "Here it is.", Prompt: 1500, Output: 20, Cached: 1200}.Step(),
		llm.Calls(llm.Call("c3", "docs__index", fmt.Sprintf(`{"gate":%q}`, gate)), llm.Call("c2", "book_table", `{}`)),
		llm.Text("All is done."),
		llm.Raw(http.StatusServiceUnavailable, nil, `{"error":{"message":"overloaded"}}`),
	))
	statuses := []int{w.ask(t, `{"model":"gpt-x","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"hi"}]}`)}
	statuses = append(statuses, w.ask(t, mixed+`]}`))
	close(w.gate(gate))
	statuses = append(statuses, w.ask(t, mixed+resume+`]}`),
		w.ask(t, `{"model":"gpt-x","messages":[{"role":"user","content":"and now"}]}`))
	if !slices.Equal(statuses, []int{200, 200, 200, 503}) {
		t.Fatalf("statuses %v", statuses)
	}
	if err := w.WriteRaw("servers: ["); err != nil {
		t.Fatal(err)
	}
	w.reloaded(t, "refused", round+1)
	changed := strings.NewReplacer("DOCS", w.docs, "max_parallel_calls: 2", fmt.Sprintf("max_parallel_calls: %d", 3+round)).Replace(config)
	if err := w.WriteConfig(changed); err != nil {
		t.Fatal(err)
	}
	w.reloaded(t, "applied", round+1)
}

// reloaded waits for a change of the configuration.
func (w *world) reloaded(t *testing.T, outcome string, times int) {
	t.Helper()
	want := fmt.Sprintf("mcp_via_llm_config_reloads_total{outcome=%q} %d\n", outcome, times)
	eventually(t, "the new configuration", func() string {
		if text := w.page(t, "/metrics"); !strings.Contains(text, want) {
			return "no " + want
		}
		return ""
	})
}

// TestDashboardIsWhole asserts what Grafana would trip over: ids that are there twice, panels that overlap.
func TestDashboardIsWhole(t *testing.T) {
	ids, taken := map[int]bool{}, map[[2]int]string{}
	for _, p := range readDashboard(t).Panels {
		if ids[p.ID] || p.Title == "" || p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("panel %d %q", p.ID, p.Title)
		}
		ids[p.ID] = true
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" || x >= 24 {
					t.Fatalf("%q overlaps %q", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
	}
}
