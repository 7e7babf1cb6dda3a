package chat

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
	"pgregory.net/rapid"
)

var functions = []string{"mcp_docs__find", "mcp_wx__now", "book_table", "book_tables"}

func newRelay() *Relay {
	return &Relay{Known: func(n string) bool { return slices.Contains(functions, n) }, Hidden: func(n string) bool { return strings.HasPrefix(n, "mcp_") }}
}

// feed plays one segment and gives the reply and the chunks the client gets.
func feed(r *Relay, chunks ...string) (*Reply, []string, error) {
	var out []string
	r.Begin()
	for _, c := range chunks {
		shown, err := r.Chunk(c)
		if err != nil {
			return nil, out, err
		}
		if shown != "" {
			out = append(out, shown)
		}
	}
	reply, last, err := r.End()
	if last != "" {
		out = append(out, last)
	}
	return reply, out, err
}

// delta is a chunk with tool call entries.
func delta(entries ...string) string {
	return `{"choices":[{"index":0,"delta":{"tool_calls":[` + strings.Join(entries, ",") + `]}}]}`
}

func describe(calls []Call) string {
	var out []string
	for _, c := range calls {
		out = append(out, c.ID+" "+c.Name+" "+c.Arguments+" "+c.Bad)
	}
	return strings.Join(out, "; ")
}

func TestHowCallsArrive(t *testing.T) {
	for _, tt := range []struct {
		name string
		in   []string
		want string
	}{
		{"both fragments of interleaved calls in one chunk", []string{
			delta(`{"index":3,"id":"a","function":{"name":"mcp_docs__find","arguments":"{\"q\":"}}`, `{"index":7,"id":"b","function":{"name":"mcp_wx__now","arguments":"{\"ci"}}`),
			delta(`{"index":3,"function":{"arguments":"1}"}}`, `{"index":7,"function":{"arguments":"ty\":2}"}}`),
		}, `a mcp_docs__find {"q":1} ; b mcp_wx__now {"city":2} `},
		{"a second object for the same index is no second call", []string{
			delta(`{"index":0,"id":"a","function":{"name":"mcp_docs__find","arguments":"{\"q\":\"a\"}"}}`), delta(`{"index":0,"function":{"arguments":"{\"q\":\"b\"}"}}`),
		}, `a mcp_docs__find {} they are not valid JSON`},
		{"the whole call again with other white space", []string{
			delta(`{"index":0,"id":"a","function":{"name":"mcp_docs__find","arguments":"{\"q\":\"a\"}"}}`), delta(`{"index":0,"id":"a","function":{"name":"mcp_docs__find","arguments":"{\"q\": \"a\"}"}}`),
		}, `a mcp_docs__find {"q":"a"} `},
		{"no ids and no indexes, the same function twice", []string{
			delta(`{"function":{"name":"mcp_wx__now","arguments":"{\"c\":1}"}}`), delta(`{"function":{"name":"mcp_wx__now","arguments":"{\"c\":2}"}}`),
		}, `call_3ccf68b9fe7ae87de93aa06e mcp_wx__now {"c":1} ; call_ed1ae1d4b20c6b8c9a0a8a6e mcp_wx__now {"c":2} `},
		{"no ids, no indexes, no arguments, two functions", []string{
			delta(`{"function":{"name":"mcp_wx__now"}}`, `{"function":{"name":"book_table"}}`),
		}, `x mcp_wx__now {} ; x book_table {} `},
		{"a name that is the beginning of another", []string{
			delta(`{"index":0,"id":"a","function":{"name":"book_table"}}`), delta(`{"index":0,"function":{"name":"s","arguments":"{}"}}`),
		}, `a book_tables {} `},
		{"the same id twice", []string{
			delta(`{"index":0,"id":"a","function":{"name":"mcp_wx__now","arguments":"{}"}}`), delta(`{"index":1,"id":"a","function":{"name":"book_table","arguments":"{}"}}`),
		}, `a mcp_wx__now {} ; a_2 book_table {} `},
		{"later fragments come by id", []string{
			delta(`{"index":0,"id":"a","function":{"name":"mcp_wx__now","arguments":"{\"c\""}}`), delta(`{"index":0,"id":"b","function":{"name":"book_table","arguments":"{\"n\""}}`),
			delta(`{"index":0,"id":"a","function":{"arguments":":1}"}}`), delta(`{"index":0,"id":"b","function":{"arguments":":2}"}}`),
		}, `a mcp_wx__now {"c":1} ; b book_table {"n":2} `},
		{"arguments as an object", []string{delta(`{"index":0,"id":"a","function":{"name":"mcp_wx__now","arguments":{"c":1.0}}}`)}, `a mcp_wx__now {"c":1.0} `},
		{"a continuation of nothing", []string{delta(`{"index":0,"id":"a","function":{"name":"mcp_wx__now","arguments":"{}"}}`), delta(`{"index":5,"function":{"arguments":"{}"}}`)}, `a mcp_wx__now {} `},
		{"a character cut in two escapes", []string{
			delta(`{"index":0,"id":"a","function":{"name":"mcp_wx__now","arguments":"{\"c\":\"\ud83c"}}`), delta(`{"index":0,"function":{"arguments":"\udf4a\"}"}}`),
		}, `a mcp_wx__now {"c":"🍊"} `},
	} {
		t.Run(tt.name, func(t *testing.T) {
			reply, out, err := feed(newRelay(), append(tt.in, "[DONE]")...)
			if err != nil {
				t.Fatal(err)
			}
			got := describe(reply.Calls)
			for _, c := range reply.Calls {
				if strings.HasPrefix(c.ID, "call_") { // made up: any will do, if they differ
					got = strings.Replace(got, c.ID, "x", 1)
				}
			}
			want := tt.want
			for _, field := range strings.Fields(want) {
				if strings.HasPrefix(field, "call_") {
					want = strings.Replace(want, field, "x", 1)
				}
			}
			if got != want {
				t.Errorf("calls %q, want %q", got, want)
			}
			if shown := strings.Join(out, "\n"); strings.Contains(shown, "mcp_") {
				t.Errorf("the client sees %s", shown)
			}
			ids := map[string]bool{}
			for _, c := range reply.Calls {
				ids[c.ID] = true
			}
			if len(ids) != len(reply.Calls) || ids[""] {
				t.Errorf("ids are missing or repeat: %v", ids)
			}
		})
	}
}

