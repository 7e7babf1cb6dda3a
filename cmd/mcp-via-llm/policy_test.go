package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/tidwall/gjson"
)

// caller is an LLM that makes the calls, "NAME ARGUMENTS", one in each segment of a
// turn, and then answers with the results, joined by lines.
func caller(t *testing.T, calls func() []string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			Messages []struct{ Role, Content string }
		}
		json.NewDecoder(r.Body).Decode(&body) //nolint:errcheck // a broken body shows as a wrong answer
		var results []string
		for _, m := range body.Messages {
			if m.Role == "tool" {
				results = append(results, m.Content)
			}
		}
		message, finish := map[string]any{"role": "assistant", "content": strings.Join(results, "\n")}, "stop"
		if all := calls(); len(results) < len(all) {
			name, arguments, _ := strings.Cut(all[len(results)], " ")
			message, finish = map[string]any{"role": "assistant", "content": nil, "tool_calls": []any{map[string]any{
				"id": fmt.Sprint("c", len(results)), "type": "function", "function": map[string]any{"name": name, "arguments": arguments},
			}}}, "tool_calls"
		}
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(map[string]any{ //nolint:errcheck // the service is the reader
			"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": []any{map[string]any{"index": 0, "message": message, "finish_reason": finish}},
		})
	}))
	t.Cleanup(server.Close)
	return server.URL + "/base"
}

// policyConfig is a configuration with these further settings of the server calc.
func policyConfig(base, server, more string) string {
	return "listen: {ext_proc: '127.0.0.1:0', admin: '127.0.0.1:0', http: '127.0.0.1:0'}\nllm: {base_url: '" + base + "'}\n" +
		"servers: {calc: " + strings.TrimSuffix(stdioServer(), "}") + server + "}}\n" + more
}

// answered has a turn and gives the results of its calls.
func answered(t *testing.T, s *service) []string {
	t.Helper()
	status, body := ask(t, s, "x-request-id: turn-1", "authorization: Bearer key", "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
	if status != 200 {
		t.Fatalf("%d %s", status, body)
	}
	return strings.Split(gjson.Get(body, "choices.0.message.content").String(), "\n")
}

func auditOf(t *testing.T, path string, n int) []gjson.Result {
	t.Helper()
	var all []gjson.Result
	eventually(t, fmt.Sprintf("%d lines in %s", n, path), func() bool {
		text, _ := os.ReadFile(path) // not yet there
		all = gjson.ParseBytes(append(append([]byte("["), strings.ReplaceAll(strings.TrimSpace(string(text)), "\n", ",")...), ']')).Array()
		return len(all) >= n && strings.HasSuffix(string(text), "\n")
	})
	return all
}

// Rules, limits and the audit log of a profile, and what a reload changes of them.
func TestPolicies(t *testing.T) {
	calls := []string{`calc__add {"a":5,"b":7}`, `calc__add {"b":7,"a":500}`, `calc__wait {"file":"/"}`}
	base := caller(t, func() []string { return calls })
	audit := filepath.Join(t.TempDir(), "audit.jsonl")
	const rule = "{tool: calc__add, rule: args.a < 100, message: only small numbers.}"
	rules := "clients: {default: {tools: {deny: ['*__wait']}, constraints: [" + rule + "]}}\n"
	path := writeConfig(t, policyConfig(base, ", limits: {rate: 2/h, burst: 2}", rules+"audit: {file: '"+audit+"'}\n"))
	s := start(t, path)
	want := []string{"12", "The call was not made: only small numbers.", `There is no function "calc__wait".`}
	if got := answered(t, s); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	lines := auditOf(t, audit, 3)
	for i, want := range []string{
		`{"event":"mcp_call","request_id":"turn-1","client":"default","server":"calc","tool":"add","name":"calc__add","arguments_sha256":"` + sha256Of(`{"a":5,"b":7}`) + `","outcome":"ok"}`,
		`{"event":"mcp_call","request_id":"turn-1","client":"default","server":"calc","tool":"add","name":"calc__add","arguments_sha256":"` + sha256Of(`{"a":500,"b":7}`) + `","outcome":"denied","reason":"constraints[0] is false"}`,
		`{"event":"mcp_call","request_id":"turn-1","client":"default","server":"","tool":"","name":"calc__wait","arguments_sha256":"` + sha256Of(`{"file":"/"}`) + `","outcome":"unknown_tool"}`,
	} {
		gjson.Parse(want).ForEach(func(key, value gjson.Result) bool {
			if got := lines[i].Get(key.String()); got.String() != value.String() {
				t.Errorf("line %d: %s is %s, want %s", i, key, got, value)
			}
			return true
		})
		if got := lines[i].Get("trace_id").String(); got != "4bf92f3577b34da6a3ce929d0e0e4736" {
			t.Errorf("line %d: trace %q", i, got)
		}
		if identity := lines[i].Get("identity").String(); !strings.HasPrefix(identity, "authorization:") || strings.Contains(lines[i].Raw, "key\"") {
			t.Errorf("line %d: %s", i, lines[i].Raw)
		}
	}
	// The rest of the limit outlives a reload of other things, and the log follows
	// its file and its settings.
	calls = []string{`calc__add {"a":1,"b":1}`, `calc__add {"a":1,"b":2}`}
	if err := os.Rename(audit, audit+".1"); err != nil {
		t.Fatal(err)
	}
	put(t, path, policyConfig(base, ", limits: {rate: 2/h, burst: 2}", "audit: {file: '"+audit+"', arguments: full}\n"))
	s.wait(t, "the new configuration is in force")
	if err := s.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	limited := `The call was not made: the MCP server "calc" may be called 2 times per hour, and that is used up. Try again in `
	if got := answered(t, s); len(got) != 2 || got[0] != "2" || !strings.HasPrefix(got[1], limited) {
		t.Errorf("after a reload: %q", got)
	}
	lines = auditOf(t, audit, 2)
	if got := lines[1]; got.Get("outcome").String() != "rate_limited" || got.Get("arguments").Raw != `{"a":1,"b":2}` || got.Get("reason").String() != "rate of 2/h" {
		t.Errorf("%s", got.Raw)
	}
	if line := s.wait(t, "an mcp call was not made"); line["client"] != "default" || line["tool"] != "add" || line["reason"] != "constraints[0] is false" {
		t.Errorf("log: %v", line)
	}
	metrics := get(t, s.admin+"/metrics")
	for _, want := range []string{
		`mcp_via_llm_tool_calls_total{outcome="ok",server="calc",tool="add"} 2`, `mcp_via_llm_tool_calls_total{outcome="denied",server="calc",tool="add"} 1`,
		`mcp_via_llm_tool_calls_total{outcome="rate_limited",server="calc",tool="add"} 1`, `mcp_via_llm_audit_records_total{outcome="written"} 5`,
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("no %s in the metrics", want)
		}
	}
	if code := s.stop(t); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if strings.Contains(s.raw.String(), `"a":`) {
		t.Error("arguments are in the log")
	}
}

