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

	Config   string // YAML of the service without listen and envoy: servers, clients, limits
	FailOpen bool   // requests go on while the service is down

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
	Service    *Process
	Envoy      *Process

	options Options
	ports   ports
}

type ports struct{ main, loop, egress, envoyAdmin, extProc, admin string }

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
	r := &Rig{options: o, ConfigFile: filepath.Join(o.Dir, "config.yaml")}
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
	if err := r.launchService(); err != nil {
		return nil, err
	}
	if err := r.startEnvoy(ctx); err != nil {
		return nil, err
	}
	// Last: the service is ready when its MCP servers are, and it reaches those of HTTP through Envoy.
	return r, r.serviceReady(ctx)
}

func (r *Rig) choosePorts() error {
	free, err := FreePorts(6)
	if err != nil {
		return err
	}
	r.ports = ports{free[0], free[1], free[2], free[3], free[4], free[5]}
	if r.options.Main != "" {
		r.ports.main = r.options.Main
	}
	r.URL = "http://" + r.ports.main
	r.EnvoyAdmin = "http://" + r.ports.envoyAdmin
	r.Admin = "http://" + r.ports.admin
	return nil
}

// WriteConfig writes the service's configuration file: this YAML, with the rig's addresses and the LLM's added.
func (r *Rig) WriteConfig(config string) error {
	var all map[string]any
	if err := yaml.Unmarshal([]byte(config), &all); err != nil {
		return fmt.Errorf("the rig's configuration: %w", err)
	}
	if all == nil {
		all = map[string]any{}
	}
	all["listen"] = map[string]any{"ext_proc": r.ports.extProc, "admin": r.ports.admin}
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
	data, err := yaml.Marshal(all)
	if err != nil {
		return err
	}
	return r.WriteRaw(string(data))
}

// WriteRaw puts exactly this text into the configuration file, in one step as editors and ConfigMaps do.
func (r *Rig) WriteRaw(text string) error {
	temporary := r.ConfigFile + ".new"
	if err := os.WriteFile(temporary, []byte(text), 0o600); err != nil {
		return err
	}
	return os.Rename(temporary, r.ConfigFile)
}

// StartService starts the service, again if it was stopped, and waits until it is ready.
func (r *Rig) StartService(ctx context.Context) error {
	if err := r.launchService(); err != nil {
		return err
	}
	return r.serviceReady(ctx)
}

func (r *Rig) launchService() (err error) {
	r.Service, err = StartProcess("mcp-via-llm", nil, r.options.Service, "serve", "--config", r.ConfigFile)
	return err
}

func (r *Rig) serviceReady(ctx context.Context) error {
	return waitReady(ctx, r.Service, r.Admin+"/readyz")
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
	return waitReady(ctx, r.Envoy, r.EnvoyAdmin+"/ready")
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
	if r.options.Edit == nil {
		return out, nil
	}
	var parsed map[string]any
	if err := yaml.Unmarshal(out, &parsed); err != nil {
		return nil, fmt.Errorf("envoy-config printed no YAML: %w", err)
	}
	if err := r.options.Edit(parsed); err != nil {
		return nil, err
	}
	return yaml.Marshal(parsed)
}

const grace = 5 * time.Second

// Close stops everything. It reports a process that did not end in time and one that left another running.
func (r *Rig) Close() error {
	var failed []error
	if r.Envoy != nil {
		failed = append(failed, r.Envoy.Stop(grace))
	}
	if r.Service != nil {
		failed = append(failed, r.Service.Stop(grace))
	}
	if r.LLM != nil {
		failed = append(failed, r.LLM.Close())
	}
	return errors.Join(failed...)
}

// Logs is what the processes printed, for showing after a failure.
func (r *Rig) Logs() string {
	var out string
	for _, p := range []*Process{r.Service, r.Envoy} {
		if p != nil {
			out += fmt.Sprintf("--- %s printed:\n%s\n", p.Name, p.Log())
		}
	}
	return out
}