// The client sees its own call with what the provider put on it.
func TestClientCallsKeepTheirMembers(t *testing.T) {
	_, out, err := feed(newRelay(),
		`{"choices":[{"index":0,"delta":{"role":"assistant","tool_calls":[{"index":0,"id":"m","function":{"name":"mcp_wx__now","arguments":"{}"},"extra_content":{"s":"hidden"}},{"index":1,"id":"b","type":"function","function":{"name":"book_table","arguments":"{","strict":true},"extra_content":{"s":"shown"}}]}}]}`,
		delta(`{"index":1,"function":{"arguments":"}"}}`), `{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`)
	if err != nil {
		t.Fatal(err)
	}
	shown := strings.Join(out, "\n")
	for _, want := range []string{`"index":0,"id":"b"`, `"strict":true`, `"extra_content":{"s":"shown"}`, `{"index":0,"function":{"arguments":"}"}}`} {
		if !strings.Contains(shown, want) {
			t.Errorf("the client does not see %s in %s", want, shown)
		}
	}
	if strings.Contains(shown, "hidden") {
		t.Errorf("the client sees %s", shown)
	}
}

// One choice at a time: what a provider sends of others is neither mixed in nor
// shown.
func TestOtherChoicesStayApart(t *testing.T) {
	reply, out, err := feed(newRelay(),
		`{"choices":[{"index":0,"delta":{"content":"A"}},{"index":1,"delta":{"tool_calls":[{"index":0,"id":"w","function":{"name":"mcp_wx__now","arguments":"{"}}]}}]}`,
		`{"choices":[{"index":1,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"}"}}]}},{"index":0,"delta":{"content":"B"}}]}`,
		`{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`, `{"choices":[{"index":1,"delta":{},"finish_reason":"tool_calls"}]}`)
	if err != nil || len(reply.Calls) != 0 || gjson.Get(reply.Message, "content").String() != "AB" || reply.Finish != "stop" {
		t.Errorf("%v %+v", err, reply)
	}
	if strings.Contains(strings.Join(out, ""), "mcp_") {
		t.Errorf("the client sees %s", out)
	}
}

