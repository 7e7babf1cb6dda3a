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
	Way     string        `default:"this service" help:"what is kept running, by its name in the report"`
	Mode    string        `enum:"override,static" default:"static" help:"the filter's processing mode"`
}

func (c *holdCommand) Run() error {
	tools, err := rig.FindTools()
	if err != nil {
		return err
	}
	s, err := startStack(tools, stackOptions{Tools: c.Tools, Redis: c.Redis, Mode: c.Mode})
	if err != nil {
		return err
	}
	defer s.close() //nolint:errcheck // nothing is left to do about it
	fmt.Printf("profiles: go tool pprof %s/debug/pprof/profile?seconds=10\n", s.rig.Admin)
	session, err := connectMCP(context.Background(), s.mcp, c.Conns)
	if err != nil {
		return err
	}
	defer session.Close()
	way := (&bench{stack: s, client: newClient(c.Conns), session: session}).operation
	p := plan{Rounds: c.Rounds, Mixed: c.Mixed, Stream: c.Stream, Chunks: c.Chunks, History: c.History, SlowMS: int(c.Slow / time.Millisecond)}
	processes := append([]*rig.Process{s.rig.Service, s.rig.Envoy}, s.processes...)
	before := make([]time.Duration, len(processes))
	for i, one := range processes {
		before[i] = cpuTime(one.PID())
	}
	m, err := load(context.Background(), way(c.Way, p), c.Conns, c.Length)
	if err != nil {
		return err
	}
	fmt.Printf("p50 %s ms, p99 %s ms, %.0f turns a second; CPU for each:", milliseconds(quantile(m.totals, 0.5)), milliseconds(quantile(m.totals, 0.99)), m.throughput())
	for i, one := range processes {
		fmt.Printf(" %s %s ms", one.Name, milliseconds((cpuTime(one.PID())-before[i])/time.Duration(len(m.totals))))
	}
	fmt.Println()
	return nil
}
