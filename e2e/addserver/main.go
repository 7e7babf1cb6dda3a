// Addserver is an MCP server with one tool, add_numbers, over stdio or, with -http, Streamable HTTP. With -bench it has
// the tools of the tests instead.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcp-via-llm/mcp-via-llm/e2e/mcpserver"
)

func main() {
	address := flag.String("http", "", "serve Streamable HTTP at this `address` instead of standard input and output")
	stateless := flag.Bool("stateless", true, "with -http: keep no sessions")
	record := flag.String("record", "", "append each JSON-RPC message on the wire to this `file`")
	bench := flag.Bool("bench", false, "offer echo, fail, slow, big and count")
	flag.Parse()
	server := mcpserver.NewAdd()
	if *bench {
		server = mcpserver.NewBench().Server
	}
	if err := run(server, *address, *stateless, *record); err != nil {
		fmt.Fprintln(os.Stderr, "addserver:", err)
		os.Exit(1)
	}
}

func run(server *mcp.Server, address string, stateless bool, record string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var recorder *mcpserver.Recorder
	if record != "" {
		file, err := os.OpenFile(record, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		defer file.Close()
		recorder = mcpserver.NewRecorder(file)
	}
	if address == "" {
		err := mcpserver.Stdio(ctx, server, recorder)
		if ctx.Err() != nil {
			return nil // told to stop
		}
		return err
	}
	listener := &http.Server{Addr: address, Handler: mcpserver.HTTP(server, stateless, recorder), ReadHeaderTimeout: time.Minute}
	context.AfterFunc(ctx, func() { listener.Close() })
	if err := listener.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
