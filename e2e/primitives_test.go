package e2e

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-via-llm/mcp-via-llm/e2e/llm"
	"github.com/mcp-via-llm/mcp-via-llm/e2e/rig"
)

// call is one call of the model, and what must be in its result.
type call struct{ name, arguments, want string }

// realServer is a real MCP server. The calls of a step go out at once.
type realServer struct {
	command []string
	offers  map[string]int // how much of each kind, where that is known
	steps   [][]call
}

// listedTool is a line of `tools --output json`.
type listedTool struct {
	Name, Server, Kind string
	Tokens             int
	LeftOut            bool `json:"left_out"`
}

func listTools(t *testing.T, config string, arguments ...string) []listedTool {
	t.Helper()
	out, err := exec.Command(service, append([]string{"tools", "--config", config, "--output", "json"}, arguments...)...).Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var all []listedTool
	if err := json.Unmarshal(out, &all); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return all
}

// TestRealServers lists the tools, resources, templates and prompts of real servers with the command `tools`, asserts
// that the model is offered the same, and calls or reads them in chat completions.
func TestRealServers(t *testing.T) {
	on(t, current()[:1], func(t *testing.T, v variant) {
		servers := realServers(t)
		config := "servers:\n"
		for name, server := range servers {
			config += fmt.Sprintf("  %s: {command: [%s], connect_timeout: 60s, optional: false}\n", name, quoted(server.command))
		}
		r := start(t, v, setup{config: config})
		all := listTools(t, r.ConfigFile)
		r.LLM.Use(llm.Always(llm.Text("hello")))
		if got := post(t, r, ask(false, "hi")); got.status != 200 {
			t.Fatalf("status %d, body %s", got.status, got.body)
		}
		request := r.LLM.Requests()[0]
		offered := request.ToolNames()
		for _, tool := range all {
			if slices.Contains(offered, tool.Name) == (tool.Kind == "system_prompt") {
				t.Errorf("listed %+v, offered as a function: %v", tool, tool.Kind == "system_prompt")
			}
			offered = slices.DeleteFunc(offered, func(name string) bool { return name == tool.Name })
		}
		if len(offered) > 0 {
			t.Errorf("offered and not listed: %q", offered)
		}
		if first := request.Chat.Messages[0]; first.Role != "system" || !strings.Contains(first.Text(), "This is a simple prompt without arguments.") ||
			!strings.Contains(first.Text(), "This is a simple prompt for testing.") || !strings.Contains(first.Text(), "[image image/png") {
			t.Errorf("the first message is %s: %s", first.Role, first.Content)
		}
		for name, server := range servers {
			t.Run(name, func(t *testing.T) { useServer(t, r, name, server, all) })
		}
		for _, status := range serverCounts(t, r) {
			counts := map[string]int{"tool": status.Tools, "resource": status.Resources, "resource_template": status.Templates, "prompt": status.Prompts, "system_prompt": status.System}
			for kind, n := range counts {
				if listed := len(ofKind(all, status.Name, kind)); listed != n {
					t.Errorf("/debug/servers counts %d of kind %s at %s, %d are listed", n, kind, status.Name, listed)
				}
			}
		}
	})
}

func ofKind(all []listedTool, server, kind string) (out []listedTool) {
	for _, tool := range all {
		if tool.Server == server && tool.Kind == kind {
			out = append(out, tool)
		}
	}
	return out
}

type serverCount struct {
	Name      string `json:"name"`
	Tools     int    `json:"tools"`
	Resources int    `json:"resources"`
	Templates int    `json:"resource_templates"`
	Prompts   int    `json:"prompts"`
	System    int    `json:"system_prompts"`
}

func serverCounts(t *testing.T, r *rig.Rig) (all []serverCount) {
	t.Helper()
	if err := json.Unmarshal([]byte(rig.Get(t, r.Admin+"/debug/servers")), &all); err != nil {
		t.Fatal(err)
	}
	return all
}

// useServer has the model make the calls of all steps in one turn, and read every resource in another.
func useServer(t *testing.T, r *rig.Rig, name string, server realServer, all []listedTool) {
	for kind, n := range server.offers {
		if got := len(ofKind(all, name, kind)); got != n {
			t.Errorf("%d of kind %s, want %d", got, kind, n)
		}
	}
	steps := server.steps
	var resources []call
	for _, resource := range ofKind(all, name, "resource") {
		resources = append(resources, call{resource.Name, "{}", ""})
	}
	if resources != nil {
		steps = append(steps, resources)
	}
	var answers []llm.Step
	var called []string
	for i, step := range steps {
		var calls []llm.ToolCall
		for j, c := range step {
			calls = append(calls, llm.Call(fmt.Sprintf("c%d_%d", i, j), c.name, c.arguments))
			called = append(called, c.name)
		}
		answers = append(answers, llm.Calls(calls...))
	}
	r.LLM.Use(llm.Sequence(append(answers, llm.Text("All done."))...))
	got := post(t, r, ask(false, "try "+name))
	if got.status != 200 || parse(t, got.body).text() != "All done." {
		t.Fatalf("status %d, body %s", got.status, got.body)
	}
	if ext := parse(t, got.body).extension(t); !slices.Equal(ext.ToolsCalled, called) {
		t.Errorf("mcp_tools_called %q, want %q", ext.ToolsCalled, called)
	}
	for i, step := range steps {
		messages := r.LLM.Requests()[i+1].Chat.Messages
		for j, m := range messages[len(messages)-len(step):] {
			text := m.Text()
			failed := strings.HasPrefix(text, step[j].name+" failed") || strings.HasPrefix(text, step[j].name+" was not")
			if m.Role != "tool" || failed || len(text) < 5 || !strings.Contains(text, step[j].want) {
				t.Errorf("%s(%s) gave %.300s, want %q in it", step[j].name, step[j].arguments, m.Content, step[j].want)
			}
		}
	}
}

