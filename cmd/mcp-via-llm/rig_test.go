package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"
)

// limit bounds every wait in these tests; it only matters when one fails.
const limit = 30 * time.Second

// binary is the built command.
var binary string

// asServer makes the test binary an MCP server on stdio.
const asServer = "MCP_VIA_LLM_TEST_SERVER"

func TestMain(m *testing.M) {
	if os.Getenv(asServer) != "" {
		serveTools()
		return
	}
	dir, err := os.MkdirTemp("", "mcp-via-llm")
	if err != nil {
		panic(err)
	}
	binary = filepath.Join(dir, "mcp-via-llm")
	if out, err := exec.Command("go", append(buildFlags, "-o", binary, ".")...).CombinedOutput(); err != nil {
		panic(fmt.Sprintf("%v\n%s", err, out))
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		os.RemoveAll(dir)
		os.Exit(code)
	}))
}

func serveTools() {
	server := toolServer()
	if os.Getenv(asServer) == "library" {
		addLibrary(server)
	}
	if err := server.Run(context.Background(), &mcp.StdioTransport{}); err != nil {
		os.Exit(1)
	}
}

// addLibrary has a server offer a resource, a template and two prompts.
func addLibrary(server *mcp.Server) {
	read := func(_ context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: r.Params.URI, Text: "text"}}}, nil
	}
	get := func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{Role: "user", Content: &mcp.TextContent{Text: "Say please."}}}}, nil
	}
	server.AddResource(&mcp.Resource{Name: "notes", URI: "box://notes"}, read)
	server.AddResourceTemplate(&mcp.ResourceTemplate{Name: "row", URITemplate: "box://{id}"}, read)
	server.AddPrompt(&mcp.Prompt{Name: "style"}, get)
	server.AddPrompt(&mcp.Prompt{Name: "review", Arguments: []*mcp.PromptArgument{{Name: "code"}}}, get)
}

// toolServer offers "add", and "wait", which runs until the file named in its
// arguments exists.
func toolServer() *mcp.Server {
	type numbers struct {
		A int `json:"a"`
		B int `json:"b"`
	}
	type until struct {
		File string `json:"file"`
	}
	server := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "add", Description: "Adds two numbers"},
		func(_ context.Context, _ *mcp.CallToolRequest, n numbers) (*mcp.CallToolResult, any, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprint(n.A + n.B)}}}, nil, nil
		})
	mcp.AddTool(server, &mcp.Tool{Name: "wait", Description: "Waits for a file"},
		func(ctx context.Context, _ *mcp.CallToolRequest, u until) (*mcp.CallToolResult, any, error) {
			for ctx.Err() == nil {
				if _, err := os.Stat(u.File); err == nil {
					break
				}
				time.Sleep(10 * time.Millisecond)
			}
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "waited"}}}, nil, ctx.Err()
		})
	return server
}

// stdioServer is YAML for one server entry that starts serveTools.
func stdioServer() string {
	return fmt.Sprintf("{command: [%q], env: {%s: '1'}, optional: false}", os.Args[0], asServer)
}

func writeConfig(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.yaml")
	put(t, path, text)
	return path
}

func put(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// command runs the binary to its end.
func command(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if ctx.Err() != nil {
		t.Fatalf("%v does not end\n%s", args, &errs)
	}
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// service is a running `serve`.
type service struct {
	cmd    *exec.Cmd
	done   chan struct{}
	mu     sync.Mutex
	lines  []map[string]any // the log
	raw    strings.Builder
	notify chan struct{}
	// addresses it listens on
	extProc, admin, metrics, http string
}

// start runs `serve` and waits until it is ready.
func start(t *testing.T, configFile string) *service {
	t.Helper()
	s := &service{cmd: exec.Command(binary, "serve", "--config", configFile), done: make(chan struct{}), notify: make(chan struct{}, 1)}
	stderr, err := s.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(s.done)
		s.read(stderr)
		s.cmd.Wait() //nolint:errcheck // the exit code is asked for where it matters
	}()
	t.Cleanup(func() {
		s.cmd.Process.Kill() //nolint:errcheck // usually gone already
		<-s.done
		if t.Failed() {
			t.Logf("the service printed:\n%s", &s.raw)
		}
	})
	line := s.wait(t, "serving")
	s.extProc, s.admin, s.http = fmt.Sprint(line["ext_proc"]), "http://"+fmt.Sprint(line["admin"]), "http://"+fmt.Sprint(line["http"])
	s.metrics = "http://" + fmt.Sprint(line["metrics"])
	eventually(t, "ready", func() bool { return statusOf(s.admin+"/readyz") == http.StatusOK })
	return s
}

func (s *service) read(r io.Reader) {
	scanner := bufio.NewScanner(r)
	for scanner.Scan() {
		var line map[string]any
		if json.Unmarshal(scanner.Bytes(), &line) != nil {
			line = map[string]any{"msg": scanner.Text()}
		}
		s.mu.Lock()
		s.raw.WriteString(scanner.Text() + "\n")
		s.lines = append(s.lines, line)
		s.mu.Unlock()
		select {
		case s.notify <- struct{}{}:
		default:
		}
	}
}

// wait returns the first log line whose message begins so.
func (s *service) wait(t *testing.T, message string) map[string]any {
	t.Helper()
	timeout := time.After(limit)
	for {
		s.mu.Lock()
		for _, line := range s.lines {
			if text, _ := line["msg"].(string); strings.HasPrefix(text, message) {
				s.mu.Unlock()
				return line
			}
		}
		s.mu.Unlock()
		select {
		case <-s.notify:
		case <-s.done:
			t.Fatalf("the service ended before it said %q", message)
		case <-timeout:
			t.Fatalf("the service never said %q", message)
		}
	}
}

// stop sends SIGTERM and returns the exit code.
func (s *service) stop(t *testing.T) int {
	t.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	return s.exit(t)
}

func (s *service) exit(t *testing.T) int {
	t.Helper()
	select {
	case <-s.done:
		return s.cmd.ProcessState.ExitCode()
	case <-time.After(limit):
		t.Fatal("the service does not end")
		return -1
	}
}

func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(limit); !condition(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}

// client leaves no connection behind for the leak check.
var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

func statusOf(url string) int {
	response, err := client.Get(url)
	if err != nil {
		return 0
	}
	response.Body.Close()
	return response.StatusCode
}

func get(t *testing.T, url string) string {
	t.Helper()
	response, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%s: %d, %v", url, response.StatusCode, err)
	}
	return string(body)
}
