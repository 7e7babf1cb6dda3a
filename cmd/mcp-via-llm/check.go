package main

import (
	"fmt"

	"github.com/mcp-via-llm/mcp-via-llm/config"
)

type checkCommand struct{ configFlag }

func (c *checkCommand) Run(out output) error {
	cfg, err := config.Load(c.Config)
	if err != nil {
		return err
	}
	for _, w := range cfg.Warnings() {
		fmt.Fprintf(out.stderr, "%v (warning)\n", w)
	}
	fmt.Fprintf(out.stdout, "%s: ok\n", c.Config)
	return nil
}