// A turn keeps the rules that it began with, and a new one has the new ones.
func TestARunningTurnKeepsItsRules(t *testing.T) {
	file := filepath.Join(t.TempDir(), "go")
	var segments atomic.Int64
	base := caller(t, func() []string {
		segments.Add(1)
		return []string{fmt.Sprintf(`calc__wait {"file":%q}`, file), `calc__add {"a":1,"b":2}`}
	})
	path := writeConfig(t, policyConfig(base, "", "audit: {file: stderr}\n"))
	s := start(t, path)
	results := make(chan []string, 1)
	go func() { results <- answered(t, s) }()
	eventually(t, "the turn runs", func() bool { return segments.Load() == 1 })
	put(t, path, policyConfig(base, "", "clients: {default: {tools: {read_only: true}}}\n"))
	s.wait(t, "the new configuration is in force")
	put(t, file, "")
	if got := <-results; !slices.Equal(got, []string{"waited", "3"}) {
		t.Errorf("the running turn: %q", got)
	}
	if status, body := ask(t, s); status != 200 || gjson.Get(body, "extensions").Exists() {
		t.Errorf("a new turn has tools: %d %s", status, body)
	}
}

// A call through mcp_call_tool is one of the function that it names.
func TestRulesOfCallsThroughAnother(t *testing.T) {
	const call = `mcp_call_tool {"name":"calc__add","arguments":`
	calls := []string{call + `{"a":5,"b":7}}`, call + `{"a":500,"b":7}}`, call + `"{\"a\":500,\"b\":7}"}`, `mcp_call_tool {"name":"spare__add","arguments":{"a":1,"b":1}}`, `mcp_search_tools {"query":""}`}
	base := caller(t, func() []string { return calls })
	audit := filepath.Join(t.TempDir(), "audit.jsonl")
	s := start(t, writeConfig(t, strings.Replace(policyConfig(base, "", "clients: {default: {max_tools: 2, servers: [calc, more, spare], tools: {deny: ['spare__a*']}, "+
		"constraints: [{tool: calc__add, rule: args.a < 100, message: only small numbers.}], approve: [calc__wait]}}\naudit: {file: '"+audit+"'}\n"),
		"servers: {", "servers: {more: "+stdioServer()+", spare: "+stdioServer()+", ", 1)))
	got := answered(t, s)
	const small = "The call was not made: only small numbers."
	if len(got) != 5 || got[0] != "12" || got[1] != small || got[2] != small || !strings.HasPrefix(got[3], `There is no function "spare__add".`) ||
		strings.Contains(got[4], "spare__add") || !strings.Contains(got[4], "spare__wait") {
		t.Errorf("got %q", got)
	}
	var names []string
	for _, line := range auditOf(t, audit, 5) {
		names = append(names, line.Get("name").String()+" "+line.Get("outcome").String())
	}
	if want := []string{"calc__add ok", "calc__add denied", "calc__add denied", "mcp_call_tool unknown_tool", "mcp_search_tools ok"}; !slices.Equal(names, want) {
		t.Errorf("audited %q", names)
	}
	calls = []string{`mcp_call_tool {"name":"calc__wait","arguments":{"file":"/"}}`}
	if got := strings.Join(answered(t, s), "\n"); !strings.Contains(got, "calc__wait") || !strings.Contains(got, "**yes**") {
		t.Errorf("the user is asked %q", got)
	}
}

