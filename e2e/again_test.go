package e2e

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/mcp-via-llm/mcp-via-llm/e2e/llm"
)

// TestSameRequestAgain asserts that a request that is sent again after its turn broke goes on from there: the call that
// had finished does not run twice.
func TestSameRequestAgain(t *testing.T) {
	on(t, all(), func(t *testing.T, v variant) {
		b, url := bench(t)
		r := start(t, v, setup{config: fmt.Sprintf("servers:\n  bench: {url: %q, optional: false}\n", url)})
		for n, stream := range []bool{false, true} {
			r.LLM.Use(llm.Sequence(
				llm.Calls(llm.Call("c", "bench__count", `{}`)),
				llm.Raw(http.StatusInternalServerError, nil, `{"error":{"message":"overloaded","type":"server_error"}}`),
				llm.Text("Counted."),
			))
			body := ask(stream, "count")
			broken := post(t, r, body)
			if !stream && broken.status != 500 {
				t.Errorf("the broken turn: status %d, body %s", broken.status, broken.body)
			}
			got := post(t, r, body)
			if got.status != 200 || withoutEnvelope(t, got.body, stream) != "Counted." {
				t.Errorf("stream %v: status %d, body %s", stream, got.status, got.body)
			}
			if calls := b.Calls("count"); calls != n+1 {
				t.Errorf("stream %v: the tool ran %d times, want %d", stream, calls, n+1)
			}
			messages := waitRequest(t, r, 3).Chat.Messages
			if last := messages[len(messages)-1]; last.Role != "tool" || last.Text() != fmt.Sprint(n+1) {
				t.Errorf("stream %v: the model got %+v %s", stream, last, last.Content)
			}
		}
	})
}
