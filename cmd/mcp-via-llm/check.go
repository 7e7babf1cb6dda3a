package main

import (
	"fmt"

	"github.com/mcp-via-llm/mcp-via-llm/config"
)

type checkCommand struct{ configFlag }

func (c *checkCommand) Run(out output) error {
	if _, err := config.Load(c.Config); err != nil {
		return err
	}
	fmt.Fprintf(out.stdout, "%s: ok\n", c.Config)
	return nil
}
