package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

// TestConformance runs the client scenarios of the MCP conformance suite against the service, which is driven by chat
// completions (e2e/conformance), and compares every check with e2e/conformance/expected.yaml.
func TestConformance(t *testing.T) {
	harness := filepath.Join(t.TempDir(), "conformance")
	if err := tools.Build(harness, "./e2e/conformance"); err != nil {
		t.Fatal(err)
	}
	reasons, expected := expectedFailures(t)
	for _, revision := range []string{"2025-11-25", "2026-07-28"} {
		t.Run(revision, func(t *testing.T) {
			t.Parallel()
			got := runSuite(t, harness, revision)
			failures, total, passed, whole := map[string]string{}, 0, 0, 0
			for scenario, checks := range got {
				before := len(failures)
				for id, ok := range checks {
					total++
					if ok {
						passed++
						continue
					}
					failures[scenario+" "+id] = expected[revision][scenario][id]
				}
				if len(failures) == before {
					whole++
				}
			}
			t.Logf("%s: %d of %d checks passed, %d of %d scenarios whole", revision, passed, total, whole, len(got))
			for _, name := range slices.Sorted(maps.Keys(failures)) {
				if failures[name] == "" {
					t.Errorf("%s fails, and is not in expected.yaml", name)
				} else {
					t.Logf("%s fails as expected (%s): %s", name, failures[name], reasons[failures[name]])
				}
			}
			for scenario, checks := range expected[revision] {
				for id, reason := range checks {
					if _, fails := failures[scenario+" "+id]; !fails || reasons[reason] == "" {
						t.Errorf("%s %s is in expected.yaml, and passes or was not checked, or its reason %q is not explained", scenario, id, reason)
					}
				}
			}
		})
	}
}

// expectedFailures reads the reasons by their words, and the words by revision, scenario and check.
func expectedFailures(t *testing.T) (map[string]string, map[string]map[string]map[string]string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(tools.Root(), "e2e", "conformance", "expected.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Reasons  map[string]string
		Expected map[string]map[string]map[string]string `yaml:",inline"`
	}
	if err := yaml.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	return file.Reasons, file.Expected
}

var stamp = regexp.MustCompile(`-\d{4}-\d\d-\d\dT[\d-]+Z$`)

// runSuite gives whether each check of each scenario passed. One that the suite could not judge, or only remarks on, is
// left out.
func runSuite(t *testing.T, harness, revision string) map[string]map[string]bool {
	t.Helper()
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	node, suite := tools.Conformance()
	command := exec.CommandContext(ctx, node, filepath.Join(suite, "dist", "index.js"), "client", "--command", harness,
		"--requirements", revision, "--timeout", "300000", "--output-dir", dir)
	command.Env = append(os.Environ(), "MCP_VIA_LLM="+service)
	log, _ := command.CombinedOutput() // it exits with 1 on any failure
	results := map[string]map[string]bool{}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.Name() != "checks.json" {
			return err
		}
		name, err := filepath.Rel(dir, filepath.Dir(path))
		if err != nil {
			return err
		}
		results[stamp.ReplaceAllString(filepath.ToSlash(name), "")], err = readChecks(path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	missing := slices.DeleteFunc(required(t, suite, revision), func(name string) bool { return len(results[name]) > 0 })
	if len(missing) > 0 {
		t.Fatalf("nothing came of %v: %v; the suite printed:\n%s", missing, ctx.Err(), log)
	}
	// What the suite says of a scenario as a whole: it counts a client that ends in an error too.
	for scenario, checks := range results {
		whole := !slices.Contains(slices.Collect(maps.Values(checks)), false)
		if said := strings.Contains(string(log), fmt.Sprintf("\n✓ %s: ", scenario)); said != whole {
			t.Errorf("the suite says that %s passed: %v, its checks say: %v", scenario, said, whole)
		}
	}
	return results
}

func readChecks(path string) (map[string]bool, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var checks []struct{ ID, Status string }
	if err := json.Unmarshal(data, &checks); err != nil {
		return nil, err
	}
	all := map[string]bool{}
	for _, c := range checks {
		if c.Status == "SUCCESS" || c.Status == "FAILURE" {
			known, twice := all[c.ID]
			all[c.ID] = c.Status == "SUCCESS" && (known || !twice)
		}
	}
	return all, nil
}

// required are the client scenarios that the revision's list names, those that are not scored too.
func required(t *testing.T, suite, revision string) []string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(suite, "requirements", revision+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var list struct {
		Client    []string
		NotScored []struct{ Scenario, Leg string } `yaml:"not_scored"`
	}
	if err := yaml.Unmarshal(data, &list); err != nil || len(list.Client) == 0 {
		t.Fatalf("%v: no scenarios", err)
	}
	for _, s := range list.NotScored {
		if s.Leg == "client" {
			list.Client = append(list.Client, s.Scenario)
		}
	}
	return list.Client
}
