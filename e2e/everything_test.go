package e2e

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/mcp-via-llm/mcp-via-llm/e2e/llm"
)

// TestEverythingServer lists the tools of the reference server "everything" with the command `tools`, and calls some.
func TestEverythingServer(t *testing.T) {
	on(t, current()[:1], func(t *testing.T, v variant) {
		r := start(t, v, setup{config: fmt.Sprintf(`
servers:
  everything: {command: [%s], connect_timeout: 60s, optional: false}
`, quoted(tools.NodeServer("everything")))})
		out, err := exec.Command(service, "tools", "--config", r.ConfigFile, "--output", "json").Output()
		if err != nil {
			t.Fatal(err)
		}
		var listed []struct{ Name, Server, Kind string }
		if err := json.Unmarshal(out, &listed); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		injected := map[string]bool{}
		calls := llm.Calls(
			llm.Call("c1", "everything__echo", `{"message":"hello"}`),
			llm.Call("c2", "everything__get-sum", `{"a":5,"b":7}`),
			llm.Call("c3", "everything__get-tiny-image", `{}`),
			llm.Call("c4", "everything__get-structured-content", `{"location":"Chicago"}`),
		)
		r.LLM.Use(llm.Sequence(calls, llm.Text("All done.")))
		if got := post(t, r, ask(false, "try everything")); got.status != 200 || parse(t, got.body).text() != "All done." {
			t.Fatalf("status %d, body %s", got.status, got.body)
		}
		requests := r.LLM.Requests()
		for _, name := range requests[0].ToolNames() {
			injected[name] = true
		}
		for _, tool := range listed {
			if injected[tool.Name] == (tool.Kind == "system_prompt") || tool.Server != "everything" {
				t.Errorf("listed %+v, injected as a function: %v", tool, injected[tool.Name])
			}
			delete(injected, tool.Name)
		}
		if len(listed) < 20 || len(injected) > 0 {
			t.Errorf("`tools` lists %d, and not %v", len(listed), injected)
		}
		wants := []string{"Echo: hello", "12", "image", "temperature"}
		messages := requests[1].Chat.Messages
		for i, m := range messages[len(messages)-len(wants):] {
			if !strings.Contains(m.Text(), wants[i]) {
				t.Errorf("result %d is %s, want %q in it", i, m.Content, wants[i])
			}
		}
	})
}
