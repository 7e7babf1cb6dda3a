package e2e

import (
	"bufio"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"path/filepath"
	"testing"
	"time"

	"github.com/mcp-via-llm/mcp-via-llm/e2e/llm"
	"github.com/mcp-via-llm/mcp-via-llm/e2e/mcpserver"
	"github.com/mcp-via-llm/mcp-via-llm/e2e/rig"
)

// cancelLimit is how soon after its client has gone the work of a turn must have ended.
const cancelLimit = time.Second

// TestClientGoesAway closes the client's connection in each phase of a turn: the LLM's and the MCP server's work is
// cancelled within a second, no further segment begins, and no goroutine stays behind.
func TestClientGoesAway(t *testing.T) {
	on(t, all(), func(t *testing.T, v variant) {
		b, url := bench(t)
		wire := filepath.Join(t.TempDir(), "mcp.jsonl")
		r := start(t, v, setup{config: fmt.Sprintf(`
servers:
  bench: {url: %q, optional: false}
  local: {command: [%q, -bench, -record, %q], optional: false}
clients:
  default: {servers: [bench, local], keepalive: 200ms}
`, url, addServer, wire)})
		phases := []struct {
			name string
			run  func(*testing.T, *rig.Rig, *mcpserver.Bench)
		}{
			{"before the first byte", func(t *testing.T, r *rig.Rig, _ *mcpserver.Bench) { leaveFirstSegment(t, r, true) }},
			{"whole answer, before it", func(t *testing.T, r *rig.Rig, _ *mcpserver.Bench) { leaveFirstSegment(t, r, false) }},
			{"in the stream", leaveStream},
			{"in a tool", func(t *testing.T, r *rig.Rig, b *mcpserver.Bench) { leaveTool(t, r, b, true) }},
			{"whole answer, in a tool", func(t *testing.T, r *rig.Rig, b *mcpserver.Bench) { leaveTool(t, r, b, false) }},
			{"in a tool over stdio", func(t *testing.T, r *rig.Rig, _ *mcpserver.Bench) { leaveLocalTool(t, r, wire) }},
			{"in the second segment", func(t *testing.T, r *rig.Rig, _ *mcpserver.Bench) { leaveSecondSegment(t, r, true) }},
			{"whole answer, in the second segment", func(t *testing.T, r *rig.Rig, _ *mcpserver.Bench) { leaveSecondSegment(t, r, false) }},
		}
		round := func(t *testing.T) {
			for _, phase := range phases {
				t.Run(phase.name, func(t *testing.T) { phase.run(t, r, b) })
			}
		}
		t.Run("first", round) // fills the connection pools
		// A pool may keep a connection or two more than before, of two goroutines each. What stays behind in a phase
		// stays behind in each of the five rounds.
		limit := settled(t, r) + 4
		for n := range 5 {
			t.Run(fmt.Sprint("again ", n), round)
		}
		for deadline := time.Now().Add(5 * time.Second); goroutines(t, r) > limit; time.Sleep(50 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%d goroutines, want %d or fewer:\n%s", goroutines(t, r), limit, rig.Get(t, r.Admin+"/debug/pprof/goroutine?debug=1"))
			}
		}
	})
}

// leave sends a request in the background and returns how to close its connection.
func leave(t *testing.T, r *rig.Rig, stream bool) context.CancelFunc {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		// No two are alike: the same request again would go on where the last one was left.
		response, err := send(ctx, r, ask(stream, "hi "+rand.Text()))
		if err != nil {
			return // the test has left, as it means to
		}
		defer response.Body.Close()
		io.Copy(io.Discard, response.Body) // ends when the test leaves
	}()
	return func() {
		cancel()
		<-done
	}
}

func waitRequest(t *testing.T, r *rig.Rig, n int) *llm.Request {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), turnLimit)
	defer cancel()
	request, err := r.LLM.Wait(ctx, n)
	if err != nil {
		t.Fatal(err)
	}
	return request
}

