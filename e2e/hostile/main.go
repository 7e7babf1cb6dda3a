// Command hostile is an MCP server that means no good, on stdio or over HTTP: one fault for each name. It writes its
// JSON-RPC by hand, for no library would.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"
)

func main() {
	fault := flag.String("fault", "", "what is wrong with the server on stdio: "+strings.Join(names(), ", "))
	address := flag.String("http", "", "serve every fault at /NAME of this address instead")
	flag.Parse()
	if *address != "" {
		fmt.Fprintln(os.Stderr, http.ListenAndServe(*address, http.HandlerFunc(handle)))
		os.Exit(1)
	}
	if faults[*fault] == nil {
		fmt.Fprintln(os.Stderr, "no such fault:", *fault)
		os.Exit(2)
	}
	stdio(faults[*fault])
}

// message is a JSON-RPC request or notification.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Cursor string          `json:"cursor"`
		Name   string          `json:"name"`
		Args   json.RawMessage `json:"arguments"`
	} `json:"params"`
}

const initialized = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"hostile","version":"1"}}`

// answer gives the result of a request; send writes a message out of turn.
func answer(f *fault, m message, send func(string)) string {
	switch m.Method {
	case "initialize":
		return initialized
	case "ping":
		return "{}"
	case "tools/list":
		return f.list(m.Params.Cursor)
	case "tools/call":
		if f.call != nil {
			return f.call(m, send)
		}
		return said("called " + m.Params.Name)
	}
	return ""
}

func said(text string) string {
	encoded, err := json.Marshal(text)
	if err != nil {
		panic(err) // a string
	}
	return `{"content":[{"type":"text","text":` + string(encoded) + `}]}`
}

func response(id json.RawMessage, result string) string {
	if result == "" {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}`, id)
	}
	return `{"jsonrpc":"2.0","id":` + string(id) + `,"result":` + result + `}`
}

func stdio(f *fault) {
	var mu sync.Mutex
	out := bufio.NewWriterSize(os.Stdout, 1<<20)
	send := func(line string) {
		mu.Lock()
		defer mu.Unlock()
		io.WriteString(out, line+"\n")
		if out.Flush() != nil {
			os.Exit(0) // the reader has gone
		}
	}
	in := bufio.NewReader(os.Stdin)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		var m message
		if json.Unmarshal([]byte(line), &m) != nil {
			continue
		}
		if m.Method == "notifications/initialized" && f.then != nil {
			go f.then(send)
		}
		if m.ID == nil || m.Method == "" {
			continue
		}
		go func() { send(response(m.ID, answer(f, m, send))) }()
	}
}

// handle serves Streamable HTTP with a session.
func handle(w http.ResponseWriter, r *http.Request) {
	f := faults[strings.Trim(r.URL.Path, "/")]
	if f == nil {
		http.NotFound(w, r)
		return
	}
	switch r.Method {
	case http.MethodGet:
		stream(w, r, f)
		return
	case http.MethodDelete:
		return
	}
	var m message
	if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
		http.Error(w, "not JSON", http.StatusBadRequest)
		return
	}
	if m.ID == nil || m.Method == "" {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	result := answer(f, m, func(string) {})
	w.Header().Set("Content-Type", "application/json")
	if m.Method == "initialize" {
		w.Header().Set("Mcp-Session-Id", fmt.Sprint(time.Now().UnixNano()))
	}
	io.WriteString(w, response(m.ID, result))
}

// stream is the standing stream of a session.
func stream(w http.ResponseWriter, r *http.Request, f *fault) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	http.NewResponseController(w).Flush()
	if f.then != nil {
		out := bufio.NewWriterSize(w, 1<<20)
		f.then(func(line string) {
			io.WriteString(out, "data: "+line+"\n\n")
			if out.Flush() != nil || r.Context().Err() != nil {
				panic(http.ErrAbortHandler) // the reader has gone
			}
		})
	}
	<-r.Context().Done()
}
