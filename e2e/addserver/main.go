// Addserver is an MCP server with one tool, add_numbers, over stdio or, with -http, Streamable HTTP.
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

	"github.com/mcp-via-llm/mcp-via-llm/e2e/mcpserver"
)

func main() {
	address := flag.String("http", "", "serve Streamable HTTP at this `address` instead of standard input and output")
	stateless := flag.Bool("stateless", true, "with -http: keep no sessions")
	record := flag.String("record", "", "append each JSON-RPC message on the wire to this `file`")
	flag.Parse()
	if err := run(*address, *stateless, *record); err != nil {
		fmt.Fprintln(os.Stderr, "addserver:", err)
		os.Exit(1)
	}
}

func run(address string, stateless bool, record string) error {
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
		err := mcpserver.Stdio(ctx, mcpserver.NewAdd(), recorder)
		if ctx.Err() != nil {
			return nil // told to stop
		}
		return err
	}
	server := &http.Server{Addr: address, Handler: mcpserver.HTTP(mcpserver.NewAdd(), stateless, recorder), ReadHeaderTimeout: time.Minute}
	context.AfterFunc(ctx, func() { server.Close() })
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
