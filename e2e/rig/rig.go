// Package rig starts the whole for a test or the demo: a scripted LLM, the built service and a real Envoy with the
// bootstrap that the service prints for its own configuration. All listen on free ports of 127.0.0.1.
package rig

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/mcp-via-llm/mcp-via-llm/e2e/llm"
)

// Options say what to start.
type Options struct {
	Service string // the built service's path
	Envoy   string // the Envoy binary's path
	Version string // the Envoy's version, as the configuration wants it
	Mode    string // override or static; empty: what suits the version
	Dir     string // where the configuration files go; the caller removes it

	Config   string   // YAML of the service without listen and envoy: servers, clients, limits
	Replicas int      // services behind the one Envoy, taken in turn; less than 2: one
	Env      []string // of the services, beside the test's own
	FailOpen bool     // requests go on while the service is down

	Brain   llm.Brain // the scripted LLM; nil if BaseURL is set
	BaseURL string    // another LLM's base URL

	// CA is the bundle by which Envoy verifies https upstreams; empty: the configuration's or the default.
	CA string
	// Main is the address that clients call; empty: any free port.
	Main string
	// Edit changes Envoy's bootstrap before it is used. May be nil.
	Edit func(bootstrap map[string]any) error
}

// Rig is what runs.
type Rig struct {
	URL        string // what clients call, without a path
	Admin      string // the service's admin URL
	EnvoyAdmin string // Envoy's admin URL
	ConfigFile string
	LLM        *llm.Server // nil where Options.BaseURL is set
	Service    *Process    // of the first replica
	Replicas   []*Replica  // all services
	Envoy      *Process

	options Options
	ports   ports
}

type ports struct{ main, loop, egress, envoyAdmin string }

// Start starts everything and returns when it is ready. On an error nothing is left running.
func Start(ctx context.Context, o Options) (*Rig, error) {
	const tries = 3
	for n := 1; ; n++ {
		r, err := startOnce(ctx, o)
		// Another program may take a port between the choice and its use.
		if err == nil || n == tries || !strings.Contains(strings.ToLower(err.Error()), "address already in use") {
			return r, err
		}
	}
}

func startOnce(ctx context.Context, o Options) (_ *Rig, err error) {
	r := &Rig{options: o}
	defer func() {
		if err != nil {
			r.Close()
		}
	}()
	if o.BaseURL == "" {
		if r.LLM, err = llm.Start("127.0.0.1:0", o.Brain); err != nil {
			return nil, err
		}
		r.options.BaseURL = "http://" + r.LLM.Address() + "/v1"
	}
	if err := r.choosePorts(); err != nil {
		return nil, err
	}
	if err := r.WriteConfig(o.Config); err != nil {
		return nil, err
	}
	for _, replica := range r.Replicas {
		if err := replica.launch(); err != nil {
			return nil, err
		}
	}
	r.Service = r.Replicas[0].Process
	if err := r.startEnvoy(ctx); err != nil {
		return nil, err
	}
	// Last: the service is ready when its MCP servers are, and it reaches those of HTTP through Envoy.
	for _, replica := range r.Replicas {
		if err := replica.ready(ctx); err != nil {
			return nil, err
		}
	}
	return r, nil
}

func (r *Rig) choosePorts() error {
	const shared = 4 // all others are the replicas', two each
	replicas := max(1, r.options.Replicas)
	free, err := FreePorts(shared + 2*replicas)
	if err != nil {
		return err
	}
	r.ports = ports{free[0], free[1], free[2], free[3]}
	if r.options.Main != "" {
		r.ports.main = r.options.Main
	}
	r.URL = "http://" + r.ports.main
	r.EnvoyAdmin = "http://" + r.ports.envoyAdmin
	for i := range replicas {
		r.Replicas = append(r.Replicas, r.newReplica(i, free[shared+2*i], free[shared+2*i+1]))
	}
	r.Admin, r.ConfigFile = r.Replicas[0].Admin, r.Replicas[0].ConfigFile
	return nil
}

