package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strconv"
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
	Server string `json:"server"` // as configured; empty for the two functions that reach what is left out
	Kind   string `json:"kind"`   // tool, resource, resource_template, prompt, or system_prompt: no function but instructions
	Tokens int    `json:"tokens"` // an estimate of what it costs in every request
	// LeftOut: max_tools or max_tools_bytes has no room for it; the model finds it with mcp_search_tools.
	LeftOut bool `json:"left_out,omitempty"`
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
	set := host.Toolset(context.Background(), query(loopClient(c.Client, client), client.Servers, nil, profiles(cfg)[c.Client]))
	status := host.Status()
	closed := host.Close()
	all := []listed{}
	for _, t := range slices.Concat(set.Tools(), set.Instructions()) {
		all = append(all, listed{t.Name, t.Server, t.Kind, t.Tokens, false})
	}
	for _, t := range set.Omitted() {
		all = append(all, listed{t.Name, t.Server, t.Kind, 0, true})
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
	total, left := 0, 0
	for _, t := range all {
		tokens := strconv.Itoa(t.Tokens)
		if t.LeftOut {
			tokens, left = "left out", left+1
		}
		total += t.Tokens
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", t.Name, cmp.Or(t.Server, "-"), t.Kind, tokens)
	}
	fmt.Fprintf(table, "total of %d\t\t\t%d\n", len(all)-left, total)
	if left > 0 {
		fmt.Fprintf(table, "left out of %d\t\t\tmax_tools\n", left)
	}
	return table.Flush()
}
