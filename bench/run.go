package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"syscall"
	"time"

	"github.com/mcp-via-llm/mcp-via-llm/e2e/rig"
)

// pageCommand makes the page again of figures that were measured before.
type pageCommand struct {
	JSON   string `help:"file with the figures" default:"bench/report.json"`
	Report string `help:"Markdown file for the report" default:"docs/performance.md"`
}

func (c *pageCommand) Run() error {
	out, err := readReport(c.JSON)
	if err != nil {
		return err
	}
	out.Budgets, out.Growth = nil, nil
	out.judge()
	out.grow()
	return out.write(c.JSON, c.Report)
}

type runCommand struct {
	Only    string        `help:"regular expression over section names" default:""`
	Row     string        `help:"regular expression over the names of the rows" default:""`
	Rounds  int           `help:"how often the ways are measured by turns" default:"5"`
	Length  time.Duration `help:"of one measurement" default:"1s"`
	Open    int           `help:"turns that are open at once in the section of open turns" default:"10000"`
	JSON    string        `help:"file for the report's figures" default:"bench/report.json"`
	Report  string        `help:"Markdown file for the report; it replaces what is between its two markers" default:"docs/performance.md"`
	Against string        `help:"compare with the figures in this file, and fail where a ratio is worse by more than the tolerance"`
	Slack   float64       `help:"tolerance of --against, as a share" default:"0.25"`
}

// section is a stack and what is measured on it.
type section struct {
	Name    string
	options stackOptions
	rows    func(*bench) []row
}

var sections = []section{
	{"turns", stackOptions{Tools: 5}, (*bench).turnRows},
	{"override mode", stackOptions{Tools: 5, Mode: "override"}, (*bench).overrideRows},
	{"throughput", stackOptions{Tools: 5}, (*bench).throughputRows},
	{"stream", stackOptions{Tools: 5}, (*bench).streamRows},
	{"Redis", stackOptions{Tools: 5, Redis: true}, (*bench).storeRows},
	{"catalog of 100", stackOptions{Tools: 100}, (*bench).catalogRows},
	{"catalog of 1000", stackOptions{Tools: 1000}, (*bench).catalogRows},
	{"sessions", stackOptions{Tools: 5, Redis: true}, (*bench).sessionRows},
	{"1 replica on Redis", stackOptions{Tools: 5, Redis: true}, (*bench).throughputRows},
	{"2 replicas on Redis", stackOptions{Tools: 5, Redis: true, Replicas: 2}, (*bench).throughputRows},
	{"4 replicas on Redis", stackOptions{Tools: 5, Redis: true, Replicas: 4}, (*bench).throughputRows},
}

func (c *runCommand) Run() error {
	only, err := regexp.Compile(c.Only)
	if err != nil {
		return fmt.Errorf("--only: %w", err)
	}
	row, err := regexp.Compile(c.Row)
	if err != nil {
		return fmt.Errorf("--row: %w", err)
	}
	tools, err := rig.FindTools()
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	out := newReport(tools)
	for _, s := range sections {
		if !only.MatchString(s.Name) {
			continue
		}
		if err := c.section(ctx, tools, s, row, out); err != nil {
			return fmt.Errorf("%s: %w", s.Name, err)
		}
	}
	for _, turns := range []int{c.Open / 10, c.Open} {
		if !only.MatchString("open turns") || turns == 0 {
			continue
		}
		o, err := openTurns(ctx, tools, turns)
		if err != nil {
			return fmt.Errorf("%d open turns: %w", turns, err)
		}
		out.Open = append(out.Open, o)
	}
	out.judge()
	out.grow()
	fmt.Println(out.markdown())
	if c.Against != "" {
		return out.compare(c.Against, c.Slack)
	}
	if c.Only != "" || c.Row != "" {
		fmt.Fprintln(os.Stderr, "Only a part was measured: no file is written.")
		return nil
	}
	return out.write(c.JSON, c.Report)
}

func (c *runCommand) section(ctx context.Context, tools *rig.Tools, s section, rows *regexp.Regexp, out *report) error {
	st, err := startStack(tools, s.options)
	if err != nil {
		return err
	}
	defer st.close() //nolint:errcheck // what was measured stands
	session, err := connectMCP(ctx, st.mcp, many)
	if err != nil {
		return err
	}
	defer session.Close()
	b := &bench{stack: st, client: newClient(many), session: session}
	for _, r := range s.rows(b) {
		if !rows.MatchString(r.Name) {
			continue
		}
		result, err := c.measure(ctx, r)
		if err != nil {
			return fmt.Errorf("%s: %w\n%s", r.Name, err, st.rig.Logs())
		}
		out.add(s.Name, result)
		fmt.Fprintf(os.Stderr, "%-20s %s\n", s.Name, result)
	}
	return nil
}

// measure goes round the ways of a row, so that what else the machine does meets all of them.
func (c *runCommand) measure(ctx context.Context, r row) (*result, error) {
	if r.prepare != nil {
		if err := r.prepare(ctx); err != nil {
			return nil, err
		}
	}
	all := newResult(r)
	for round := -1; round < c.Rounds; round++ {
		for i, s := range r.series {
			length := c.Length
			if round < 0 {
				length /= 10 // connections are made, pools filled
			}
			m, err := load(ctx, s.op, r.Connections, length)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", s.name, err)
			}
			if round >= 0 {
				all.add(i, m)
			}
		}
	}
	return all, nil
}
