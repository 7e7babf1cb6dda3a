package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-via-llm/mcp-via-llm/e2e/llm"
	"github.com/mcp-via-llm/mcp-via-llm/e2e/rig"
)

// policies are two profiles over the reference server "filesystem" at dir: one that reads, below dir/open, and one that
// may write when the user agrees.
func policies(dir, audit string) string {
	return fmt.Sprintf(`
servers:
  files: {command: [%s], optional: false, connect_timeout: 60s, limits: {concurrency: 4, tools: {read_text_file: {rate: 3/h, burst: 3}}}}
clients:
  default:
    tools: {read_only: true}
    constraints:
      - {tool: "files__*", rule: "!has(args.path) || cleanPath(args.path).startsWith('%s/open/')", message: "only the folder open may be read."}
  writer:
    tools: {allow: [files__write_file, files__list_directory, files__move_file], deny: ["*__move_*"]}
    approve: [{tool: "*", unless_read_only: true}]
audit: {file: %q}
`, quoted(tools.NodeServer("filesystem", dir)), dir, audit)
}

type audited struct {
	Request  string `json:"request_id"`
	Client   string `json:"client"`
	Identity string `json:"identity"`
	Name     string `json:"name"`
	Outcome  string `json:"outcome"`
	Decision string `json:"decision"`
	By       string `json:"approved_by"`
	Digest   string `json:"arguments_sha256"`
}

func readAudit(t *testing.T, path string, n int) (all []audited) {
	t.Helper()
	eventually(t, turnLimit, fmt.Sprintf("%d audit records", n), func() bool {
		text, _ := os.ReadFile(path) // not yet there
		all = nil
		for line := range strings.Lines(string(text)) {
			var a audited
			if err := json.Unmarshal([]byte(line), &a); err != nil {
				return false // half a line
			}
			all = append(all, a)
		}
		return len(all) >= n
	})
	return all
}

// results are the tool messages of the last request at the LLM.
func results(r *rig.Rig) (all []string) {
	requests := r.LLM.Requests()
	for _, m := range requests[len(requests)-1].Chat.Messages {
		if m.Role == "tool" {
			all = append(all, m.Text())
		}
	}
	return all
}

