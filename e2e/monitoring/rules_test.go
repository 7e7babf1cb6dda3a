package monitoring_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// TestRules has promtool check the rules and run their unit tests, and asserts that no alert is without a test in which it
// fires, a test in which it does not, and a chapter in the runbook.
func TestRules(t *testing.T) {
	tests := filepath.Join("testdata", "rules_test.yaml")
	for _, arguments := range [][]string{{"check", "rules", "--lint-fatal", chart("rules.yaml")}, {"test", "rules", tests}} {
		if out, err := exec.CommandContext(t.Context(), tools.Part("promtool"), arguments...).CombinedOutput(); err != nil {
			t.Errorf("promtool %v: %v\n%s", arguments, err, out)
		}
	}
	var rules struct {
		Groups []struct {
			Rules []struct {
				Alert               string
				Labels, Annotations map[string]string
			}
		}
	}
	var cases struct {
		Tests []struct {
			AlertRuleTest []struct {
				Alertname string
				ExpAlerts []any `yaml:"exp_alerts"`
			} `yaml:"alert_rule_test"`
		}
	}
	parse(t, chart("rules.yaml"), &rules)
	parse(t, tests, &cases)
	fires, quiet := map[string]bool{}, map[string]bool{}
	for _, c := range cases.Tests {
		for _, a := range c.AlertRuleTest {
			if len(a.ExpAlerts) > 0 {
				fires[a.Alertname] = true
			} else {
				quiet[a.Alertname] = true
			}
		}
	}
	runbook, err := os.ReadFile(filepath.Join(tools.Root(), "docs", "runbook.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rules.Groups[0].Rules {
		_, anchor, _ := strings.Cut(r.Annotations["runbook_url"], "docs/runbook.md#")
		if !fires[r.Alert] || !quiet[r.Alert] || r.Labels["severity"] == "" || r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
			t.Errorf("%s: fires in a test: %v, does not: %v, %v %v", r.Alert, fires[r.Alert], quiet[r.Alert], r.Labels, r.Annotations)
		}
		if anchor != strings.ToLower(r.Alert) || !strings.Contains(string(runbook), "\n## "+r.Alert+"\n") {
			t.Errorf("%s has no chapter in the runbook: %s", r.Alert, r.Annotations["runbook_url"])
		}
	}
}

func parse(t *testing.T, file string, into any) {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(raw, into); err != nil {
		t.Fatal(err)
	}
}
