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

	"github.com/mcp-via-llm/mcp-via-llm/admin"
	"github.com/mcp-via-llm/mcp-via-llm/config"
	"github.com/mcp-via-llm/mcp-via-llm/mcp"
)

type toolsCommand struct {
	configFlag
	Client string `default:"default" placeholder:"NAME" help:"The client profile (default: ${default})."`
	Output string `default:"table" enum:"table,json" help:"table or json."`
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
	// Why a tool is not in the list.
	log := slog.New(slog.NewTextHandler(out.stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	host := mcp.NewHost(mcp.Options{Servers: servers, Egress: egress(cfg), Log: log, Version: number})
	// Unlike a turn, this has time: every server is tried once, for at most its own
	// connect_timeout.
	host.Settle(context.Background())
	set := host.Toolset(context.Background(), query(loopClient(c.Client, client), client.Servers, nil, profiles(cfg)[c.Client]))
	doubts := idle(cfg, []string{c.Client}, client.Servers, host.Toolset(context.Background(), everything(client.Servers)))
	status := host.Status()
	closed := host.Close()
	if err := c.print(out.stdout, admin.NewCatalog(c.Client, client.SchemaDialect, set)); err != nil {
		return err
	}
	for _, p := range doubts {
		fmt.Fprintf(out.stderr, "%v (warning)\n", p)
	}
	failed := []error{closed}
	for _, s := range status {
		if slices.Contains(set.Unavailable(), s.Name) {
			failed = append(failed, fmt.Errorf("server %q is not available: %s", s.Name, s.Error))
		}
	}
	return errors.Join(failed...)
}

func (c *toolsCommand) print(w io.Writer, catalog admin.Catalog) error {
	if c.Output == "json" {
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		return encoder.Encode(catalog.Offers)
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "NAME\tSERVER\tKIND\tTOKENS")
	for _, t := range catalog.Offers {
		tokens := strconv.Itoa(t.Tokens)
		if t.LeftOut {
			tokens = "left out"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", t.Name, cmp.Or(t.Server, "-"), t.Kind, tokens)
	}
	fmt.Fprintf(table, "total of %d\t\t\t%d\n", catalog.Offered, catalog.Tokens)
	if catalog.LeftOut > 0 {
		fmt.Fprintf(table, "left out of %d\t\t\tmax_tools\n", catalog.LeftOut)
	}
	return table.Flush()
}
