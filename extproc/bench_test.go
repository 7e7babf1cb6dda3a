package extproc

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// BenchmarkTurn compares a copying handler behind the filter with the same
// Envoy without it.
func BenchmarkTurn(b *testing.B) {
	r := newRig(b, flavour{mainVersion, "override"}, rigOptions{})
	body := strings.Repeat("x", 4096)
	for _, listener := range []string{"main", "loop"} {
		b.Run(map[string]string{"main": "filter", "loop": "plain"}[listener], func(b *testing.B) {
			for b.Loop() {
				resp, err := r.client.Post("http://"+r.addr(listener)+"/x", "application/json", strings.NewReader(body))
				if err != nil {
					b.Fatal(err)
				}
				if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusOK {
					b.Fatal(resp.Status, err)
				}
				_ = resp.Body.Close()
			}
		})
	}
}