func TestChunksWithoutOurChoice(t *testing.T) {
	r := newRelay()
	_, out, err := feed(r, `{"id":"","choices":[],"prompt_filter_results":[1]}`, `{"id":"x","created":5,"choices":[{"index":0,"delta":{"content":"A"},"finish_reason":"stop"}],"usage":{"total_tokens":1}}`, `{"id":"x","choices":[],"usage":{"total_tokens":2}}`, "[DONE]")
	if err != nil || len(out) != 2 || !strings.Contains(out[0], "prompt_filter_results") || strings.Contains(out[1], "usage") {
		t.Errorf("%v %s", err, out)
	}
	if r.usage != `{"total_tokens":2}` {
		t.Errorf("usage %s", r.usage)
	}
	for _, bad := range []string{`[]`, `{"choices":[`, `3`} {
		if _, _, err := feed(newRelay(), bad); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v", bad, err)
		}
	}
	for _, odd := range []string{`{}`, `{"choices":null}`, `{"choices":[{}]}`, `{"choices":[{"delta":null,"finish_reason":null}]}`, `{"choices":[{"index":0,"delta":{"tool_calls":[{}]}}]}`} {
		if _, _, err := feed(newRelay(), odd, "[DONE]"); err != nil {
			t.Errorf("%s: %v", odd, err)
		}
	}
}

func TestDialects(t *testing.T) {
	with := `{"role":"assistant","content":"","reasoning_content":"hm","tool_calls":[]}`
	bare := `{"role":"assistant","content":null,"tool_calls":[]}`
	for _, tt := range []struct {
		d        Dialect
		in, want string
	}{
		{Dialect{}, with, with}, {Dialect{}, bare, bare},
		{Dialect{Reasoning: "drop"}, with, `{"role":"assistant","content":"","tool_calls":[]}`},
		{Dialect{Reasoning: "always"}, bare, `{"role":"assistant","content":null,"tool_calls":[],"reasoning_content":""}`},
		{Dialect{Content: "null"}, with, `{"role":"assistant","content":null,"reasoning_content":"hm","tool_calls":[]}`},
		{Dialect{Content: "empty"}, bare, `{"role":"assistant","content":"","tool_calls":[]}`},
		{Dialect{Content: "omit"}, bare, `{"role":"assistant","tool_calls":[]}`},
		{Dialect{Content: "omit"}, `{"content":"text"}`, `{"content":"text"}`},
	} {
		if got := tt.d.replay(tt.in, true); got != tt.want {
			t.Errorf("%+v: %s, want %s", tt.d, got, tt.want)
		}
	}
}

func TestAddUsage(t *testing.T) {
	a := `{"prompt_tokens":1,"details":{"cached":2,"x.y":1},"cost":0.5,"tier":"a"}`
	b := `{"prompt_tokens":9007199254740993,"details":{"cached":3,"x.y":1,"new":1},"cost":0.25,"tier":"b","more":null}`
	if got := AddUsage(a, b); got != `{"prompt_tokens":9007199254740994,"details":{"cached":5,"x.y":2,"new":1},"cost":0.75,"tier":"a","more":null}` {
		t.Errorf("got %s", got)
	}
	if AddUsage("", a) != a || AddUsage(a, "") != a {
		t.Error("nothing to add changes something")
	}
}

