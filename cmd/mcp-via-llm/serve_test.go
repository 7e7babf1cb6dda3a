package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/tidwall/gjson"
)

// provider is an LLM that calls the tool it is told to, once, and then answers
// with the tool's result.
func provider(t *testing.T, tool, arguments string) (url string, requests *atomic.Int64) {
	t.Helper()
	requests = &atomic.Int64{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		body, _ := io.ReadAll(r.Body) // a broken body shows as a wrong answer
		for _, name := range []string{"X-Mcp-Via-Llm", "X-Mcp-Servers", "X-Mcp-Session"} {
			if r.Header.Get(name) != "" {
				t.Errorf("%s reached the provider", name)
			}
		}
		if r.URL.Path != "/base/chat/completions" {
			fmt.Fprintf(w, `{"path":%q}`, r.URL.Path)
			return
		}
		message, finish := map[string]any{"role": "assistant", "content": gjson.GetBytes(body, "messages.@reverse.0.content").String()}, "stop"
		if gjson.GetBytes(body, "tools").Exists() && gjson.GetBytes(body, "messages.@reverse.0.role").String() != "tool" {
			message, finish = map[string]any{"role": "assistant", "content": nil, "tool_calls": []any{map[string]any{
				"id": "c1", "type": "function", "function": map[string]any{"name": tool, "arguments": arguments},
			}}}, "tool_calls"
		}
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(map[string]any{ //nolint:errcheck // the service is the reader
			"id": "x", "object": "chat.completion", "created": 1, "model": "m",
			"choices": []any{map[string]any{"index": 0, "message": message, "finish_reason": finish}},
			"usage":   map[string]any{"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
		})
	}))
	t.Cleanup(server.Close)
	return server.URL + "/base", requests
}

func serveConfig(base, more string) string {
	return "listen: {ext_proc: '127.0.0.1:0', admin: '127.0.0.1:0', http: '127.0.0.1:0'}\nllm: {base_url: '" + base + "'}\n" +
		"servers: {calc: " + stdioServer() + "}\n" + more
}

