package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/mcp-via-llm/mcp-via-llm/e2e/llm"
	"github.com/mcp-via-llm/mcp-via-llm/e2e/mcpserver"
	"github.com/mcp-via-llm/mcp-via-llm/e2e/rig"
)

// crowd starts a server with many tools, a resource and two prompts, and returns its URL.
func crowd(t *testing.T, prefix string, tools int) string {
	t.Helper()
	s := mcp.NewServer(&mcp.Implementation{Name: prefix, Version: "1"}, nil)
	for i := range tools {
		s.AddTool(&mcp.Tool{Name: fmt.Sprintf("%s_%04d", prefix, i), Description: fmt.Sprintf("Tells the secret number %d", i),
			InputSchema: json.RawMessage(`{"type":"object","properties":{"who":{"type":"string"}},"required":["who"]}`)},
			func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprintf("secret %d for %s", i, r.Params.Arguments)}}}, nil
			})
	}
	s.AddResource(&mcp.Resource{Name: "notes", URI: "box://notes"}, func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: "box://notes", Text: "notes of " + prefix}}}, nil
	})
	for name, text := range map[string]string{"style": "Write as " + prefix + " does.", "manners": "Say please."} {
		s.AddPrompt(&mcp.Prompt{Name: name}, func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{Role: "user", Content: &mcp.TextContent{Text: text}}}}, nil
		})
	}
	server := httptest.NewServer(mcpserver.HTTP(s, true, nil))
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections)
	return server.URL
}

// TestBudget asserts that two thousand tools work with a provider that takes 128: the client's own functions stay, what
// is left out is found and called, and client and operator see that it is.
func TestBudget(t *testing.T) {
	on(t, current()[:1], func(t *testing.T, v variant) {
		r := start(t, v, setup{config: fmt.Sprintf("servers:\n  one: {url: %q, optional: false}\n  two: {url: %q, optional: false}\nclients:\n  default: {servers: [two, one]}\n  few: {servers: [one], max_tools: 5}\n",
			crowd(t, "t1", 80), crowd(t, "t2", 1900))})
		eventually(t, turnLimit, "a warning at the start", func() bool {
			return strings.Contains(r.Service.Log(), "tools are left out") && strings.Contains(r.Service.Log(), `"few"`)
		})
		r.LLM.Use(llm.Sequence(
			llm.Calls(llm.Call("c1", "mcp_search_tools", `{"query":"secret number 77 of one"}`)),
			llm.Calls(llm.Call("c2", "mcp_call_tool", `{"name":"one__t1_0077","arguments":{"who":"Ann"}}`), llm.Call("c3", "mcp_call_tool", `{"name":"one__t1_0077","arguments":{}}`),
				llm.Call("c4", "two__t2_1800", `{"who":"Bob"}`), llm.Call("c5", "mcp_call_tool", `{"name":"t1_0078","arguments":{"who":"Ann"}}`)),
			llm.Text("Done."),
		))
		body := `{"model":"m","messages":[{"role":"user","content":"secrets"}],"tools":[` + strings.Repeat(`{"type":"function","function":{"name":"f"}},`, 2) + `{"type":"function","function":{"name":"g"}}]}`
		got := post(t, r, body)
		if got.status != 200 || parse(t, got.body).text() != "Done." {
			t.Fatalf("status %d, body %s", got.status, got.body)
		}
		names := r.LLM.Requests()[0].ToolNames()
		if len(names) != 128 || !slices.Equal(names[:4], []string{"f", "f", "g", "two__t2_0000"}) || !slices.Equal(names[126:], []string{"mcp_search_tools", "mcp_call_tool"}) {
			t.Errorf("%d functions: %q", len(names), names)
		}
		found := r.LLM.Requests()[1].Chat.Messages
		if first := gjson.Get(found[len(found)-1].Text(), "tools.0"); first.Get("name").String() != "one__t1_0077" || !first.Get("parameters.properties.who").Exists() {
			t.Errorf("found %s", found[len(found)-1].Content)
		}
		results := r.LLM.Requests()[2].Chat.Messages
		for i, want := range []string{`secret 77 for {"who":"Ann"}`, "one__t1_0077 was not called: its arguments do not fit", `secret 1800 for {"who":"Bob"}`, "The nearest names are: one__t1_0078"} {
			if text := results[len(results)-4+i].Text(); !strings.Contains(text, want) {
				t.Errorf("result %d is %q, want %q", i, text, want)
			}
		}
		ext := gjson.Get(got.body, "extensions.mcp_via_llm")
		if called := ext.Get("mcp_tools_called").Raw; called != `["mcp_search_tools","one__t1_0077","one__t1_0077","two__t2_1800","mcp_call_tool"]` {
			t.Errorf("called %s", called)
		}
		if ext.Get("tools_omitted_total").Int() != 1980+2-123 || ext.Get("tools_omitted.0").String() != "two__t2_0123" {
			t.Errorf("%s", ext.Raw)
		}
		if metrics := rig.Get(t, r.Admin+"/metrics"); !strings.Contains(metrics, fmt.Sprintf(`mcp_via_llm_tools_omitted{client="default"} %d`, 1980+2-123)) {
			t.Error("no metric counts what is left out")
		}
		left := 0
		for _, tool := range listTools(t, r.ConfigFile, "--client", "few") {
			if tool.LeftOut {
				left++
			}
		}
		if left != 81-3 {
			t.Errorf("`tools` shows %d left out", left)
		}
	})
}

