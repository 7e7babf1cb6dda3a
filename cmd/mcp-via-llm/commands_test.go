package main

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/mcp-via-llm/mcp-via-llm/admin"
)

func TestExitCodes(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { taken.Close() }) // after the parallel rows
	good := writeConfig(t, "servers: {a: {url: 'http://127.0.0.1:1/mcp'}}\n")
	bad := writeConfig(t, "servers:\n  a: {comand: [x]}\nclients:\n  default: {servers: [b]}\n")
	doubtful := writeConfig(t, "clients: {defautl: {}}\n")
	busy := writeConfig(t, "listen: {ext_proc: '"+taken.Addr().String()+"', admin: ''}\n")
	noCert := writeConfig(t, "listen: {ext_proc: '127.0.0.1:0', admin: '', tls: {cert: /nonexistent/c, key: /nonexistent/k}}\n")
	for name, row := range map[string]struct {
		args   string
		code   int
		stdout string // part of it; empty: nothing at all
		stderr string
	}{
		"no command":          {"", 2, "", "expected one of"},
		"unknown command":     {"srve", 2, "", "unexpected argument srve"},
		"unknown flag":        {"check --confg x", 2, "", "unknown flag --confg"},
		"no configuration":    {"serve", 2, "", "missing flags: --config"},
		"bad output":          {"tools --config " + good + " --output xml", 2, "", "--output must be one of"},
		"help":                {"--help", 0, "envoy-config", ""},
		"version":             {"version", 0, "mcp-via-llm ", ""},
		"check":               {"check --config " + good, 0, good + ": ok\n", ""},
		"check, warned":       {"check --config " + doubtful, 0, doubtful + ": ok\n", doubtful + ":1: clients.defautl: is not the profile of requests for which no route chose another; did you mean \"default\"? (warning)\n"},
		"check, bad":          {"check --config " + bad, 1, "", bad + ":2: servers.a.comand: unknown key; did you mean \"command\"?\n" + bad + ":4: clients.default.servers[0]: unknown server \"b\"; did you mean \"a\"?\n"},
		"check, missing":      {"check --config /nonexistent", 1, "", "/nonexistent: cannot be read: no such file or directory\n"},
		"serve, bad":          {"serve --config " + bad, 1, "", bad + ":2: "},
		"serve, busy":         {"serve --config " + busy, 1, "", "listen.ext_proc: listen tcp " + taken.Addr().String() + ": bind: address already in use"},
		"serve, no cert":      {"serve --config " + noCert, 1, "", "listen.tls: open /nonexistent/c"},
		"tools, bad":          {"tools --config " + bad, 1, "", bad + ":2: "},
		"tools, no client":    {"tools --config " + good + " --client x", 1, "", `--client: the client profile "x" is not configured; configured: default`},
		"sessions, no slash":  {"sessions count --config " + good + " --client foo", 2, "", `--client: "foo" is not of the form PROFILE/IDENTITY`},
		"sessions, no name":   {"sessions delete --config " + good + " --client /foo", 2, "", `--client: "/foo" is not of the form PROFILE/IDENTITY`},
		"sessions, nobody":    {"sessions delete --config " + good + " --client foo/", 2, "", `--client: "foo/" is not of the form PROFILE/IDENTITY`},
		"envoy-config":        {"envoy-config --config " + good, 0, "name: mcp_egress", ""},
		"envoy-config, url":   {"envoy-config --config " + good + " --llm-url http://127.0.0.1:8000/v1", 0, "port_value: 8000", ""},
		"envoy-config, bad":   {"envoy-config --config " + good + " --llm-url ftp://x", 1, "", "--llm-url is not an http or https URL"},
		"envoy-config, loop":  {"envoy-config --config " + writeConfig(t, "llm: {loop_url: 'https://h'}"), 1, "", "llm.loop_url must be http"},
		"envoy-config, mode":  {"envoy-config --config " + good + " --mode static", 0, "request_body_mode: FULL_DUPLEX_STREAMED", ""},
		"envoy-config, typo":  {"envoy-config --config " + good + " --mode sttic", 2, "", "--mode must be one of"},
		"envoy-config, lacks": {"envoy-config --config " + writeConfig(t, "listen: {tls: {cert: a, key: b}}"), 1, "", "envoy.service_tls"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, stdout, stderr := command(t, strings.Fields(row.args)...)
			if code != row.code || !strings.Contains(stdout, row.stdout) || !strings.Contains(stderr, row.stderr) ||
				row.stdout == "" && stdout != "" || row.stderr == "" && stderr != "" {
				t.Errorf("exit code %d, want %d\nstdout: %s\nstderr: %s", code, row.code, stdout, stderr)
			}
		})
	}
}

