package rig

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"github.com/mcp-via-llm/mcp-via-llm/envoy"
)

// Replica is one of the services behind the rig's Envoy.
type Replica struct {
	Admin      string // its admin URL
	ConfigFile string
	Process    *Process // the latest

	rig            *Rig
	name           string
	extProc, admin string // addresses
}

func (r *Rig) newReplica(number int, extProc, admin string) *Replica {
	p := &Replica{rig: r, name: "mcp-via-llm", Admin: "http://" + admin, extProc: extProc, admin: admin}
	file := "config.yaml"
	if number > 0 {
		p.name = fmt.Sprintf("mcp-via-llm-%d", number+1)
		file = fmt.Sprintf("config-%d.yaml", number+1)
	}
	p.ConfigFile = filepath.Join(r.options.Dir, file)
	return p
}

// Start starts the service, again if it was stopped, and waits until it is ready.
func (p *Replica) Start(ctx context.Context) error {
	if err := p.launch(); err != nil {
		return err
	}
	return p.ready(ctx)
}

func (p *Replica) launch() (err error) {
	p.Process, err = StartProcess(p.name, p.rig.options.Env, p.rig.options.Service, "serve", "--config", p.ConfigFile)
	return err
}

func (p *Replica) ready(ctx context.Context) error {
	return WaitReady(ctx, p.Process, p.Admin+"/readyz")
}

// write replaces the configuration file in one step, as editors and ConfigMaps do.
func (p *Replica) write(text string) error {
	temporary := p.ConfigFile + ".new"
	if err := os.WriteFile(temporary, []byte(text), 0o600); err != nil {
		return err
	}
	return os.Rename(temporary, p.ConfigFile)
}

// join adds the replica to the service's cluster, beside the first one.
func (p *Replica) join(bootstrap map[string]any) error {
	host, port, err := net.SplitHostPort(p.extProc)
	if err != nil {
		return err
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		return err
	}
	resources, _ := bootstrap["static_resources"].(map[string]any)
	clusters, _ := resources["clusters"].([]any)
	for _, c := range clusters {
		cluster, _ := c.(map[string]any)
		if cluster["name"] != envoy.ServiceCluster {
			continue
		}
		assignment, _ := cluster["load_assignment"].(map[string]any)
		localities, _ := assignment["endpoints"].([]any)
		if len(localities) != 1 {
			return fmt.Errorf("cluster %s has %d localities, want 1", envoy.ServiceCluster, len(localities))
		}
		locality, _ := localities[0].(map[string]any)
		endpoints, _ := locality["lb_endpoints"].([]any)
		locality["lb_endpoints"] = append(endpoints, map[string]any{"endpoint": map[string]any{
			"address": map[string]any{"socket_address": map[string]any{"address": host, "port_value": number}}}})
		return nil
	}
	return fmt.Errorf("the bootstrap has no cluster %s", envoy.ServiceCluster)
}
