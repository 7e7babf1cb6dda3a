// Package telemetry_test shows a turn's traces, metrics and logs on real parts: the built binary behind an Envoy that
// traces too, a Redis, MCP servers, an OpenTelemetry Collector, Jaeger and a Prometheus.
package telemetry_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mcp-via-llm/mcp-via-llm/e2e/rig"
)

var (
	tools     *rig.Tools
	service   string // the built mcp-via-llm
	addServer string // the built add server
)

const (
	startLimit = 2 * time.Minute // generous, for busy cores
	// arrival bounds how long telemetry takes to where it is looked for: Envoy sends its spans every 5 s.
	arrival = time.Minute
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "mcp-via-llm-telemetry-")
	if err != nil {
		return report(err)
	}
	defer os.RemoveAll(dir)
	if err := setUp(dir); err != nil {
		return report(err)
	}
	code := m.Run()
	if orphans := rig.Orphans(); len(orphans) > 0 {
		return report(fmt.Errorf("child processes are left running:\n%s", strings.Join(orphans, "\n")))
	}
	return code
}

func report(err error) int {
	fmt.Fprintln(os.Stderr, err)
	return 1
}

func setUp(dir string) (err error) {
	if tools, err = rig.FindTools(); err != nil {
		return err
	}
	install := exec.Command(filepath.Join(tools.Root(), "e2e", "tools.sh"), "test")
	install.Stdout, install.Stderr = os.Stderr, os.Stderr
	if err := install.Run(); err != nil {
		return fmt.Errorf("e2e/tools.sh: %w", err)
	}
	service, addServer = filepath.Join(dir, "mcp-via-llm"), filepath.Join(dir, "addserver")
	for output, pkg := range map[string]string{service: "./cmd/mcp-via-llm", addServer: "./e2e/addserver"} {
		build := exec.Command("go", append(append([]string{"build", "-o", output}, raceFlags...), pkg)...)
		build.Dir = tools.Root()
		if out, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("go build %s: %w\n%s", pkg, err, out)
		}
	}
	return rig.AdoptOrphans()
}

// eventually polls until a condition holds; why says what is amiss.
func eventually(t *testing.T, limit time.Duration, why func() string) {
	t.Helper()
	for deadline := time.Now().Add(limit); ; time.Sleep(100 * time.Millisecond) {
		amiss := why()
		if amiss == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", limit, amiss)
		}
	}
}
