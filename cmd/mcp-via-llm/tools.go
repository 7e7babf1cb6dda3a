package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"text/tabwriter"

	"github.com/mcp-via-llm/mcp-via-llm/config"
	"github.com/mcp-via-llm/mcp-via-llm/mcp"
)

type toolsCommand struct {
	configFlag
	Client string `default:"default" placeholder:"NAME" help:"The client profile (default: ${default})."`
	Output string `default:"table" enum:"table,json" help:"table or json."`
}

// listed is one line of the list.
type listed struct {
	Name   string `json:"name"`   // as the model gets it
	Server string `json:"server"` // as configured
	Kind   string `json:"kind"`
	Tokens int    `json:"tokens"` // an estimate of what it costs in every request
}

func (c *toolsCommand) Run(out output) error {
	cfg, err := config.Load(c.Config)
	if err != nil {
		return err
	}
	client, err := cfg.Client(c.Client)
	if err != nil {
		return fmt.Errorf("--client: %w", err)
	}
	number, _ := build()
	servers := slices.DeleteFunc(mcpServers(cfg), func(s mcp.Server) bool { return !slices.Contains(client.Servers, s.Name) })
	host := mcp.NewHost(mcp.Options{Servers: servers, Log: slog.New(slog.DiscardHandler), Version: number})
	// Unlike a turn, this has time: every server is tried once, for at most its own
	// connect_timeout.
	host.Settle(context.Background())
	set := host.Toolset(context.Background(), mcp.Query{
		Servers: client.Servers, MaxTools: client.MaxTools, Resources: client.Resources, Prompts: client.Prompts, Filter: filter{profiles(cfg)[c.Client]},
	})
	status := host.Status()
	closed := host.Close()
	all := []listed{}
	for _, t := range set.Tools() {
		all = append(all, listed{t.Name, t.Server, t.Kind, t.Tokens})
	}
	if err := c.print(out.stdout, all); err != nil {
		return err
	}
	failed := []error{closed}
	for _, s := range status {
		if slices.Contains(set.Unavailable(), s.Name) {
			failed = append(failed, fmt.Errorf("server %q is not available: %s", s.Name, s.Error))
		}
	}
	return errors.Join(failed...)
}

func (c *toolsCommand) print(w io.Writer, all []listed) error {
	if c.Output == "json" {
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		return encoder.Encode(all)
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "NAME\tSERVER\tKIND\tTOKENS")
	total := 0
	for _, t := range all {
		total += t.Tokens
		fmt.Fprintf(table, "%s\t%s\t%s\t%d\n", t.Name, t.Server, t.Kind, t.Tokens)
	}
	fmt.Fprintf(table, "total of %d\t\t\t%d\n", len(all), total)
	return table.Flush()
}
