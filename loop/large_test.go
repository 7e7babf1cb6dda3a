package loop

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/tidwall/gjson"
)

func large(context.Context, string, string) Result {
	return Result{Text: "begin " + strings.Repeat("row\n", 50_000) + " end", Outcome: "ok"}
}

// The results of a turn together have a limit, which holds before they are stored.
func TestResultsOfATurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rigs, _, _ := replicas(t, 1)
		g := rigs[0]
		g.tools.run, g.client.TurnMaxBytes, g.client.HistoryMaxBytes = large, 300_000, 0
		g.answer(whole(calls("mcp_wx__now", "{}", "mcp_fs__read", "{}", "mcp_db__row", "{}")), whole(says("Long.")), whole(says("Still.")))
		g.post(chatOf(`{"role":"user","content":"all"}`))
		g.post(chatOf(`{"role":"user","content":"all"}`, `{"role":"assistant","content":"Long."}`, `{"role":"user","content":"and?"}`))
		for n := 2; n <= 3; n++ {
			total := 0
			for _, m := range gjson.Get(g.model.asked(n), `messages.#(role=="tool")#.content`).Array() {
				total += len(m.String())
				if !strings.HasPrefix(m.String(), "begin ") || !strings.HasSuffix(m.String(), " end") {
					t.Errorf("request %d: a result lost its beginning or end", n)
				}
			}
			if total < 290_000 || total > 300_000+2*leastRoom {
				t.Errorf("request %d has %d bytes of results", n, total)
			}
		}
	})
}

// A provider that refuses what the calls gave gets less of it when the request
// comes again, and no call runs twice.
func TestRefusedResults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const tooLong = `{"error":{"message":"maximum context length","type":"invalid_request_error","code":"context_length_exceeded"}}`
		rigs, _, _ := replicas(t, 2)
		for _, g := range rigs {
			g.tools.run = large
		}
		rigs[0].answer(whole(calls("mcp_fs__write", "{}")), respond(400, "application/json", tooLong))
		if w := rigs[0].post(chatOf(asks)); w.Code != 400 || w.Body.String() != tooLong {
			t.Errorf("%d %s", w.Code, w.Body)
		}
		rigs[1].answer(whole(says("Short.")))
		w := rigs[1].post(chatOf(asks))
		result := gjson.Get(rigs[1].model.asked(1), `messages.#(role=="tool").content`).String()
		if w.Code != 200 || len(result) > refusedMax || !strings.HasSuffix(result, " end") {
			t.Errorf("%d %s: %d bytes", w.Code, w.Body, len(result))
		}
		if n := len(rigs[0].tools.made()) + len(rigs[1].tools.made()); n != 1 {
			t.Errorf("the call ran %d times", n)
		}
	})
}

// The headers of an earlier segment's body say nothing of a later one's error.
func TestErrorHasItsOwnLength(t *testing.T) {
	g := newRig(func(r *http.Request) (*http.Response, error) {
		resp, err := whole(calls("mcp_wx__now", "{}"))(r)
		resp.Header.Set("Content-Length", "358")
		return resp, err
	}, respond(429, "application/json", `{"error":{"message":"slow down"}}`))
	if w := g.post(chatOf(asks)); w.Code != 429 || w.Header().Get("Content-Length") != "" {
		t.Errorf("%d %v", w.Code, w.Header())
	}
}
