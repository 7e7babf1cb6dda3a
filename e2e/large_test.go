package e2e

import (
	"strings"
	"testing"

	"github.com/mcp-via-llm/mcp-via-llm/e2e/llm"
)

// TestLargeBodies asserts that bodies from small to 30 MB arrive once and whole, and large answers return whole.
func TestLargeBodies(t *testing.T) {
	on(t, all(), func(t *testing.T, v variant) {
		r := start(t, v, setup{config: addConfig("")})
		for _, size := range []int{10, 64 << 10, 130_000, 1 << 20, 30_000_000} {
			r.LLM.Use(llm.Always(llm.Text("hello")))
			body := ask(false, strings.Repeat("x", size))
			if got := post(t, r, body); got.status != 200 || parse(t, got.body).text() != "hello" {
				t.Fatalf("%d bytes: status %d, body %.300s", size, got.status, got.body)
			}
			arrived := string(r.LLM.Requests()[0].Body)
			if added := inserted(t, body, arrived); !strings.Contains(added, `"calc__add_numbers"`) {
				t.Errorf("%d bytes: the LLM got %d bytes more", size, len(arrived)-len(body))
			}
		}
		const words = 4_000_000
		r.LLM.Use(llm.Always(llm.Text(strings.Repeat("word ", words))))
		got := post(t, r, ask(false, "talk"))
		if text := parse(t, got.body).text(); len(text) != 5*words {
			t.Errorf("%d bytes of text, want %d", len(text), 5*words)
		}
	})
}
