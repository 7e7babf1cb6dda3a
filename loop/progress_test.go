package loop

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// What a server tells of its progress goes out with the keep-alives, in one line,
// whatever it writes; when the call has ended that is old news.
func TestProgress(t *testing.T) {
	for style, want := range map[string]string{
		"comment": ": keep-alive mcp_wx__now 3/10 one line data: {}\n" +
			": keep-alive mcp_wx__now 0.25\n" +
			": keep-alive mcp_wx__now 7 " + strings.Repeat("x", maxNote-15) + "…\n" +
			": keep-alive\n",
		"chunk": "",
	} {
		synctest.Test(t, func(t *testing.T) {
			rigs, _, _ := replicas(t, 1)
			g := rigs[0]
			g.client.KeepaliveStyle = style
			g.tools.run = func(ctx context.Context, _, _ string) Result {
				if tell := ProgressFrom(ctx); tell != nil {
					tell("s", "now", "overwritten", 1, 10)
					tell("s", "now", "one\r\nline\n\ndata: {}", 3, 10)
					time.Sleep(11 * time.Second)
					tell("s", "now", "", 0.25, 0)
					time.Sleep(10 * time.Second)
					tell("s", "now", strings.Repeat("x", 1000), 7, 0)
					time.Sleep(10 * time.Second)
				}
				return Result{Text: "sunny", Outcome: "ok"}
			}
			g.answer(streamed(asStream(calls("mcp_wx__now", "{}"))), func(r *http.Request) (*http.Response, error) {
				time.Sleep(10 * time.Second)
				return streamed(asStream(says("Sunny.")))(r)
			})
			body := g.post(question + `,"stream":true}`).Body.String()
			var comments string
			for line := range strings.Lines(body) {
				if strings.HasPrefix(line, ":") {
					comments += line
				}
			}
			if comments != want {
				t.Errorf("%s: %q, want %q", style, comments, want)
			}
			if s := read(body); s.text != "Sunny." || s.dones != 1 {
				t.Errorf("%s: %s", style, body)
			}
		})
	}
}
