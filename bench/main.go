// Command bench measures what a turn costs on a real Envoy, always beside something else in the same run: the LLM
// asked directly, Envoy alone, Envoy with an external processor that only copies, and this service.
//
// The scripted LLM, the MCP server and the copying processor are subcommands, so that each runs in a process of its
// own, can be pinned to cores, and can be used for other measurements.
package main

import (
	"fmt"
	"os"

	"github.com/alecthomas/kong"
)

type commands struct {
	Run   runCommand   `cmd:"" default:"withargs" help:"measure and write the report"`
	Page  pageCommand  `cmd:"" help:"make the page again of the figures of the last run"`
	Micro microCommand `cmd:"" help:"run the Go benchmarks of the parts"`
	Peers peersCommand `cmd:"" help:"measure other gateways on the same LLM and MCP server"`
	Hold  holdCommand  `cmd:"" help:"keep one kind of turn running, for profiles"`
	LLM   llmCommand   `cmd:"" name:"llm" help:"serve the scripted LLM"`
	MCP   mcpCommand   `cmd:"" name:"mcp" help:"serve the MCP server"`
	Copy  copyCommand  `cmd:"" name:"copy" help:"serve the external processor that only copies"`
}

func main() {
	var c commands
	run := kong.Parse(&c, kong.Name("bench"), kong.UsageOnError())
	if err := run.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}
