// Package servers holds the MCP host against real MCP servers, without Envoy and LLM.
package servers

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcp-via-llm/mcp-via-llm/e2e/rig"
	"github.com/mcp-via-llm/mcp-via-llm/mcp"
)

var (
	tools *rig.Tools
	// reference is the official Go SDK's server for conformance tests.
	reference string
)

func TestMain(m *testing.M) {
	os.Exit(rig.Main(m, &tools, rig.Program{Into: &reference, Package: "github.com/modelcontextprotocol/go-sdk/conformance/everything-server"}))
}

// patience bounds what a busy machine may take to start a server or run a call.
const patience = time.Minute

// listen starts a server that listens on a port, by the program's own name for it.
func listen(t *testing.T, env, arguments func(address string) []string) (address string) {
	t.Helper()
	addresses, err := rig.FreePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	address = addresses[0]
	command := arguments(address)
	p, err := rig.StartProcess("server", env(address), command[0], command[1:]...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			t.Log(p.Log())
		}
	})
	return address
}

// journal is a log that a test reads.
type journal struct {
	mu   sync.Mutex
	text strings.Builder
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

// connect starts a host with one server, which may do all that can be allowed.
func connect(t *testing.T, server mcp.Server) (*mcp.Host, *mcp.Binding, *journal) {
	t.Helper()
	log := &journal{}
	server.Name, server.ConnectTimeout = "box", patience
	server.Sampling, server.Elicitation, server.Roots = true, true, []string{"file:///data/project"}
	host := mcp.NewHost(mcp.Options{Servers: []mcp.Server{server}, Log: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	t.Cleanup(func() {
		if err := host.Close(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Log(log.String())
		}
	})
	eventually(t, "connected", func() bool { return host.Status()[0].State == "connected" })
	return host, bind(t, host), log
}

func bind(t *testing.T, host *mcp.Host) *mcp.Binding {
	return host.Toolset(t.Context(), mcp.Query{Servers: []string{"box"}}).Bind(nil)
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(2 * patience); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

// user answers what servers ask.
type user struct {
	mu     sync.Mutex
	asked  []string
	sample string
	elicit string
}

func (u *user) Sample(_ context.Context, _ string, params json.RawMessage) (json.RawMessage, error) {
	return u.take(u.sample, params), nil
}

func (u *user) Elicit(_ context.Context, _ string, params json.RawMessage) (json.RawMessage, error) {
	return u.take(u.elicit, params), nil
}

func (u *user) take(answer string, params json.RawMessage) json.RawMessage {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.asked = append(u.asked, string(params))
	return json.RawMessage(answer)
}
