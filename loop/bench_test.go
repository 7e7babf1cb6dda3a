package loop

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mcp-via-llm/mcp-via-llm/chat"
)

// BenchmarkConversation recognises a conversation of about the given size.
func BenchmarkConversation(b *testing.B) {
	for _, size := range []int{1 << 10, 100 << 10, 1 << 20} {
		var body strings.Builder
		body.WriteString(`{"model":"m","messages":[{"role":"user","content":"x"}`)
		for body.Len() < size {
			body.WriteString(`,{"role":"user","content":"And then?"},{"role":"assistant","content":"` + strings.Repeat("All work and no play. ", 20) + `"}`)
		}
		body.WriteString("]}")
		b.Run(fmt.Sprintf("%d KiB", size>>10), func(b *testing.B) {
			b.SetBytes(int64(body.Len()))
			b.ReportAllocs()
			for b.Loop() {
				r, err := chat.ParseRequest([]byte(body.String()))
				if err != nil {
					b.Fatal(err)
				}
				newConversation("scope", r.Messages())
			}
		})
	}
}
