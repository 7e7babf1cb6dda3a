package e2e

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mcp-via-llm/mcp-via-llm/e2e/llm"
	"github.com/mcp-via-llm/mcp-via-llm/e2e/mcpserver"
	"github.com/mcp-via-llm/mcp-via-llm/e2e/rig"
)

// eventually polls until a condition holds.
func eventually(t *testing.T, limit time.Duration, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(limit); !condition(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("not within " + limit.String() + ": " + what)
		}
	}
}

func addConfig(more string) string {
	return fmt.Sprintf("servers:\n  calc: {command: [%q], optional: false}\n%s", addServer, more)
}

// TestServiceDown asserts what the client gets while the service is not there, and that all is well again when it is.
func TestServiceDown(t *testing.T) {
	override := current()[:1]
	t.Run("open", func(t *testing.T) {
		on(t, override, func(t *testing.T, v variant) {
			r := start(t, v, setup{config: addConfig(""), failOpen: true, brain: llm.Always(llm.Text("hello"))})
			r.Service.Kill()
			body := ask(false, "hi")
			got := post(t, r, body)
			request := waitRequest(t, r, 1)
			if got.status != 200 || parse(t, got.body).text() != "hello" || string(request.Body) != body {
				t.Errorf("status %d, body %s; the LLM got %s", got.status, got.body, request.Body)
			}
			comesBack(t, r)
		})
	})
	t.Run("closed", func(t *testing.T) {
		on(t, all(), func(t *testing.T, v variant) {
			r := start(t, v, setup{config: addConfig(""), brain: llm.Always(llm.Text("hello"))})
			r.Service.Kill()
			got := post(t, r, ask(false, "hi"))
			if got.status != 503 || len(r.LLM.Requests()) != 0 {
				t.Errorf("status %d, body %s, %d requests at the LLM", got.status, got.body, len(r.LLM.Requests()))
			}
			comesBack(t, r)
		})
	})
}

// comesBack starts the service again and asserts that turns have tools again.
func comesBack(t *testing.T, r *rig.Rig) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startLimit)
	defer cancel()
	if err := r.StartService(ctx); err != nil {
		t.Fatal(err)
	}
	eventually(t, turnLimit, "turns have tools again", func() bool {
		r.LLM.Use(llm.Always(llm.Text("hello")))
		got := post(t, r, ask(false, "hi"))
		requests := r.LLM.Requests()
		return got.status == 200 && len(requests) == 1 && slices.Equal(requests[0].ToolNames(), []string{"calc__add_numbers"})
	})
}

// TestServiceKilled asserts that a turn whose service dies ends at once, and never looks complete.
func TestServiceKilled(t *testing.T) {
	on(t, all(), func(t *testing.T, v variant) {
		r := start(t, v, setup{config: addConfig("")})
		for _, stream := range []bool{true, false} {
			r.LLM.Use(llm.Sequence(
				llm.Answer{Text: "Let me see.", Calls: []llm.ToolCall{llm.Call("c", "calc__add_numbers", `{"a":1,"b":2}`)}}.Step(), llm.Hang()))
			time.AfterFunc(0, func() {
				ctx, cancel := context.WithTimeout(t.Context(), turnLimit)
				defer cancel()
				if _, err := r.LLM.Wait(ctx, 2); err == nil {
					r.Service.Kill()
				}
			})
			ctx, cancel := context.WithTimeout(t.Context(), turnLimit)
			response := open(t, ctx, r, ask(stream, "add"))
			data, err := io.ReadAll(response.Body)
			response.Body.Close()
			cancel()
			if ctx.Err() == context.DeadlineExceeded {
				t.Error("the turn hangs")
			}
			complete := strings.Contains(string(data), "[DONE]") || strings.Contains(string(data), `"finish_reason":"stop"`)
			if complete || !stream && response.StatusCode < 500 {
				t.Errorf("stream %v: status %d, error %v, body %s", stream, response.StatusCode, err, data)
			}
			if _, err := waitRequest(t, r, 2).WaitAborted(t.Context()); err != nil {
				t.Error(err)
			}
			comesBack(t, r)
		}
	})
}