func TestToolsOfAProfileWithRules(t *testing.T) {
	path := writeConfig(t, "servers:\n  calc: "+stdioServer()+"\nclients:\n  default: {tools: {allow: ['calc__[a-c]*']}}\n")
	code, stdout, stderr := command(t, "tools", "--config", path, "--output", "json")
	if code != 0 || gjson.Get(stdout, "#").Int() != 1 || gjson.Get(stdout, "0.name").String() != "calc__add" {
		t.Errorf("exit code %d, %s, %s", code, stdout, stderr)
	}
}

func sha256Of(canonical string) string {
	sum := sha256.Sum256([]byte(canonical))
	return hex.EncodeToString(sum[:])
}

// A listed resource stays under its rules when it is read by way of a template, and an
// allowed template may read what is not listed as allowed.
func TestRulesOfResources(t *testing.T) {
	const template, notes = `mcp_resource__calc__row`, `mcp_resource__calc__notes`
	var calls []string
	base := caller(t, func() []string { return calls })
	path := writeConfig(t, "")
	with := func(rules string) {
		put(t, path, strings.Replace(policyConfig(base, "", "clients: {default: {resources: true, prompts: false, "+rules+"}}\n"), asServer+": '1'", asServer+": library", 1))
	}
	with("tools: {deny: [" + notes + "]}")
	s := start(t, path)
	reads := []string{template + ` {"id":"notes"}`, template + ` {"id":"other"}`, notes + ` {}`}
	for i, tt := range []struct {
		rules string
		want  []string // beginnings
	}{
		{"tools: {deny: [" + notes + "]}", []string{"The call was not made: this tool, or what it would read,", "text", "There is no function"}},
		{"tools: {allow: [" + template + "]}", []string{"text", "text", "There is no function"}},
		{"constraints: [{tool: " + notes + ", rule: identity == '', message: nobody.}]", []string{"The call was not made: nobody.", "text", "The call was not made: nobody."}},
		{"constraints: [{tool: 'mcp_resource__*', rule: uri != 'box://notes', message: no notes.}]", []string{"The call was not made: no notes.", "text", "The call was not made: no notes."}},
	} {
		calls = reads
		if i > 0 {
			with(tt.rules)
		}
		eventually(t, tt.rules, func() bool {
			got := answered(t, s)
			for n, want := range tt.want {
				if len(got) != len(reads) || !strings.HasPrefix(got[n], want) {
					return false
				}
			}
			return true
		})
	}
	with("approve: [" + notes + "]")
	for _, read := range []string{reads[0], reads[2]} {
		calls = []string{read}
		eventually(t, "a question before "+read, func() bool { return strings.Contains(strings.Join(answered(t, s), "\n"), "**yes**") })
	}
}

// The audit log has calls whose arguments cannot be read, and questions, also those
// that nobody answers.
func TestAuditOfWhatIsNotMade(t *testing.T) {
	calls := []string{`calc__add {"a":5,`, `calc__wait {"file":"/"}`}
	base := caller(t, func() []string { return calls })
	audit := filepath.Join(t.TempDir(), "audit.jsonl")
	s := start(t, writeConfig(t, policyConfig(base, "", "clients: {default: {approve: [calc__wait]}}\naudit: {file: '"+audit+"', arguments: full}\n")))
	answered(t, s)
	var got []string
	for _, line := range auditOf(t, audit, 2) {
		got = append(got, strings.Join([]string{line.Get("event").String(), line.Get("name").String(), line.Get("outcome").String(), line.Get("arguments").Raw}, " "))
	}
	if want := []string{`mcp_call calc__add invalid_arguments "{\"a\":5,"`, `mcp_question calc__wait asked {"file":"/"}`}; !slices.Equal(got, want) {
		t.Errorf("audited %q", got)
	}
}
