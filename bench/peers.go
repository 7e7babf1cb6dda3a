package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/mcp-via-llm/mcp-via-llm/e2e/rig"
)

// peersCommand measures other gateways that run MCP tools for chat completions, on the same LLM and MCP server with the
// same load. `make bench-peers` installs them.
type peersCommand struct {
	runCommand `embed:""`
	LiteLLM    string `name:"litellm" help:"the installed litellm command" default:".tools/peers/bin/litellm"`
}

const (
	viaLiteLLM  = "LiteLLM"
	liteLLMTool = "bench-echo"                // its name for the MCP server's tool
	liteLLMKey  = "sk-2d0f8a41c9b7463ea5f1d6" // its proxy starts with none that is shorter; it listens on loopback for the time of a run
)

func (c *peersCommand) Run() error {
	tools, err := rig.FindTools()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s, err := startStack(tools, stackOptions{Tools: 5})
	if err != nil {
		return err
	}
	defer s.close() //nolint:errcheck // what was measured stands
	peer, err := startLiteLLM(ctx, s, c.LiteLLM)
	if err != nil {
		return err
	}
	session, err := connectMCP(ctx, s.mcp, many)
	if err != nil {
		return err
	}
	defer session.Close()
	b := &bench{stack: s, client: newClient(many), session: session}
	out := newReport(tools)
	for _, connections := range []int{1, many} {
		for _, rounds := range []int{0, 1} { // LiteLLM asks the LLM once more after the tools have run, and no further
			p := plan{History: kilobyte, Rounds: rounds}
			r := b.row(fmt.Sprintf("%d rounds", rounds), connections, p, byHandOnly, viaService)
			p.LiteLLM = true
			r.series = append(r.series, series{viaLiteLLM, turn(b.client, peer, p)})
			result, err := c.measure(ctx, r)
			if err != nil {
				return err
			}
			out.add("peers", result)
			fmt.Fprintln(os.Stderr, result)
		}
	}
	fmt.Println(out.markdown())
	return replaceIn(c.runCommand.Report, "peers", out.markdown())
}

func startLiteLLM(ctx context.Context, s *stack, program string) (base string, err error) {
	free, err := rig.FreePorts(1)
	if err != nil {
		return "", err
	}
	file := filepath.Join(s.dir, "litellm.yaml")
	config := fmt.Sprintf("model_list:\n  - model_name: '*'\n    litellm_params: {model: 'openai/*', api_base: '%s/v1', api_key: x}\n"+
		"mcp_servers:\n  bench: {url: '%s', transport: http, allow_all_keys: true}\nlitellm_settings: {telemetry: false}\n", s.direct, s.mcp)
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return "", err
	}
	_, port, _ := strings.Cut(free[0], ":")
	p, err := rig.StartProcess("litellm", []string{"LITELLM_MASTER_KEY=" + liteLLMKey}, program,
		"--config", file, "--host", "127.0.0.1", "--port", port, "--telemetry", "False")
	if err != nil {
		return "", err
	}
	s.processes = append(s.processes, p)
	base = "http://" + free[0]
	for start := time.Now(); time.Since(start) < 2*time.Minute; time.Sleep(time.Second) {
		response, err := http.Get(base + "/health/liveliness")
		if err == nil {
			response.Body.Close()
			return base, nil
		}
	}
	return "", fmt.Errorf("LiteLLM does not come up; it printed:\n%s", p.Log())
}