func ask(t *testing.T, s *service, headers ...string) (int, string) {
	t.Helper()
	request, err := http.NewRequest(http.MethodPost, s.http+"/v1/chat/completions", strings.NewReader(`{"model":"m","messages":[{"role":"user","content":"hi"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		request.Header.Set(name, value)
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err.Error()
	}
	return response.StatusCode, string(body)
}

// Without Envoy the same handler serves on net/http: a turn, a request that opts
// out, another path; and the operator sees the turn.
func TestServeWithoutEnvoy(t *testing.T) {
	base, requests := provider(t, "calc__add", `{"a":5,"b":7}`)
	s := start(t, writeConfig(t, serveConfig(base, "")))
	status, body := ask(t, s, "x-mcp-servers: calc")
	if status != 200 || gjson.Get(body, "choices.0.message.content").String() != "12" || requests.Load() != 2 ||
		gjson.Get(body, "extensions.mcp_via_llm.mcp_tools_called.0").String() != "calc__add" || gjson.Get(body, "usage.total_tokens").Int() != 4 {
		t.Errorf("%d %s, %d requests", status, body, requests.Load())
	}
	if status, body = ask(t, s, "x-mcp-via-llm: off"); status != 200 || gjson.Get(body, "choices.0.message.content").String() != "hi" || gjson.Get(body, "extensions").Exists() {
		t.Errorf("opted out: %d %s", status, body)
	}
	if got := get(t, s.http+"/v1/models"); got != `{"path":"/base/models"}` {
		t.Errorf("another path: %s", got)
	}
	turns := get(t, s.admin+"/debug/turns")
	if gjson.Get(turns, "#").Int() != 1 || gjson.Get(turns, "0.segments.#").Int() != 2 || gjson.Get(turns, "0.calls.0.name").String() != "calc__add" || gjson.Get(turns, "0.client").String() != "default" {
		t.Errorf("turns: %s", turns)
	}
	if id := gjson.Get(turns, "0.id").String(); len(id) != 36 {
		t.Errorf("the turn has the id %q", id)
	}
	ask(t, s, "x-request-id: mine")
	if turns = get(t, s.admin+"/debug/turns"); gjson.Get(turns, "0.id").String() != "mine" {
		t.Errorf("turns: %s", turns)
	}
	if servers := get(t, s.admin+"/debug/servers"); gjson.Get(servers, "0.state").String() != "connected" {
		t.Errorf("servers: %s", servers)
	}
	metrics := get(t, s.admin+"/metrics")
	for _, want := range []string{
		`mcp_via_llm_turns_total{client="default",stop_reason="answer"} 2`,
		`mcp_via_llm_turn_segments_sum{client="default"} 4`,
		`mcp_via_llm_tool_calls_total{outcome="ok",server="calc",tool="add"} 2`,
		`mcp_via_llm_server_connected{server="calc"} 1`,
		`mcp_client_operation_duration_seconds_count{gen_ai_operation_name="execute_tool",gen_ai_tool_name="add",mcp_method_name="tools/call",mcp_protocol_version="`,
		`mcp_via_llm_server="calc",network_transport="pipe"} 2`,
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("no %s in the metrics", want)
		}
	}
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 200, "/debug/pprof/": 200, "/": 200, "/debug/": 200, "/debug/turns/1": 200, "/debug/turns/3": 404, "/debug/catalog?client=nobody": 404, "/nothing": 404} {
		if got := statusOf(s.admin + path); got != want {
			t.Errorf("%s: %d, want %d", path, got, want)
		}
	}
	response, err := http.Get(s.admin + "/debug/sessions?client=nobody")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if text, err := io.ReadAll(response.Body); err != nil || response.StatusCode != 400 || !gjson.GetBytes(text, "error").Exists() {
		t.Errorf("sessions of a client that can be none: %d %s %v", response.StatusCode, text, err)
	}
	if line := s.wait(t, "turn"); gjson.Get(mustJSON(t, line), "turn.stop_reason").String() != "answer" {
		t.Errorf("log: %v", line)
	}
	if code := s.stop(t); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

func mustJSON(t *testing.T, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// SIGTERM: not ready at once, the running turn finishes, exit code 0.
func TestDrain(t *testing.T) {
	file := filepath.Join(t.TempDir(), "go")
	base, requests := provider(t, "calc__wait", fmt.Sprintf(`{"file":%q}`, file))
	s := start(t, writeConfig(t, serveConfig(base, "drain_timeout: 25s\n")))
	type answer struct {
		status int
		body   string
	}
	answers := make(chan answer, 1)
	go func() {
		status, body := ask(t, s)
		answers <- answer{status, body}
	}()
	eventually(t, "the turn runs", func() bool { return requests.Load() == 1 })
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	eventually(t, "not ready", func() bool { return statusOf(s.admin+"/readyz") == http.StatusServiceUnavailable })
	eventually(t, "new connections are refused", func() bool { return statusOf(s.http+"/v1/models") == 0 })
	put(t, file, "")
	if a := <-answers; a.status != 200 || gjson.Get(a.body, "choices.0.message.content").String() != "waited" {
		t.Errorf("the running turn: %+v", a)
	}
	if code := s.exit(t); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// A turn that outlasts drain_timeout is cut, and the service ends all the same.
func TestDrainTimeout(t *testing.T) {
	base, requests := provider(t, "calc__wait", `{"file":"/nonexistent"}`)
	s := start(t, writeConfig(t, serveConfig(base, "drain_timeout: 100ms\n")))
	cut := make(chan struct{})
	go func() {
		defer close(cut)
		if status, body := ask(t, s); status == 200 {
			t.Errorf("200 %s", body)
		}
	}()
	eventually(t, "the turn runs", func() bool { return requests.Load() == 1 })
	if code := s.stop(t); code != 0 {
		t.Errorf("exit code %d", code)
	}
	<-cut
}

// A valid change is in force for new turns, an invalid one is not, and both are
// logged and counted.
func TestReload(t *testing.T) {
	base, _ := provider(t, "calc__add", `{"a":1,"b":2}`)
	path := writeConfig(t, serveConfig(base, ""))
	s := start(t, path)
	put(t, path, "servers: {calc: {comand: [x]}}\n")
	line := s.wait(t, "the changed configuration is refused")
	if !strings.Contains(fmt.Sprint(line["err"]), "servers.calc.comand: unknown key") {
		t.Errorf("log: %v", line)
	}
	if status, body := ask(t, s); status != 200 || gjson.Get(body, "choices.0.message.content").String() != "3" {
		t.Errorf("after an invalid change: %d %s", status, body)
	}
	put(t, path, serveConfig(base, "clients: {default: {servers: []}}\ndrain_timeout: 1s\n"))
	s.wait(t, "the new configuration is in force")
	if status, body := ask(t, s); status != 200 || gjson.Get(body, "choices.0.message.content").String() != "hi" {
		t.Errorf("after a valid change: %d %s", status, body)
	}
	metrics := get(t, s.admin+"/metrics")
	for _, want := range []string{`mcp_via_llm_config_reloads_total{outcome="applied"} 1`, `mcp_via_llm_config_reloads_total{outcome="refused"} 1`} {
		if !strings.Contains(metrics, want) {
			t.Errorf("no %s in the metrics", want)
		}
	}
	put(t, path, strings.Replace(serveConfig(base, ""), "admin: '127.0.0.1:0'", "admin: '127.0.0.1:1'", 1))
	if line := s.wait(t, "a changed setting needs a restart"); line["key"] != "listen" {
		t.Errorf("log: %v", line)
	}
}

// No secret reaches the log, at the highest level, nor the admin pages.
func TestSecretsStayInside(t *testing.T) {
	t.Setenv("MCP_TEST_TOKEN", "hunter2-hunter2")
	base, _ := provider(t, "calc__add", `{"a":1,"b":2}`)
	s := start(t, writeConfig(t, "listen: {ext_proc: '127.0.0.1:0', admin: '127.0.0.1:0', http: '127.0.0.1:0'}\nllm: {base_url: '"+base+"'}\nlog: {level: debug}\n"+
		"servers:\n  calc: {command: ["+os.Args[0]+"], env: {"+asServer+": '1', TOKEN: '${MCP_TEST_TOKEN}'}, optional: false}\n"+
		"  web: {url: 'http://127.0.0.1:1/${MCP_TEST_TOKEN}', headers: {Authorization: 'Bearer ${MCP_TEST_TOKEN}'}}\n"))
	if status, body := ask(t, s); status != 200 {
		t.Errorf("%d %s", status, body)
	}
	pages := get(t, s.admin+"/debug/servers") + get(t, s.admin+"/debug/turns") + get(t, s.admin+"/metrics")
	s.stop(t)
	if log := s.raw.String(); strings.Contains(log+pages, "hunter2") {
		t.Error("the secret shows")
	}
}