// Arguments cut anywhere, with the id and the name sent once or again with every
// piece, make the same call.
func TestAnyCutOfArguments(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom(functions).Draw(t, "name")
		args := `{"text":` + quote(rapid.String().Draw(t, "text")) + `,"n":9007199254740993}`
		again := rapid.Bool().Draw(t, "name and id in every chunk")
		var in []string
		for rest, first := args, true; rest != ""; first = false {
			n := rapid.IntRange(1, len(rest)).Draw(t, "n")
			for n < len(rest) && rest[n]&0xC0 == 0x80 {
				n++ // JSON text is cut between characters
			}
			entry := `{"index":0,"function":{"arguments":` + quote(rest[:n]) + `}}`
			if first || again {
				entry = fmt.Sprintf(`{"index":0,"id":"a","function":{"name":%q,"arguments":%s}}`, name, quote(rest[:n]))
			}
			in, rest = append(in, delta(entry)), rest[n:]
		}
		reply, out, err := feed(newRelay(), append(in, "[DONE]")...)
		if err != nil || len(reply.Calls) != 1 || reply.Calls[0].Name != name || reply.Calls[0].Arguments != args {
			t.Fatalf("%v %+v, want %s(%s)", err, reply, name, args)
		}
		shown, names := "", ""
		for _, chunk := range out {
			shown += gjson.Get(chunk, "choices.0.delta.tool_calls.0.function.arguments").String()
			names += gjson.Get(chunk, "choices.0.delta.tool_calls.0.function.name").String()
		}
		if want := strings.HasPrefix(name, "book_"); want != (shown == args) || want != (names == name) {
			t.Fatalf("the client saw %q(%q)", names, shown)
		}
	})
}

func BenchmarkRelay(b *testing.B) {
	chunk := `{"id":"cc-1","object":"chat.completion.chunk","created":1,"model":"m-a","system_fingerprint":"fp_1","choices":[{"index":0,"delta":{"content":" word"},"logprobs":null,"finish_reason":null}]}`
	for name, segment := range map[string]int{"first segment": 1, "later segment": 2} {
		b.Run(name, func(b *testing.B) {
			r := newRelay()
			r.Begin()
			if _, err := r.Chunk(strings.Replace(chunk, "cc-1", fmt.Sprint("cc-", segment), 1)); err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(len(chunk)))
			b.ReportAllocs()
			for b.Loop() {
				if len(r.asm.members) > 0 && len(r.asm.members[0].raw) > 1<<20 {
					r.asm.members[0].raw = r.asm.members[0].raw[:0]
				}
				if out, err := r.Chunk(chunk); err != nil || out == "" {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkAssembly puts a call of an MCP tool together whose arguments come in
// fragments of some 20 bytes, as providers send them.
func BenchmarkAssembly(b *testing.B) {
	for _, size := range []int{1 << 10, 100 << 10, 1 << 20} {
		chunks := []string{delta(`{"index":0,"id":"a","function":{"name":"mcp_wx__now","arguments":"{\"text\":\""}}`)}
		for range size/20 + 1 {
			chunks = append(chunks, delta(`{"index":0,"function":{"arguments":"and so on and so on "}}`))
		}
		chunks = append(chunks, delta(`{"index":0,"function":{"arguments":"\"}"}}`), `{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`)
		in := 0
		for _, c := range chunks {
			in += len(c)
		}
		b.Run(fmt.Sprintf("%d KiB", size>>10), func(b *testing.B) {
			b.SetBytes(int64(in))
			b.ReportAllocs()
			for b.Loop() {
				if reply, _, err := feed(newRelay(), chunks...); err != nil || len(reply.Calls) != 1 || len(reply.Calls[0].Arguments) < size {
					b.Fatal(err)
				}
			}
		})
	}
}
