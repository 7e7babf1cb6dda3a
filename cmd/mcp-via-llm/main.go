// Command mcp-via-llm gives every OpenAI-compatible application behind Envoy the
// tools of MCP servers.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/alecthomas/kong"
	_ "golang.org/x/crypto/x509roots/fallback" // where there is no bundle, as in an image from scratch

	"github.com/mcp-via-llm/mcp-via-llm/config"
)

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1 // refused or failed
	exitUsage  = 2
)

type commands struct {
	Serve       serveCommand       `cmd:"" help:"Run the service. SIGTERM drains: turns in flight finish, up to drain_timeout."`
	Check       checkCommand       `cmd:"" help:"Validate the configuration: every error with file, line and key."`
	Tools       toolsCommand       `cmd:"" help:"Connect to the MCP servers and list the tools that a client profile gets."`
	EnvoyConfig envoyConfigCommand `cmd:"" help:"Print a complete Envoy bootstrap for the configuration."`
	Sessions    sessionsCommand    `cmd:"" help:"Count or erase what a running service keeps of a client."`
	Ask         askCommand         `cmd:"" help:"Ask a model a question through Envoy and the service: a test of the whole."`
	Version     versionCommand     `cmd:"" help:"Print the version."`
}

// configFlag is the flag that most commands share.
type configFlag struct {
	Config string `required:"" placeholder:"FILE" help:"The configuration file (YAML)."`
}

// output is where a command writes: results to stdout, all else to stderr.
type output struct{ stdout, stderr io.Writer }

func main() { os.Exit(run(os.Args[1:], output{os.Stdout, os.Stderr})) }

func run(args []string, out output) int {
	parser, err := kong.New(&commands{},
		kong.Name("mcp-via-llm"),
		kong.Description("MCP tools for every OpenAI-compatible application, as an Envoy external processor."),
		kong.Writers(out.stdout, out.stderr),
		kong.Bind(out),
	)
	if err != nil {
		return fail(out, err)
	}
	parsed, err := parser.Parse(args)
	if err != nil {
		fmt.Fprintf(out.stderr, "mcp-via-llm: %v\nTry mcp-via-llm --help.\n", err)
		return exitUsage
	}
	if err := parsed.Run(); err != nil {
		return fail(out, err)
	}
	return exitOK
}

// fail prints an error for a person; the problems of a configuration file stand
// for themselves, one a line.
func fail(out output, err error) int {
	if problem := (*config.Problem)(nil); errors.As(err, &problem) {
		fmt.Fprintln(out.stderr, err)
	} else {
		fmt.Fprintf(out.stderr, "mcp-via-llm: %v\n", err)
	}
	return exitFailed
}
