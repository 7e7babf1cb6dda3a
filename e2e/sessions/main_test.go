// Package sessions_test tries hidden history, mixed turns and journals on real parts: two replicas of the built binary
// behind one Envoy, one Redis, and an MCP server that counts what it does.
package sessions_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mcp-via-llm/mcp-via-llm/e2e/rig"
	"github.com/mcp-via-llm/mcp-via-llm/sessions/redisrig"
)

var (
	tools   *rig.Tools
	service string // the built mcp-via-llm
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "mcp-via-llm-sessions-")
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
	service = filepath.Join(dir, "mcp-via-llm")
	build := exec.Command("go", append(append([]string{"build", "-o", service}, raceFlags...), "./cmd/mcp-via-llm")...)
	build.Dir = tools.Root()
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, out)
	}
	return rig.AdoptOrphans()
}

const (
	startLimit   = time.Minute      // generous, for busy cores
	requestLimit = 40 * time.Second // above the life of a lease, which a resume may have to wait for
)

// world is what runs in a test.
type world struct {
	*rig.Rig
	redis *redisrig.Server
	shop  *shop
	model *model

	conversations atomic.Int32
}

// setup is what a test wants of its world.
type setup struct {
	redis  []string // lines of Redis' configuration
	store  string   // more keys of the section store
	client string   // keys of the profile default
}

// start starts two replicas behind one Envoy, with Redis and the shop.
func start(t *testing.T, s setup) *world {
	t.Helper()
	w := &world{redis: redisrig.Start(t, s.redis...), shop: openShop(t), model: newModel(t)}
	if s.client == "" {
		s.client = "max_iterations: 10"
	}
	config := fmt.Sprintf("store: {redis: {url: %q}%s}\nservers: {shop: {url: %q, optional: false}}\nclients: {default: {%s}}\ndrain_timeout: 3s\n",
		w.redis.URL, s.store, w.shop.url, s.client)
	ctx, cancel := context.WithTimeout(t.Context(), startLimit)
	defer cancel()
	r, err := rig.Start(ctx, rig.Options{
		Service: service, Envoy: tools.Envoy(tools.DefaultEnvoy()), Version: tools.DefaultEnvoy(), Dir: t.TempDir(),
		Config: config, Replicas: 2, Brain: w.model.answer,
	})
	if err != nil {
		t.Fatal(err)
	}
	w.Rig = r
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Log(r.Logs())
		}
	})
	return w
}

// revive starts a replica that was stopped.
func (w *world) revive(t *testing.T, i int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startLimit)
	defer cancel()
	if err := w.Replicas[i].Start(ctx); err != nil {
		t.Error(err)
	}
}

// eventually polls until a condition holds.
func eventually(t *testing.T, limit time.Duration, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(limit); !condition(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("not within " + limit.String() + ": " + what)
		}
	}
}