// TestInstructions asserts that prompts without arguments are in one leading system message, ahead of the client's own
// words, with the same bytes in every turn; and nowhere if the profile does not want them.
func TestInstructions(t *testing.T) {
	on(t, current(), func(t *testing.T, v variant) {
		config := fmt.Sprintf("servers:\n  a: {url: %q, optional: false}\n  b: {url: %q, optional: false}\nclients:\n  default: {servers: [b, a]}\n", crowd(t, "ay", 1), crowd(t, "be", 1))
		r := start(t, v, setup{config: config, brain: llm.Always(llm.Text("hello"))})
		const instructions = `Say please.\n\nWrite as be does.\n\nSay please.\n\nWrite as ay does.`
		for _, row := range []struct{ sent, want string }{
			{`[{"role":"user","content":"hi"}]`, `[{"role":"system","content":"` + instructions + `"},{"role":"user","content":"hi"}]`},
			{`[{"role":"system","content":"Be brief."},{"role":"user","content":"hi"}]`, `[{"role":"system","content":"` + instructions + `\n\nBe brief."},{"role":"user","content":"hi"}]`},
			{`[{"role":"developer","content":[{"type":"text","text":"Be brief."}]},{"role":"user","content":"hi"}]`,
				`[{"role":"developer","content":[{"type":"text","text":"` + instructions + `"},{"type":"text","text":"Be brief."}]},{"role":"user","content":"hi"}]`},
			{`[{"role":"system","content":"Be brief."},{"role":"user","content":"hi"},{"role":"assistant","content":"hello"},{"role":"user","content":"and?"}]`,
				`[{"role":"system","content":"` + instructions + `\n\nBe brief."},{"role":"user","content":"hi"},{"role":"assistant","content":"hello"},{"role":"user","content":"and?"}]`},
		} {
			r.LLM.Use(llm.Always(llm.Text("hello")))
			if got := post(t, r, `{"model":"m","messages":`+row.sent+`}`); got.status != 200 {
				t.Fatalf("status %d, body %s", got.status, got.body)
			}
			if got := gjson.GetBytes(r.LLM.Requests()[0].Body, "messages").Raw; got != row.want {
				t.Errorf("the model got\n%s\nwant\n%s", got, row.want)
			}
		}
		untouched := `{"model":"m","messages":[{"role":"user","content":"hi"}],"tool_choice":"none"}`
		r.LLM.Use(llm.Always(llm.Text("hello")))
		if post(t, r, untouched); string(r.LLM.Requests()[0].Body) != untouched {
			t.Errorf("the model got %s", r.LLM.Requests()[0].Body)
		}
		if err := r.WriteConfig(strings.Replace(config, "servers: [b, a]", "servers: [b, a], prompts: false, resources: false", 1)); err != nil {
			t.Fatal(err)
		}
		eventually(t, turnLimit, "the new profile", func() bool {
			r.LLM.Use(llm.Always(llm.Text("hello")))
			post(t, r, ask(false, "hi"))
			request := r.LLM.Requests()[0]
			return request.Chat.Messages[0].Role == "user" && slices.Equal(request.ToolNames(), []string{"a__ay_0000", "b__be_0000"})
		})
	})
}
