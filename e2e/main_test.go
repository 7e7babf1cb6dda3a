// Package e2e tests the built binary with a real Envoy, real MCP servers and a scripted LLM.
package e2e

import (
	"os"
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

func TestMain(m *testing.M) {
	os.Exit(rig.Main(m, &tools, rig.Program{Into: &service, Package: "./cmd/mcp-via-llm"}, rig.Program{Into: &addServer, Package: "./e2e/addserver"}))
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
	r := rig.ForTest(t, rig.Options{
		Service: service, Envoy: tools.Envoy(v.version), Version: v.version, Mode: v.mode,
		Config: s.config, Brain: s.brain, FailOpen: s.failOpen, Edit: s.edit,
	})
	t.Cleanup(func() { checkWire(t, r) })
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
	for line := range strings.Lines(rig.Get(t, r.EnvoyAdmin+"/stats?filter=ext_proc")) {
		name, count, _ := strings.Cut(strings.TrimSpace(line), ": ")
		refusal := strings.HasSuffix(name, "rejected_header_mutations") || strings.HasSuffix(name, "spurious_msgs_received")
		if refusal && count != "0" {
			t.Errorf("Envoy counts %s: %s", name, count)
		}
	}
}