// TestDrain asserts that SIGTERM lets the running turn finish, refuses new ones, and ends with code 0.
func TestDrain(t *testing.T) {
	on(t, all(), func(t *testing.T, v variant) {
		b, url := bench(t)
		r := start(t, v, setup{config: fmt.Sprintf("servers:\n  bench: {url: %q, optional: false}\ndrain_timeout: 20s\n", url)})
		r.LLM.Use(func(request *llm.Request) llm.Step {
			switch messages := request.Chat.Messages; {
			case messages[len(messages)-1].Role == "tool":
				return llm.Text("Done.")
			case strings.HasPrefix(messages[0].Text(), "wait"):
				return llm.Calls(llm.Call("c", "bench__slow", `{"seconds":1.5}`))
			}
			return llm.Text("hello")
		})
		finished := make(chan answer, 1)
		go func() {
			response, err := send(t.Context(), r, ask(true, "wait"))
			if err != nil {
				close(finished)
				return
			}
			defer response.Body.Close()
			data, _ := io.ReadAll(response.Body) // a cut shows as a missing end
			finished <- answer{status: response.StatusCode, body: string(data)}
		}()
		await(t, b.Started(), "slow", "the tool did not start")
		if err := r.Service.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		eventually(t, turnLimit, "new turns are refused", func() bool {
			return post(t, r, ask(false, "new")).status >= 500
		})
		if ready, err := plainClient.Get(r.Admin + "/readyz"); err != nil {
			t.Error(err)
		} else if ready.Body.Close(); ready.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("/readyz says %d while the service drains", ready.StatusCode)
		}
		got := <-finished
		if s := parseStream(t, got.body); s.text != "Done." || s.done != 1 {
			t.Errorf("the running turn got %d %s", got.status, got.body)
		}
		select {
		case <-r.Service.Done():
			if code := r.Service.ExitCode(); code != 0 {
				t.Errorf("exit code %d", code)
			}
		case <-time.After(turnLimit):
			t.Error("the service did not end")
		}
	})
}

// TestReload asserts that an invalid file is refused, logged and counted while the old configuration stays, and that
// a valid one is taken up within two seconds.
func TestReload(t *testing.T) {
	on(t, current()[:1], func(t *testing.T, v variant) {
		r := start(t, v, setup{config: addConfig("")})
		names := func() []string {
			r.LLM.Use(llm.Always(llm.Text("hello")))
			if got := post(t, r, ask(false, "hi")); got.status != 200 {
				t.Fatalf("status %d, body %s", got.status, got.body)
			}
			return r.LLM.Requests()[0].ToolNames()
		}
		if err := r.WriteRaw("servers:\n  calc: {comand: [x]}\n"); err != nil {
			t.Fatal(err)
		}
		eventually(t, turnLimit, "the refusal is logged", func() bool { return strings.Contains(r.Service.Log(), "comand") })
		if got := names(); !slices.Equal(got, []string{"calc__add_numbers"}) {
			t.Errorf("after an invalid file: functions %q", got)
		}
		if metrics := rig.Get(t, r.Admin+"/metrics"); !counted(metrics, "reload") {
			t.Error("no metric counts the refused reload")
		}
		if err := r.WriteConfig(strings.Replace(addConfig(""), "calc:", "sums:", 1)); err != nil {
			t.Fatal(err)
		}
		eventually(t, 3*time.Second, "the new file is in force", func() bool {
			return slices.Equal(names(), []string{"sums__add_numbers"})
		})
	})
}

// counted tells whether a metric whose name has word in it is above zero.
func counted(metrics, word string) bool {
	for line := range strings.Lines(metrics) {
		if !strings.HasPrefix(line, "#") && strings.Contains(line, word) && !strings.HasSuffix(strings.TrimSpace(line), " 0") {
			return true
		}
	}
	return false
}

// TestServersUnavailable asserts that a turn goes on without the tools of servers that are down or slow, names them,
// and has their tools when they come back.
func TestServersUnavailable(t *testing.T) {
	on(t, current()[:1], func(t *testing.T, v variant) {
		free, err := rig.FreePorts(1)
		if err != nil {
			t.Fatal(err)
		}
		silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts and never answers
		if err != nil {
			t.Fatal(err)
		}
		defer silent.Close()
		r := start(t, v, setup{brain: llm.Always(llm.Text("hello")), config: addConfig(fmt.Sprintf(`
  broken: {command: [/nonexistent/server]}
  late:   {url: "http://%s"}
  slow:   {url: "http://%s", connect_timeout: 1s}
`, free[0], silent.Addr()))})
		begin := time.Now()
		got := post(t, r, ask(false, "hi"))
		ext := parse(t, got.body).extension(t)
		if want := []string{"broken", "late", "slow"}; got.status != 200 || !slices.Equal(ext.ServersUnavailable, want) {
			t.Errorf("status %d, servers_unavailable %q, want %q", got.status, ext.ServersUnavailable, want)
		}
		if took := time.Since(begin); took > 3*time.Second {
			t.Errorf("the turn took %v, want no more than the slow server's connect_timeout", took)
		}
		if names := r.LLM.Requests()[0].ToolNames(); !slices.Equal(names, []string{"calc__add_numbers"}) {
			t.Errorf("functions %q", names)
		}
		listener, err := net.Listen("tcp", free[0])
		if err != nil {
			t.Fatal(err)
		}
		server := &http.Server{Handler: mcpserver.HTTP(mcpserver.NewAdd(), false, nil), ReadHeaderTimeout: time.Minute}
		defer server.Close()
		go server.Serve(listener) // ends with Close
		eventually(t, turnLimit, "the server's tools come back", func() bool {
			r.LLM.Use(llm.Always(llm.Text("hello")))
			ext := parse(t, post(t, r, ask(false, "hi")).body).extension(t)
			return slices.Contains(r.LLM.Requests()[0].ToolNames(), "late__add_numbers") && !slices.Contains(ext.ServersUnavailable, "late")
		})
	})
}