// WriteConfig writes each replica's configuration file: this YAML, with the rig's addresses and the LLM's added.
func (r *Rig) WriteConfig(config string) error {
	var all map[string]any
	if err := yaml.Unmarshal([]byte(config), &all); err != nil {
		return fmt.Errorf("the rig's configuration: %w", err)
	}
	if all == nil {
		all = map[string]any{}
	}
	all["llm"] = map[string]any{"loop_url": "http://" + r.ports.loop, "base_url": r.options.BaseURL}
	envoy, _ := all["envoy"].(map[string]any) // absent: nil
	if envoy == nil {
		envoy = map[string]any{}
	}
	envoy["main"], envoy["mcp_egress"], envoy["admin"] = r.ports.main, r.ports.egress, r.ports.envoyAdmin
	envoy["version"] = r.options.Version
	if r.options.Mode != "" {
		envoy["mode"] = r.options.Mode
	}
	if r.options.CA != "" && envoy["ca"] == nil {
		envoy["ca"] = r.options.CA
	}
	if r.options.FailOpen {
		envoy["failure_mode_allow"] = true
	}
	all["envoy"] = envoy
	for _, replica := range r.Replicas {
		all["listen"] = map[string]any{"ext_proc": replica.extProc, "admin": replica.admin}
		data, err := yaml.Marshal(all)
		if err != nil {
			return err
		}
		if err := replica.write(string(data)); err != nil {
			return err
		}
	}
	return nil
}

// WriteRaw puts exactly this text into the first replica's configuration file.
func (r *Rig) WriteRaw(text string) error { return r.Replicas[0].write(text) }

// StartService starts the first replica's service, again if it was stopped, and waits until it is ready.
func (r *Rig) StartService(ctx context.Context) error {
	err := r.Replicas[0].Start(ctx)
	r.Service = r.Replicas[0].Process
	return err
}

func (r *Rig) startEnvoy(ctx context.Context) error {
	bootstrap, err := r.bootstrap(ctx)
	if err != nil {
		return err
	}
	file := filepath.Join(r.options.Dir, "envoy.yaml")
	if err := os.WriteFile(file, bootstrap, 0o600); err != nil {
		return err
	}
	r.Envoy, err = StartProcess("envoy", nil, r.options.Envoy,
		"--config-path", file, "--concurrency", "1", "--disable-hot-restart", "--log-level", "warning")
	if err != nil {
		return err
	}
	return WaitReady(ctx, r.Envoy, r.EnvoyAdmin+"/ready")
}

func (r *Rig) bootstrap(ctx context.Context) ([]byte, error) {
	command := exec.CommandContext(ctx, r.options.Service, "envoy-config", "--config", r.ConfigFile)
	out, err := command.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			return nil, fmt.Errorf("envoy-config: %w: %s", err, exit.Stderr)
		}
		return nil, fmt.Errorf("envoy-config: %w", err)
	}
	var parsed map[string]any
	if err := yaml.Unmarshal(out, &parsed); err != nil {
		return nil, fmt.Errorf("envoy-config printed no YAML: %w", err)
	}
	exclusive(parsed)
	for _, replica := range r.Replicas[1:] {
		if err := replica.join(parsed); err != nil {
			return nil, err
		}
	}
	if r.options.Edit != nil {
		if err := r.options.Edit(parsed); err != nil {
			return nil, err
		}
	}
	return yaml.Marshal(parsed)
}

// exclusive makes Envoy refuse a port that another program listens on. By default it shares ports, and two rigs that
// chose the same one would answer for each other.
func exclusive(bootstrap map[string]any) {
	resources, _ := bootstrap["static_resources"].(map[string]any)
	listeners, _ := resources["listeners"].([]any)
	for _, listener := range listeners {
		if l, ok := listener.(map[string]any); ok {
			l["enable_reuse_port"] = false
		}
	}
}

const grace = 5 * time.Second

// Close stops everything. It reports a process that did not end in time and one that left another running.
func (r *Rig) Close() error {
	var failed []error
	if r.Envoy != nil {
		failed = append(failed, r.Envoy.Stop(grace))
	}
	for _, replica := range r.Replicas {
		if replica.Process != nil {
			failed = append(failed, replica.Process.Stop(grace))
		}
	}
	if r.LLM != nil {
		failed = append(failed, r.LLM.Close())
	}
	return errors.Join(failed...)
}

// Logs is what the processes printed, for showing after a failure.
func (r *Rig) Logs() string {
	var out string
	processes := []*Process{r.Envoy}
	for _, replica := range r.Replicas {
		processes = append(processes, replica.Process)
	}
	for _, p := range processes {
		if p != nil {
			out += fmt.Sprintf("--- %s printed:\n%s\n", p.Name, p.Log())
		}
	}
	return out
}
