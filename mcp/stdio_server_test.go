package mcp

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// stdioConfig runs this test binary as a stdio server in one of the modes below.
func stdioConfig(name, mode string, env ...string) Server {
	exe, err := os.Executable()
	if err != nil {
		panic(err)
	}
	s := Server{Name: name, Command: []string{exe}, Env: map[string]string{stdioMode: mode}, ConnectTimeout: soon}
	for _, pair := range env {
		k, v, _ := strings.Cut(pair, "=")
		s.Env[k] = v
	}
	return s
}

// runStdio is the main function of a stdio server.
func runStdio(mode string) {
	if mode == "lines" {
		runLines()
		return
	}
	b := newToolbox()
	if mode == "library" {
		b = newLibrary(nil)
	}
	b.server.AddTool(&sdk.Tool{Name: "environment", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: strings.Join(os.Environ(), "\n")}}}, nil
		})
	b.server.AddTool(&sdk.Tool{Name: "die", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			os.Exit(3)
			return nil, nil
		})
	b.server.AddTool(&sdk.Tool{Name: "cancelled", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: fmt.Sprint(len(b.cancelled))}}}, nil
		})
	if mode == "giant" {
		b.add("giant", "", `{"content":[{"type":"text","text":"`+strings.Repeat("x", maxMessage)+`"}]}`)
	}
	if started := os.Getenv("COUNT_FILE"); started != "" {
		f, err := os.OpenFile(started, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err == nil {
			fmt.Fprintln(f, os.Getpid())
			f.Close()
		}
	}
	switch mode {
	case "noisy":
		fmt.Println("Welcome to the toolbox!")
		fmt.Println(`{"level":"info","msg":"not JSON-RPC"}`)
		fmt.Print("\n\xff\xfe\n[1,2\n")
		fmt.Fprintln(os.Stderr, "noise on stderr")
	case "slow": // of 2026-07-28, and takes the first message for the choice of it
		time.Sleep(3400 * time.Millisecond)
		committed()
		return
	case "silent": // knows nothing newer than initialize, and says nothing about it
		silentLegacy(false)
		return
	case "strict": // ends at a first message that is not initialize
		silentLegacy(true)
		return
	case "stubborn": // a wrapper with a child of its own; neither heeds SIGTERM
		signal.Ignore(syscall.SIGTERM)
		grandchild()
	case "mute": // never answers anything
		time.Sleep(time.Hour)
	}
	_ = b.server.Run(context.Background(), &sdk.StdioTransport{})
	if mode == "stubborn" {
		time.Sleep(time.Hour)
	}
}

// grandchild starts a process that only SIGKILL ends, which holds on to stdout.
func grandchild() {
	cmd := exec.Command("sh", "-c", "trap '' TERM; while :; do sleep 1; done")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		panic(err)
	}
	if err := os.WriteFile(os.Getenv("PID_FILE"), []byte(fmt.Sprint(cmd.Process.Pid)), 0o600); err != nil {
		panic(err)
	}
}

// committed is a server of both eras that stays in the one it was first asked for.
func committed() {
	lines := bufio.NewScanner(os.Stdin)
	modern := false
	for lines.Scan() {
		var req struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
		}
		if json.Unmarshal(lines.Bytes(), &req) != nil || len(req.ID) == 0 {
			continue
		}
		answer := `"result":{"tools":[{"name":"now","inputSchema":{"type":"object"}}]}`
		switch {
		case req.Method == methodDiscover:
			modern = true
			answer = `"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}`
		case req.Method == "initialize" && modern:
			answer = `"error":{"code":-32022,"message":"serving 2026-07-28"}`
		case req.Method == "initialize":
			answer = `"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"both","version":"1"}}`
		}
		fmt.Printf(`{"jsonrpc":"2.0","id":%s,%s}`+"\n", req.ID, answer)
	}
}

// silentLegacy is a server of 2025-11-25 without the SDK.
func silentLegacy(strict bool) {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var req struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
		}
		if json.Unmarshal(lines.Bytes(), &req) != nil {
			continue
		}
		result := ""
		switch req.Method {
		case "initialize":
			strict = false
			result = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"old","version":"1"}}`
		case "tools/list":
			result = `{"tools":[{"name":"now","inputSchema":{"type":"object"}}]}`
		case "tools/call":
			result = `{"content":[{"type":"text","text":"noon"}]}`
		}
		if strict {
			os.Exit(1)
		}
		if result != "" {
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", req.ID, result)
		}
	}
}