// realServers are the reference servers.
func realServers(t *testing.T) map[string]realServer {
	dir := t.TempDir()
	repository := filepath.Join(dir, "repository")
	for _, arguments := range [][]string{{"init", "-q", repository}, {"-C", repository, "-c", "user.name=x", "-c", "user.email=x@y", "commit", "-q", "--allow-empty", "-m", "first commit"}} {
		if out, err := exec.Command("git", arguments...).CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", arguments, err, out)
		}
	}
	reference := filepath.Join(dir, "reference")
	if err := tools.Build(reference, "github.com/modelcontextprotocol/go-sdk/conformance/everything-server"); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "note.txt")
	args := func(format string, values ...any) string { return fmt.Sprintf(format, values...) }
	return map[string]realServer{
		"everything": {tools.NodeServer("everything"), map[string]int{"resource": 7, "resource_template": 2, "prompt": 3, "system_prompt": 1}, [][]call{{
			{"everything__echo", `{"message":"hello"}`, "Echo: hello"},
			{"everything__get-sum", `{"a":5,"b":7}`, "12"},
			{"everything__get-tiny-image", `{}`, "[image image/png"},
			{"everything__get-structured-content", `{"location":"Chicago"}`, "temperature"},
			{"mcp_resource__everything__Dynamic_Text_Resource", `{"resourceId":"1"}`, "Resource 1"},
			{"mcp_resource__everything__Dynamic_Blob_Resource", `{"resourceId":"2"}`, "bytes]"},
			{"mcp_resource__everything__architecture_md", `{}`, "Everything Server"},
			{"mcp_prompt__everything__args-prompt", `{"city":"Oslo"}`, "[user]\nWhat's weather in Oslo"},
			{"mcp_prompt__everything__completable-prompt", `{"department":"Engineering","name":"Alice"}`, "Alice"},
			{"mcp_prompt__everything__resource-prompt", `{"resourceType":"Text","resourceId":"1"}`, "[resource demo://resource"},
		}}},
		"reference": {[]string{reference}, map[string]int{"resource": 3, "resource_template": 1, "prompt": 2, "system_prompt": 2}, [][]call{{
			{"reference__test_simple_text", `{}`, "simple text"},
			{"mcp_resource__reference__static-text", ``, "This is the content of the static text resource."},
			{"mcp_resource__reference__static-binary", `{}`, "image/png"},
			{"mcp_resource__reference__template", `{"id":"7"}`, "7"},
			{"mcp_prompt__reference__test_prompt_with_arguments", `{"arg1":"one","arg2":"two"}`, "one"},
			{"mcp_prompt__reference__test_prompt_with_embedded_resource", `{"resourceUri":"test://x"}`, "[resource test://x]"},
		}}},
		"files": {tools.NodeServer("filesystem", dir), nil, [][]call{
			{{"files__write_file", args(`{"path":%q,"content":"5 and 7"}`, file), "rote"}},
			{{"files__read_text_file", args(`{"path":%q}`, file), "5 and 7"}, {"files__list_directory", args(`{"path":%q}`, dir), "note.txt"}},
		}},
		"memory": {append([]string{"env", "MEMORY_FILE_PATH=" + filepath.Join(dir, "memory.json")}, tools.Reference("memory")...), map[string]int{"tool": 9, "resource": 1}, [][]call{
			{{"memory__create_entities", `{"entities":[{"name":"Ann","entityType":"person","observations":["likes tea"]}]}`, "Ann"}},
			{{"memory__search_nodes", `{"query":"tea"}`, "Ann"}, {"mcp_resource__memory__knowledge-graph", `{}`, "likes tea"}},
		}},
		"thinking": {tools.Reference("sequential-thinking"), map[string]int{"tool": 1}, [][]call{
			{{"thinking__sequentialthinking", `{"thought":"first","thoughtNumber":1,"totalThoughts":1,"nextThoughtNeeded":false}`, "thoughtNumber"}},
		}},
		"time": {tools.Reference("time"), map[string]int{"tool": 2}, [][]call{{
			{"time__get_current_time", `{"timezone":"Europe/Oslo"}`, "Europe/Oslo"},
			{"time__convert_time", `{"source_timezone":"UTC","time":"12:00","target_timezone":"Asia/Tokyo"}`, "21:00"},
		}}},
		"git": {tools.Reference("git", "--repository", repository), map[string]int{"tool": 12}, [][]call{{
			{"git__git_log", args(`{"repo_path":%q}`, repository), "first commit"},
			{"git__git_status", args(`{"repo_path":%q}`, repository), "branch"},
		}}},
		"sqlite": {tools.Reference("sqlite", "--db-path", filepath.Join(dir, "test.db")), map[string]int{"tool": 6, "resource": 1, "prompt": 1}, [][]call{
			{{"sqlite__create_table", `{"query":"CREATE TABLE sheep (name TEXT)"}`, "created"}},
			{{"sqlite__write_query", `{"query":"INSERT INTO sheep VALUES ('Dolly')"}`, "affected_rows"}},
			{{"sqlite__read_query", `{"query":"SELECT name FROM sheep"}`, "Dolly"}, {"sqlite__append_insight", `{"insight":"One sheep."}`, "added"},
				{"mcp_prompt__sqlite__mcp-demo", `{"topic":"sheep"}`, "sheep"}},
			{{"mcp_resource__sqlite__Business_Insights_Memo", `{}`, "One sheep."}},
		}},
	}
}
