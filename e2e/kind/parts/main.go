// Command parts is what stands around the service in the cluster test: a scripted LLM, an MCP server that counts what it
// does, a collector of traces. One program, so that they share an image.
package main

import (
	"fmt"
	"log"
	"net/http"
	"os"
	"time"
)

func main() {
	parts := map[string]func() error{
		"llm":       func() error { return listen(":8000", model()) },
		"shop":      func() error { return listen(":8080", shopHandler()) },
		"collector": collect,
	}
	if len(os.Args) != 2 || parts[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: parts llm|shop|collector")
		os.Exit(2)
	}
	log.Fatal(parts[os.Args[1]]())
}

func listen(address string, handler http.Handler) error {
	server := &http.Server{Addr: address, Handler: handler, ReadHeaderTimeout: time.Minute}
	return server.ListenAndServe()
}
