package e2e

import (
	"context"
	"flag"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcp-via-llm/mcp-via-llm/e2e/llm"
	"github.com/mcp-via-llm/mcp-via-llm/e2e/mcpserver"
	"github.com/mcp-via-llm/mcp-via-llm/e2e/rig"
)

var update = flag.Bool("update", false, "write the golden files in testdata anew")

// bench starts the in-process server whose tools misbehave on demand, and returns its URL.
func bench(t *testing.T) (*mcpserver.Bench, string) {
	t.Helper()
	b := mcpserver.NewBench()
	server := httptest.NewServer(mcpserver.HTTP(b.Server, true, nil))
	t.Cleanup(server.Close)
	// Streams that the service holds open would make Close wait for them.
	t.Cleanup(server.CloseClientConnections)
	return b, server.URL
}

// threeSegments is a turn over two servers: the filesystem server's file, then an addition beside a slow tool, then
// the answer. The model writes text before each of its calls.
func threeSegments(file string) llm.Brain {
	return llm.Sequence(
		llm.Answer{Text: "Let me read the note.", Prompt: 100, Output: 20, Calls: []llm.ToolCall{
			llm.Call("call_1", "files__read_text_file", fmt.Sprintf(`{"path":%q}`, file)),
		}}.Step(),
		llm.Answer{Text: "Now the sum.", Prompt: 150, Output: 30, Calls: []llm.ToolCall{
			llm.Call("call_2", "bench__slow", `{"seconds":1.2}`),
			llm.Call("call_3", "calc__add_numbers", `{"a": 5, "b": 7}`),
		}}.Step(),
		llm.Answer{Text: "The note says 5 and 7: that makes 12.", Prompt: 200, Output: 12}.Step(),
	)
}

