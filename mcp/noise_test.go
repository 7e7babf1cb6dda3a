package mcp

import (
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"pgregory.net/rapid"
)

// around are things that servers print on the line of an answer.
var around = map[string]struct{ before, after string }{
	"text":              {"processing... ", ""},
	"a prompt":          {"> ", ""},
	"text after":        {"", " done"},
	"both":              {"[1/2] ", " [2/2]"},
	"a cleared line":    {"\x1b[2K\x1b[1G", ""},
	"colours":           {"\x1b[32mINFO\x1b[0m ", "\x1b[0m"},
	"a title":           {"\x1b]0;server\x07", ""},
	"a spinner":         {"⠋ working\r\x1b[K", ""},
	"a progress bar":    {" 10%|█ | 1/10\r100%|██| 10/10\r", ""},
	"a byte order mark": {"\ufeff", ""},
	"null bytes":        {"\x00\x00", ""},
	"a notification":    {`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}`, ""},
	"one behind":        {"", `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}`},
	"a log in JSON":     {`{"level":"info","call":{"id":1,"method":"tools/call"}} `, ""},
	"a dict":            {`got {'name': 'run'} `, ""},
	"braces":            {`{{ {0} {`, "}"},
	"its request":       {`received {"jsonrpc":"2.0","id":ID,"method":"tools/call","params":{"name":"run"}} `, ""},
	"the answer again":  {"", `{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"second"}]}}`},
}

// What shares the line of an answer costs neither it nor the session, whatever the answer
// is to.
func TestNoiseOnTheLine(t *testing.T) {
	for name, noise := range around {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			answer := func(result string) []string {
				return []string{noise.before + `{"jsonrpc":"2.0","id":ID,"result":` + result + `}` + noise.after}
			}
			cfg, seen := lines(t, "box", map[string][]string{
				"initialize": answer(`{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"l","version":"1"}}`),
				"tools/list": answer(`{"tools":[{"name":"run","inputSchema":{"type":"object"}}]}`),
				"tools/call": answer(`{"content":[{"type":"text","text":"{ \" done }"}]}`),
			})
			b := toolsOf(t, newTestHost(t, cfg), "box").Bind(nil)
			for range 3 {
				if res := b.Call(t.Context(), "box__run", ""); res.Text != `{ " done }` {
					t.Errorf("%+v", res)
				}
			}
			for _, m := range seen() {
				if m.get("error").Exists() {
					t.Errorf("answered to the server's own log: %s", m.body)
				}
			}
		})
	}
}

// What another server answered, in the log of one that passes calls on, is not the answer,
// even if the ids are the same.
func TestQuotedAnswers(t *testing.T) {
	for name, quoted := range map[string]string{
		"a result": `[upstream] <- {"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"other"}],"tools":[]}}`,
		"an error": `WARN {"jsonrpc":"2.0","id":ID,"error":{"code":-32000,"message":"other"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			answer := func(result string) []string {
				return []string{quoted, `{"jsonrpc":"2.0","id":ID,"result":` + result + `}`}
			}
			cfg, _ := lines(t, "box", map[string][]string{
				"initialize": answer(`{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"l","version":"1"}}`),
				"tools/list": answer(`{"tools":[{"name":"run","inputSchema":{"type":"object"}}]}`),
				"tools/call": answer(`{"content":[{"type":"text","text":"own"}]}`),
			})
			b := toolsOf(t, newTestHost(t, cfg), "box").Bind(nil)
			for range 3 {
				if res := b.Call(t.Context(), "box__run", ""); res.Text != "own" {
					t.Errorf("%+v", res)
				}
			}
		})
	}
}

// A message that does not decode hides nothing that would count as one, and neither do
// lines of a log.
func TestNoMessagesInData(t *testing.T) {
	const planted = `{"jsonrpc":"2.0","id":7,"result":{}}`
	for line, want := range map[string]int{
		`x {"jsonrpc":"2.0","id":1,"result":{"x":NaN,"data":` + planted + `}}`:      0,
		`x {"level":"info","data":` + planted + `,"jsonrpc":1}`:                     0,
		`x {"jsonrpc":"2.0","id":1,"method":"ping"}`:                                0,
		`x {"jsonrpc":"2.0","method":"notifications/cancelled"}`:                    0,
		`x {"jsonrpc":"2.0","id":1,"method":"roots/list"}`:                          1,
		`x {"jsonrpc":"2.0","id":1,"method":"sampling/createMessage","params":{}}`:  1,
		`x {"jsonrpc":"2.0","method":"notifications/progress"}` + planted + planted: 3,
		planted + planted + ` end`:                                                  2,
		`{"jsonrpc":"2.0","id":1,"method":"ping"}` + planted:                        2,
		strings.Repeat("{", maxStarts) + planted:                                    0,
	} {
		if msgs, _, _ := buried([]byte(line)); len(msgs) != want {
			t.Errorf("%s: %d messages", line, len(msgs))
		}
	}
}

// However messages are joined, and whatever is between them, each is found once, in order.
func TestJoinedMessages(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 8).Draw(t, "messages")
		gaps := rapid.SampledFrom([]string{"", " ", "\t", "\r", "\x1b[0m", "\x00", "ok ", "{'a'} ", "} ", `{"level":"info"}`})
		var line strings.Builder
		for i := range n {
			line.WriteString(gaps.Draw(t, "gap") + `{"jsonrpc":"2.0","id":` + string(rune('0'+i)) + `,"result":{"{":"}\""}}`)
		}
		msgs, _, broken := buried([]byte(line.String() + gaps.Draw(t, "end")))
		if len(msgs) != n || broken != nil {
			t.Fatalf("%d messages in %q", len(msgs), line.String())
		}
		for i, msg := range msgs {
			if msg.(*jsonrpc.Response).ID.Raw() != int64(i) {
				t.Errorf("%d: %+v", i, msg)
			}
		}
	})
}
