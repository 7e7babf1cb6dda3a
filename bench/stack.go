package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/mcp-via-llm/mcp-via-llm/e2e/rig"
)

// stack is everything that a measurement needs, each in a process of its own. One Envoy serves all ways to the LLM, so
// that what is compared differs in nothing else.
type stack struct {
	direct  string // the scripted LLM
	plain   string // Envoy, no filter
	copied  string // Envoy, the copying processor
	held    string // Envoy, the one that copies whole messages
	service string // Envoy, this service
	mcp     string // the MCP server's endpoint
	redis   string // the URL of Redis; "" without
	tools   int    // in the catalog
	filled  int    // conversations that were put there

	rig       *rig.Rig
	processes []*rig.Process
	dir       string
}

// stackOptions say what differs between stacks.
type stackOptions struct {
	Tools    int // in the catalog
	Redis    bool
	Replicas int
	Mode     string // of the service's filter; empty: static, as the copying one's
}

const keyPrefix = "bench:"

const startTime = 30 * time.Second

func startStack(tools *rig.Tools, o stackOptions) (_ *stack, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), startTime)
	defer cancel()
	s := &stack{tools: o.Tools}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	if s.dir, err = os.MkdirTemp("", "bench"); err != nil {
		return nil, err
	}
	free, err := rig.FreePorts(7)
	if err != nil {
		return nil, err
	}
	llm, mcp, redis := free[0], free[1], free[2]
	if err := s.self("llm", "--listen", llm); err != nil {
		return nil, err
	}
	if err := s.self("mcp", "--listen", mcp, "--tools", fmt.Sprint(o.Tools)); err != nil {
		return nil, err
	}
	if err := s.self("copy", "--listen", free[3]); err != nil {
		return nil, err
	}
	if err := s.self("copy", "--listen", free[4], "--hold"); err != nil {
		return nil, err
	}
	store := ""
	if o.Redis {
		_, port, _ := strings.Cut(redis, ":")
		p, err := rig.StartProcess("redis", nil, "redis-server", "--port", port, "--save", "", "--appendonly", "no", "--dir", s.dir)
		if err != nil {
			return nil, err
		}
		s.processes = append(s.processes, p)
		s.redis = fmt.Sprintf("redis://%s/0", redis)
		store = fmt.Sprintf("store: {redis: {url: '%s'}, key_prefix: '%s'}\n", s.redis, keyPrefix)
	}
	s.direct, s.mcp, s.copied, s.held = "http://"+llm, "http://"+mcp+"/mcp", "http://"+free[5], "http://"+free[6]
	config := fmt.Sprintf("servers: {bench: {url: '%s', optional: false}}\n"+
		"clients: {default: {max_tools: 2000, max_iterations: 20, loop_timeout: 10m}}\nlog: {level: warn}\n%s", s.mcp, store)
	s.rig, err = rig.Start(ctx, rig.Options{
		Service: filepath.Join(tools.Root(), "bin", "mcp-via-llm"), Envoy: tools.Envoy(tools.DefaultEnvoy()), Version: version(tools),
		Dir: s.dir, Config: config, BaseURL: s.direct + "/v1", Replicas: o.Replicas, Mode: cmp.Or(o.Mode, "static"),
		Edit: func(bootstrap map[string]any) error {
			return errors.Join(s.addCopy(bootstrap, "copy", free[5], free[3]), s.addCopy(bootstrap, "hold", free[6], free[4]))
		},
	})
	if err != nil {
		return nil, err
	}
	s.service = s.rig.URL
	return s, nil
}

// version is Envoy's version as the configuration wants it: 1.40 of 1.40.0.
func version(tools *rig.Tools) string {
	parts := strings.Split(tools.DefaultEnvoy(), ".")
	return strings.Join(parts[:2], ".")
}

func (s *stack) self(arguments ...string) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	p, err := rig.StartProcess(arguments[0], nil, program, arguments...)
	if err == nil {
		s.processes = append(s.processes, p)
	}
	return err
}

// addCopy puts a listener with a copying processor beside those of the service, and notes where the listener without
// a filter is.
func (s *stack) addCopy(bootstrap map[string]any, name, listener, processor string) error {
	static, _ := bootstrap["static_resources"].(map[string]any)
	listeners, _ := static["listeners"].([]any)
	clusters, _ := static["clusters"].([]any)
	var loop map[string]any
	for _, one := range listeners {
		if l, _ := one.(map[string]any); l["name"] == "loop" {
			loop = l
		}
	}
	if loop == nil {
		return errors.New("the bootstrap has no listener named loop")
	}
	s.plain = "http://" + addressOf(loop)
	extra, err := clone(loop)
	if err != nil {
		return err
	}
	extra["name"] = name
	extra["address"] = address(listener)
	manager := extra["filter_chains"].([]any)[0].(map[string]any)["filters"].([]any)[0].(map[string]any)["typed_config"].(map[string]any)
	manager["stat_prefix"] = name
	var filter map[string]any
	err = json.Unmarshal(fmt.Appendf(nil, `{"name":%q,"typed_config":{"@type":"type.googleapis.com/envoy.extensions.filters.http.ext_proc.v3.ExternalProcessor",
		"grpc_service":{"envoy_grpc":{"cluster_name":%q}},"message_timeout":"5s","processing_mode":{"request_header_mode":"SEND","response_header_mode":"SEND",
		"request_body_mode":"FULL_DUPLEX_STREAMED","response_body_mode":"FULL_DUPLEX_STREAMED","request_trailer_mode":"SEND","response_trailer_mode":"SEND"}}}`, name, name), &filter)
	if err != nil {
		return err
	}
	manager["http_filters"] = append([]any{filter}, manager["http_filters"].([]any)...)
	for _, one := range clusters {
		if c, _ := one.(map[string]any); c["name"] == "mcp_via_llm" {
			copying, err := clone(c)
			if err != nil {
				return err
			}
			copying["name"] = name
			load := copying["load_assignment"].(map[string]any)
			load["cluster_name"] = name
			load["endpoints"] = []any{map[string]any{"lb_endpoints": []any{map[string]any{"endpoint": map[string]any{"address": address(processor)}}}}}
			static["clusters"] = append(clusters, copying)
		}
	}
	// Routes name the service's filter, which this listener does not have.
	delete(extra, "traffic_direction")
	static["listeners"] = append(listeners, extra)
	return nil
}

func clone(m map[string]any) (map[string]any, error) {
	data, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	out := map[string]any{}
	return out, json.Unmarshal(data, &out)
}

func address(hostPort string) map[string]any {
	host, port, _ := strings.Cut(hostPort, ":")
	return map[string]any{"socket_address": maps.Clone(map[string]any{"address": host, "port_value": json.Number(port)})}
}

func addressOf(listener map[string]any) string {
	socket := listener["address"].(map[string]any)["socket_address"].(map[string]any)
	return fmt.Sprintf("%v:%v", socket["address"], socket["port_value"])
}

func (s *stack) close() error {
	var errs []error
	if s.rig != nil {
		errs = append(errs, s.rig.Close())
	}
	for _, p := range s.processes {
		errs = append(errs, p.Stop(2*time.Second))
	}
	if s.dir != "" {
		errs = append(errs, os.RemoveAll(s.dir))
	}
	return errors.Join(errs...)
}