// wantAborted asserts that the LLM's caller goes away within the limit.
func wantAborted(t *testing.T, request *llm.Request, left time.Time) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), turnLimit)
	defer cancel()
	at, err := request.WaitAborted(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if took := at.Sub(left); took > cancelLimit {
		t.Errorf("segment %d was cancelled %v after the client had gone", request.Number, took)
	}
}

func leaveFirstSegment(t *testing.T, r *rig.Rig, stream bool) {
	r.LLM.Use(llm.Always(llm.Hang()))
	cancel := leave(t, r, stream)
	request := waitRequest(t, r, 1)
	left := time.Now()
	cancel()
	wantAborted(t, request, left)
}

func leaveStream(t *testing.T, r *rig.Rig, _ *mcpserver.Bench) {
	r.LLM.Use(llm.Always(llm.Hang(llm.Chunk{
		Bytes: `data: {"id":"x","choices":[{"index":0,"delta":{"role":"assistant","content":"Hello"}}]}` + "\n\n",
	})))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	response := open(t, ctx, r, ask(true, "hi"))
	defer response.Body.Close()
	if _, err := bufio.NewReader(response.Body).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	request := waitRequest(t, r, 1)
	left := time.Now()
	cancel()
	wantAborted(t, request, left)
}

func leaveTool(t *testing.T, r *rig.Rig, b *mcpserver.Bench, stream bool) {
	r.LLM.Use(llm.Sequence(llm.Calls(llm.Call("c", "bench__slow", `{"seconds":20}`))))
	cancel := leave(t, r, stream)
	await(t, b.Started(), "slow", "the tool did not start")
	left := time.Now()
	cancel()
	await(t, b.Cancelled(), "slow", "the tool was not cancelled")
	if took := time.Since(left); took > cancelLimit {
		t.Errorf("the tool was cancelled %v after the client had gone", took)
	}
	if n := len(r.LLM.Requests()); n != 1 {
		t.Errorf("%d segments, want no further one", n)
	}
}

// leaveLocalTool looks for notifications/cancelled on the wire of a stdio server.
func leaveLocalTool(t *testing.T, r *rig.Rig, wire string) {
	count := func(method string) (n int) {
		messages, err := mcpserver.ReadMessages(wire)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range messages {
			if m.Received && m.Method() == method {
				n++
			}
		}
		return n
	}
	calls, cancellations := count("tools/call"), count("notifications/cancelled")
	r.LLM.Use(llm.Sequence(llm.Calls(llm.Call("c", "local__slow", `{"seconds":20}`))))
	cancel := leave(t, r, true)
	eventually(t, turnLimit, "the tool is called", func() bool { return count("tools/call") > calls })
	cancel()
	eventually(t, cancelLimit, "the call is cancelled", func() bool { return count("notifications/cancelled") > cancellations })
}

func leaveSecondSegment(t *testing.T, r *rig.Rig, stream bool) {
	r.LLM.Use(llm.Sequence(llm.Calls(llm.Call("c", "bench__echo", `{"text":"hi"}`)), llm.Hang()))
	cancel := leave(t, r, stream)
	request := waitRequest(t, r, 2)
	left := time.Now()
	cancel()
	wantAborted(t, request, left)
}

// await waits until events brings a name.
func await(t *testing.T, events <-chan string, name, otherwise string) {
	t.Helper()
	limit := time.After(turnLimit)
	for {
		select {
		case event := <-events:
			if event == name {
				return
			}
		case <-limit:
			t.Fatal(otherwise)
		}
	}
}

// settled returns the number of goroutines once it has stayed the same for a while.
func settled(t *testing.T, r *rig.Rig) int {
	t.Helper()
	count, same := goroutines(t, r), 0
	for range 100 {
		time.Sleep(50 * time.Millisecond)
		if now := goroutines(t, r); now != count {
			count, same = now, 0
		} else if same++; same == 10 {
			break
		}
	}
	return count
}

func goroutines(t *testing.T, r *rig.Rig) int {
	t.Helper()
	var total int
	if _, err := fmt.Sscanf(rig.Get(t, r.Admin+"/debug/pprof/goroutine?debug=1"), "goroutine profile: total %d", &total); err != nil {
		t.Fatal(err)
	}
	return total
}