func TestTools(t *testing.T) {
	path := writeConfig(t, "servers:\n  calc: "+stdioServer()+"\n  gone: {command: [/nonexistent/server]}\nclients:\n  default: {}\n  calm: {servers: [calc]}\n")
	code, stdout, stderr := command(t, "tools", "--config", path, "--client", "calm", "--output", "json")
	var all []admin.Offer
	if err := json.Unmarshal([]byte(stdout), &all); err != nil {
		t.Fatalf("%v: %s", err, stdout)
	}
	if code != 0 || len(all) != 2 || all[0].Name != "calc__add" || all[1].Name != "calc__wait" ||
		all[0].Server != "calc" || all[0].Kind != "tool" || all[0].Tokens <= 0 {
		t.Errorf("exit code %d, %+v, %s", code, all, stderr)
	}
	code, stdout, stderr = command(t, "tools", "--config", path)
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	if code != 1 || len(lines) != 4 || strings.Join(strings.Fields(lines[0]), " ") != "NAME SERVER KIND TOKENS" || !strings.HasPrefix(lines[1], "calc__add ") ||
		strings.Join(strings.Fields(lines[3]), " ") != fmt.Sprintf("total of 2 %d", all[0].Tokens+all[1].Tokens) {
		t.Errorf("exit code %d, %s", code, stdout)
	}
	if !strings.Contains(stderr, `server "gone" is not available: `) || !strings.Contains(stderr, "/nonexistent/server") {
		t.Errorf("stderr: %s", stderr)
	}
}

// The command lists every kind of thing, and what there is no room for.
func TestToolsOfEveryKind(t *testing.T) {
	path := writeConfig(t, fmt.Sprintf("servers:\n  box: {command: [%q], env: {%s: library}}\nclients:\n  default: {}\n  plain: {resources: false, prompts: false}\n  few: {max_tools: 4}\n", os.Args[0], asServer))
	for client, want := range map[string]string{
		"default": "box__add tool,box__wait tool,mcp_prompt__box__review prompt,mcp_resource__box__notes resource,mcp_resource__box__row resource_template,mcp_prompt__box__style system_prompt",
		"plain":   "box__add tool,box__wait tool",
		"few": "box__add tool,box__wait tool,mcp_search_tools tool,mcp_call_tool tool,mcp_prompt__box__style system_prompt," +
			"-mcp_prompt__box__review prompt,-mcp_resource__box__notes resource,-mcp_resource__box__row resource_template",
	} {
		code, stdout, stderr := command(t, "tools", "--config", path, "--client", client, "--output", "json")
		var all []admin.Offer
		if err := json.Unmarshal([]byte(stdout), &all); err != nil || code != 0 {
			t.Fatalf("%v: %s%s", err, stdout, stderr)
		}
		var got []string
		for _, tool := range all {
			line := tool.Name + " " + tool.Kind
			if tool.LeftOut {
				line = "-" + line
			}
			if tool.LeftOut != (tool.Tokens == 0) {
				t.Errorf("%+v", tool)
			}
			got = append(got, line)
		}
		if strings.Join(got, ",") != want {
			t.Errorf("%s: %q", client, got)
		}
	}
	_, stdout, _ := command(t, "tools", "--config", path, "--client", "few")
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	if len(lines) != 11 || strings.Join(strings.Fields(lines[3]), " ")[:24] != "mcp_search_tools - tool " || !strings.HasPrefix(lines[9], "total of 5 ") ||
		strings.Join(strings.Fields(lines[10]), " ") != "left out of 3 max_tools" || !strings.HasSuffix(lines[8], "left out") {
		t.Errorf("%s", stdout)
	}
}

// A rule that matches nothing is said where it stands, with what may be meant.
func TestToolsDoubtsRules(t *testing.T) {
	path := writeConfig(t, "servers:\n  calc: "+strings.TrimSuffix(stdioServer(), "}")+`, tools: {deny: [wiat, "*dd"], allow: ["*"]}, limits: {tools: {wait: {rate: 1/s}, ad: {rate: 1/s}}}}
  gone: {command: [/nonexistent/server]}
clients:
  default:
    tools:
      allow: ["calc__*", "mcp_resource__calc__*"]
      deny:
        - calc__wiat
        - gone__x
        - "*__ad"
    approve: [calc__wait, {tool: calc__wai}]
    constraints: [{tool: "calc__w???x", rule: "true"}]
  calm:
    servers: [calc]
    tools: {deny: ["*__ad", "gone__*", "calc__w[a-c]it"]}
`)
	for client, want := range map[string][]string{
		"default": {
			`:2: servers.calc.limits.tools.ad: matches nothing that the MCP servers offer, so it does nothing (warning)`,
			`:7: clients.default.tools.allow[1]: matches nothing that the MCP servers offer, so it does nothing (warning)`,
			`:9: clients.default.tools.deny[0]: matches nothing that the MCP servers offer, so it does nothing; did you mean "calc__wait"? (warning)`,
			`:12: clients.default.approve[1]: matches nothing that the MCP servers offer, so it does nothing; did you mean "calc__wait"? (warning)`,
			`:13: clients.default.constraints[0].tool: matches nothing that the MCP servers offer, so it does nothing; did you mean "calc__wait"? (warning)`,
		},
		"calm": {
			`:2: servers.calc.limits.tools.ad: matches nothing that the MCP servers offer, so it does nothing (warning)`,
			`:16: clients.calm.tools.deny[0]: matches nothing that the MCP servers offer, so it does nothing (warning)`,
		},
	} {
		_, _, stderr := command(t, "tools", "--config", path, "--client", client)
		var got []string
		for line := range strings.Lines(stderr) {
			if strings.HasPrefix(line, path) {
				got = append(got, strings.TrimSuffix(strings.TrimPrefix(line, path), "\n"))
			}
		}
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("%s:\n got %s\nwant %s", client, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		if strings.Count(stderr, "it matches none that the server lists") != 1 || !strings.Contains(stderr, "servers.calc.tools.deny[0]") || !strings.Contains(stderr, "nearest=wait") {
			t.Errorf("%s: %s", client, stderr)
		}
	}
}