// conversation is a body that goes on from another with these messages.
func conversation(t *testing.T, body string, more ...any) string {
	t.Helper()
	var all map[string]any
	if err := json.Unmarshal([]byte(body), &all); err != nil {
		t.Fatal(err)
	}
	messages, _ := all["messages"].([]any)
	all["messages"] = append(messages, more...)
	out, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func message(role, text string) map[string]any { return map[string]any{"role": role, "content": text} }

// TestPolicies asserts what two profiles may see and call of one server, that the user is asked, that limits hold, and
// that all of it is in the audit log.
func TestPolicies(t *testing.T) {
	on(t, current(), func(t *testing.T, v variant) {
		dir, err := filepath.EvalSymlinks(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string]string{"open/note.txt": "five", "closed/secret.txt": "hunter2"} {
			path := filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		audit := filepath.Join(t.TempDir(), "audit.jsonl")
		r := start(t, v, setup{config: policies(dir, audit), edit: withRoutes(testRoute{name: "writing", filter: true, client: "writer"})})
		read := func(id, path string) llm.ToolCall {
			return llm.Call(id, "files__read_text_file", fmt.Sprintf(`{"path":%q}`, path))
		}
		r.LLM.Use(llm.Sequence(
			llm.Calls(read("c1", dir+"/open/note.txt"), read("c2", dir+"/closed/secret.txt"), read("c3", dir+"/open/../closed/secret.txt"),
				llm.Call("c4", "files__write_file", fmt.Sprintf(`{"path":%q,"content":"x"}`, dir+"/open/new.txt"))),
			llm.Calls(read("c5", dir+"/open/note.txt")), llm.Calls(read("c6", dir+"/open/note.txt")), llm.Calls(read("c7", dir+"/open/note.txt")),
			llm.Text("Done."),
		))
		if got := post(t, r, ask(false, "read")); got.status != 200 || parse(t, got.body).text() != "Done." {
			t.Fatalf("status %d, body %s", got.status, got.body)
		}
		offered := r.LLM.Requests()[0].ToolNames()
		if !slices.Contains(offered, "files__read_text_file") || slices.Contains(offered, "files__write_file") || slices.Contains(offered, "files__move_file") {
			t.Errorf("the profile that reads got %q", offered)
		}
		const closed = "The call was not made: only the folder open may be read."
		got := results(r)
		want := []string{"five", closed, closed, `There is no function "files__write_file".`, "five", "five", "The call was not made: this tool may be called 3 times per hour"}
		for i, text := range got {
			if i >= len(want) || !strings.HasPrefix(text, want[i]) {
				t.Errorf("result %d is %q", i, text)
			}
		}
		records := readAudit(t, audit, 7)
		var outcomes []string
		for _, a := range records {
			outcomes = append(outcomes, a.Name+" "+a.Outcome)
			if a.Client != "default" || a.Request == "" || !strings.HasPrefix(a.Identity, "authorization:") || len(a.Digest) != 64 {
				t.Errorf("%+v", a)
			}
		}
		slices.Sort(outcomes[:4]) // they ran in parallel
		if want := []string{"files__read_text_file denied", "files__read_text_file denied", "files__read_text_file ok", "files__write_file unknown_tool",
			"files__read_text_file ok", "files__read_text_file ok", "files__read_text_file rate_limited"}; !slices.Equal(outcomes, want) {
			t.Errorf("audited %q", outcomes)
		}
		if metrics := rig.Get(t, r.Admin+"/metrics"); !counted(metrics, `outcome="denied"`) || !counted(metrics, `outcome="rate_limited"`) {
			t.Error("no metric counts what was not called")
		}
		text, err := os.ReadFile(audit)
		if err != nil || strings.Contains(string(text), "note.txt") || strings.Contains(string(text), "five") {
			t.Errorf("arguments or results are in the audit log: %v\n%s", err, text)
		}
		testApproval(t, r, dir, audit)
	})
}

// testApproval goes on where TestPolicies has left seven records.
func testApproval(t *testing.T, r *rig.Rig, dir, audit string) {
	path := filepath.Join(dir, "open", "new.txt")
	write := llm.Calls(llm.Call("w1", "files__write_file", fmt.Sprintf(`{"path":%q,"content":"written"}`, path)),
		llm.Call("w2", "files__list_directory", fmt.Sprintf(`{"path":%q}`, dir)))
	for i, c := range []struct{ answer, outcome, decision, file string }{{"no", "denied", "denied", ""}, {"yes", "ok", "approved", "written"}} {
		r.LLM.Use(llm.Sequence(write, llm.Text("Done.")))
		body := ask(false, "write")
		asked := post(t, r, body, "x-test-route: writing")
		question := parse(t, asked.body).text()
		if asked.status != 200 || !strings.Contains(question, "files__write_file") || strings.Contains(question, "list_directory") {
			t.Fatalf("status %d, question %s", asked.status, question)
		}
		if names := r.LLM.Requests()[0].ToolNames(); !slices.Equal(names, []string{"files__list_directory", "files__write_file"}) {
			t.Errorf("the profile that writes got %q", names)
		}
		answered := post(t, r, conversation(t, body, message("assistant", question), message("user", c.answer)), "x-test-route: writing")
		if answered.status != 200 || parse(t, answered.body).text() != "Done." {
			t.Errorf("status %d, body %s", answered.status, answered.body)
		}
		if text, _ := os.ReadFile(path); string(text) != c.file {
			t.Errorf("after %s the file has %q", c.answer, text)
		}
		var writing, listing audited
		for _, a := range readAudit(t, audit, 7+2*(i+1))[7+2*i:] {
			if a.Name == "files__write_file" {
				writing = a
			} else {
				listing = a
			}
		}
		if writing.Client != "writer" || writing.Outcome != c.outcome || writing.Decision != c.decision || (writing.By == writing.Identity) != (c.decision == "approved") {
			t.Errorf("after %s: %+v", c.answer, writing)
		}
		if listing.Name != "files__list_directory" || listing.Outcome != "ok" || listing.Decision != "" { // in the background of the question
			t.Errorf("after %s: %+v", c.answer, listing)
		}
	}
}
