// Package sessions_test tries hidden history, mixed turns and journals on real parts: two replicas of the built binary
// behind one Envoy, one Redis, and an MCP server that counts what it does.
package sessions_test

import (
	"context"
	"fmt"
	"os"
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

func TestMain(m *testing.M) {
	os.Exit(rig.Main(m, &tools, rig.Program{Into: &service, Package: "./cmd/mcp-via-llm"}))
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
	w.Rig = rig.ForTest(t, rig.Options{
		Service: service, Envoy: tools.Envoy(tools.DefaultEnvoy()), Version: tools.DefaultEnvoy(),
		Config: config, Replicas: 2, Brain: w.model.answer,
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
