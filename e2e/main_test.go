// Package e2e tests the built binary with a real Envoy, real MCP servers and a scripted LLM.
package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mcp-via-llm/mcp-via-llm/e2e/llm"
	"github.com/mcp-via-llm/mcp-via-llm/e2e/rig"
)

// What the tests run, found or built once by TestMain.
var (
	tools     *rig.Tools
	service   string // the built mcp-via-llm
	addServer string // the built add server
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "mcp-via-llm-e2e-")
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

func setUp(dir string) error {
	var err error
	if tools, err = rig.FindTools(); err != nil {
		return err
	}
	install := exec.Command(filepath.Join(tools.Root(), "e2e", "tools.sh"), "test")
	install.Stdout, install.Stderr = os.Stderr, os.Stderr
	if err := install.Run(); err != nil {
		return fmt.Errorf("e2e/tools.sh: %w", err)
	}
	service, addServer = filepath.Join(dir, "mcp-via-llm"), filepath.Join(dir, "addserver")
	if err := goBuild(service, "./cmd/mcp-via-llm"); err != nil {
		return err
	}
	if err := goBuild(addServer, "./e2e/addserver"); err != nil {
		return err
	}
	return rig.AdoptOrphans()
}

func goBuild(output, pkg string) error {
	arguments := append([]string{"build", "-o", output}, raceFlags...)
	build := exec.Command("go", append(arguments, pkg)...)
	build.Dir = tools.Root()
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("go build %s: %w\n%s", pkg, err, out)
	}
	return nil
}

// variant is one Envoy with one configuration of the filter.
type variant struct{ version, mode string }

func (v variant) String() string { return v.version + "-" + v.mode }

// current are the two configurations of the filter on the Envoy of the demo.
func current() []variant {
	return []variant{{tools.DefaultEnvoy(), "override"}, {tools.DefaultEnvoy(), "static"}}
}

// all adds the older Envoys, which know the static one only.
func all() []variant {
	variants := current()
	for _, version := range tools.OlderEnvoys() {
		variants = append(variants, variant{version, "static"})
	}
	return variants
}

// on runs a test on each variant, in parallel.
func on(t *testing.T, variants []variant, test func(*testing.T, variant)) {
	for _, v := range variants {
		t.Run(v.String(), func(t *testing.T) {
			t.Parallel()
			test(t, v)
		})
	}
}

// setup is what a test wants beside a variant.
type setup struct {
	config   string
	brain    llm.Brain
	failOpen bool
	edit     func(bootstrap map[string]any) error
}

// startLimit is generous: node and python servers take ten times their usual start on busy cores.
const startLimit = time.Minute

// start starts a rig for the test and stops it at the test's end. Logs are shown only if the test failed.
func start(t *testing.T, v variant, s setup) *rig.Rig {
	t.Helper()
	if s.brain == nil {
		s.brain = llm.Sequence()
	}
	ctx, cancel := context.WithTimeout(t.Context(), startLimit)
	defer cancel()
	r, err := rig.Start(ctx, rig.Options{
		Service: service, Envoy: tools.Envoy(v.version), Version: v.version, Mode: v.mode, Dir: t.TempDir(),
		Config: s.config, Brain: s.brain, FailOpen: s.failOpen, Edit: s.edit,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		checkWire(t, r)
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Log(r.Logs())
		}
	})
	return r
}

// checkWire asserts what holds in every test: each body at the LLM is exactly one JSON value, and Envoy has refused
// nothing that the service asked for.
func checkWire(t *testing.T, r *rig.Rig) {
	t.Helper()
	for _, request := range r.LLM.Requests() {
		if request.Chat.Err != nil {
			t.Errorf("the LLM got a body that is not one JSON value: %v", request.Chat.Err)
		}
	}
	for line := range strings.Lines(get(t, r.EnvoyAdmin+"/stats?filter=ext_proc")) {
		name, count, _ := strings.Cut(strings.TrimSpace(line), ": ")
		refusal := strings.HasSuffix(name, "rejected_header_mutations") || strings.HasSuffix(name, "spurious_msgs_received")
		if refusal && count != "0" {
			t.Errorf("Envoy counts %s: %s", name, count)
		}
	}
}
