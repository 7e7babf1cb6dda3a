package main

import (
	"context"
	"fmt"
	"time"

	"github.com/mcp-via-llm/mcp-via-llm/e2e/rig"
)

// holdCommand keeps one kind of turn running, for profiles of the service.
type holdCommand struct {
	Rounds  int           `help:"rounds of an MCP call each"`
	Mixed   bool          `help:"the model also calls a function of the client"`
	Stream  bool          `help:"streamed turns"`
	Chunks  int           `default:"20" help:"chunks of the answer"`
	History int           `default:"1000" help:"bytes of earlier messages"`
	Tools   int           `default:"5" help:"tools in the catalog"`
	Redis   bool          `help:"keep sessions in Redis"`
	Slow    time.Duration `help:"how long the MCP tool takes"`
	Conns   int           `default:"1" help:"turns at once"`
	Length  time.Duration `default:"30s" help:"how long"`
}

func (c *holdCommand) Run() error {
	tools, err := rig.FindTools()
	if err != nil {
		return err
	}
	s, err := startStack(tools, stackOptions{Tools: c.Tools, Redis: c.Redis})
	if err != nil {
		return err
	}
	defer s.close() //nolint:errcheck // nothing is left to do about it
	fmt.Printf("profiles: go tool pprof %s/debug/pprof/profile?seconds=10\n", s.rig.Admin)
	p := plan{Rounds: c.Rounds, Mixed: c.Mixed, Stream: c.Stream, Chunks: c.Chunks, History: c.History, SlowMS: int(c.Slow / time.Millisecond)}
	service, envoy := cpuTime(s.rig.Service.PID()), cpuTime(s.rig.Envoy.PID())
	m, err := load(context.Background(), turn(newClient(c.Conns), s.service, p), c.Conns, c.Length)
	if err == nil {
		each := func(used time.Duration) string { return milliseconds(used / time.Duration(len(m.totals))) }
		fmt.Printf("p50 %s ms, p99 %s ms, %.0f turns a second; CPU each: service %s ms, Envoy %s ms\n", milliseconds(quantile(m.totals, 0.5)),
			milliseconds(quantile(m.totals, 0.99)), m.throughput(), each(cpuTime(s.rig.Service.PID())-service), each(cpuTime(s.rig.Envoy.PID())-envoy))
	}
	return err
}