func startThree(t *testing.T, v variant) (*rig.Rig, string) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "note.txt")
	if err := os.WriteFile(file, []byte("5 and 7"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, url := bench(t)
	return start(t, v, setup{config: fmt.Sprintf(`
servers:
  files: {command: [%s], connect_timeout: 60s, optional: false}
  calc:  {command: [%q], optional: false}
  bench: {url: %q, optional: false}
clients:
  default: {servers: [files, calc, bench], keepalive: 300ms}
`, quoted(tools.NodeServer("filesystem", dir)), addServer, url)}), file
}

func quoted(words []string) string {
	var out []string
	for _, word := range words {
		out = append(out, fmt.Sprintf("%q", word))
	}
	return strings.Join(out, ", ")
}

const threeText = "Let me read the note.\n\nNow the sum.\n\nThe note says 5 and 7: that makes 12."

func threeExtension() extension {
	return extension{
		Iterations: 3, ToolsCalled: []string{"files__read_text_file", "bench__slow", "calc__add_numbers"},
		PromptTokens: 450, CompletionTokens: 62, StopReason: "answer", ServersUnavailable: []string{},
	}
}

// TestThreeSegments runs one turn of three segments over three servers, streamed and not: the client sees one ordinary
// answer, the same in both forms, byte for byte what the golden files hold.
func TestThreeSegments(t *testing.T) {
	on(t, all(), func(t *testing.T, v variant) {
		r, file := startThree(t, v)
		t.Run("streamed", func(t *testing.T) {
			r.LLM.Use(threeSegments(file))
			got := post(t, r, `{"model":"test-model","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"Add what the note says."}]}`)
			if got.status != 200 || !strings.HasPrefix(got.header.Get("Content-Type"), "text/event-stream") {
				t.Fatalf("status %d, content-type %q, body %s", got.status, got.header.Get("Content-Type"), got.body)
			}
			checkStream(t, got.body)
			golden(t, "three.sse", withoutKeepalives(got.body))
			checkToolMessages(t, r)
		})
		t.Run("whole", func(t *testing.T) {
			r.LLM.Use(threeSegments(file))
			got := post(t, r, `{"model":"test-model","messages":[{"role":"user","content":"Add what the note says."}]}`)
			c := parse(t, got.body)
			if got.status != 200 || c.text() != threeText {
				t.Errorf("status %d, text %q", got.status, c.text())
			}
			if c.Usage == nil || c.Usage.Prompt != 450 || c.Usage.Output != 62 || c.Usage.Total != 512 {
				t.Errorf("usage %+v, want the sum over the segments", c.Usage)
			}
			if diff := cmp.Diff(threeExtension(), c.extension(t)); diff != "" {
				t.Errorf("extensions (-want +got):\n%s", diff)
			}
			if got.header.Get("Content-Length") != "" && got.header.Get("Content-Length") != fmt.Sprint(len(got.body)) {
				t.Errorf("content-length %s for %d bytes", got.header.Get("Content-Length"), len(got.body))
			}
			golden(t, "three.json", got.body)
			checkToolMessages(t, r)
		})
	})
}

func checkStream(t *testing.T, body string) {
	t.Helper()
	s := parseStream(t, body)
	if len(s.ids) != 1 || len(s.roles) != 1 || s.done != 1 || s.toolDeltas != 0 || s.usages != 1 {
		t.Errorf("ids %q, roles %q, [DONE] %d times, %d tool deltas, usage %d times; want one each and no tool delta",
			s.ids, s.roles, s.done, s.toolDeltas, s.usages)
	}
	if !slices.Equal(s.finishes, []string{"stop"}) {
		t.Errorf("finish reasons %q, want one, stop", s.finishes)
	}
	if s.text != threeText {
		t.Errorf("text %q, want %q", s.text, threeText)
	}
	if s.keepalives < 2 {
		t.Errorf("%d keepalives during a tool of 1.2 s, want at least 2 at 300 ms", s.keepalives)
	}
	if diff := cmp.Diff(threeExtension(), s.last.extension(t)); diff != "" {
		t.Errorf("extensions (-want +got):\n%s", diff)
	}
	if !strings.HasSuffix(body, "data: [DONE]\n\n") {
		t.Errorf("the stream ends in %q", body[max(0, len(body)-40):])
	}
}

// checkToolMessages asserts that the model got the results in the order of its calls, not of their ends.
func checkToolMessages(t *testing.T, r *rig.Rig) {
	t.Helper()
	requests := r.LLM.Requests()
	if len(requests) != 3 {
		t.Fatalf("%d segments, want 3", len(requests))
	}
	var got []string
	for _, m := range requests[2].Chat.Messages {
		if m.Role == "tool" {
			got = append(got, m.ToolCallID+": "+m.Text())
		}
	}
	want := []string{"call_1: 5 and 7", "call_2: waited 1.2 s", "call_3: Result: 12"}
	if !slices.Equal(got, want) {
		t.Errorf("tool messages %q, want %q", got, want)
	}
}

var keepaliveLines = regexp.MustCompile(`(?m)^: keep-alive.*\n`)

func withoutKeepalives(body string) string { return keepaliveLines.ReplaceAllString(body, "") }

// golden compares with a file in testdata; -update writes it.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

// TestStreamIsLive asserts that text reaches the client while the model is still writing it.
func TestStreamIsLive(t *testing.T) {
	on(t, all(), func(t *testing.T, v variant) {
		const role = `data: {"id":"x","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"Hello"},"finish_reason":null}]}` + "\n\n"
		r := start(t, v, setup{
			config: fmt.Sprintf("servers:\n  calc: {command: [%q]}\n", addServer),
			brain:  llm.Always(llm.Hang(llm.Chunk{Bytes: role})),
		})
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		response := open(t, ctx, r, ask(true, "hello"))
		defer response.Body.Close()
		first := make([]byte, 4096)
		n, err := response.Body.Read(first)
		if err != nil || !strings.Contains(string(first[:n]), "Hello") {
			t.Errorf("the first bytes are %q, %v", first[:n], err)
		}
	})
}
