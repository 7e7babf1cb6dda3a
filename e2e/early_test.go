package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/mcp-via-llm/mcp-via-llm/e2e/llm"
)

// late answers with headers at once and the same answer's events only after a while.
func late(d time.Duration, text string) llm.Step {
	return func(w http.ResponseWriter, r *llm.Request) {
		chunks := llm.Answer{Text: text, Prompt: 10, Output: 5}.Chunks(r)
		chunks[0].After = d
		llm.SSE(chunks...)(w, r)
	}
}

// TestLateFirstByte asserts that a provider whose headers come long before its first byte is waited for in silence, and
// that nothing of the answer is lost: a long prompt or a reasoning model looks like this.
func TestLateFirstByte(t *testing.T) {
	on(t, all(), func(t *testing.T, v variant) {
		b, url := bench(t)
		r := start(t, v, setup{config: fmt.Sprintf(`
servers:
  bench: {url: %q, optional: false}
clients:
  default: {keepalive: 100ms, loop_timeout: 2s}
`, url)})
		t.Run("the first segment", func(t *testing.T) {
			r.LLM.Use(llm.Sequence(late(700*time.Millisecond, "Late.")))
			got := post(t, r, ask(true, "hi"))
			if got.status != 200 || strings.Contains(got.body, "keep-alive") || withoutEnvelope(t, got.body, true) != "Late." {
				t.Errorf("status %d, body %s", got.status, got.body)
			}
		})
		t.Run("the first segment after a broken attempt", func(t *testing.T) {
			r.LLM.Use(llm.Sequence(
				llm.Answer{Text: "Counting.", Calls: []llm.ToolCall{llm.Call("c", "bench__count", `{}`)}, Prompt: 10, Output: 5}.Step(),
				llm.Raw(http.StatusServiceUnavailable, nil, `{"error":{"message":"overloaded"}}`),
				late(300*time.Millisecond, "Counted."),
			))
			before := b.Calls("count")
			body := ask(true, "count")
			post(t, r, body)
			got := post(t, r, body)
			if got.status != 200 || withoutEnvelope(t, got.body, true) != "Counting.\n\nCounted." || b.Calls("count") != before+1 {
				t.Errorf("status %d, %d calls, body %s", got.status, b.Calls("count")-before, got.body)
			}
		})
		t.Run("never", func(t *testing.T) {
			for n := range 4 {
				stream, headers := n%2 == 0, n/2 == 0
				r.LLM.Use(llm.Sequence(llm.Hang()))
				if headers {
					r.LLM.Use(llm.Sequence(llm.Hang(llm.Chunk{}))) // nothing but headers
				}
				got := post(t, r, ask(stream, "hi"))
				if code := parse(t, got.body).Error; got.status != http.StatusGatewayTimeout || code == nil || code.Code == nil || *code.Code != "loop_timeout" {
					t.Errorf("stream %v, headers %v: status %d, body %s", stream, headers, got.status, got.body)
				}
			}
		})
	})
}
