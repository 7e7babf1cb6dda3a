package config

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"

	"github.com/mcp-via-llm/mcp-via-llm/chat"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// write puts text into a config file of its own folder.
func write(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func mustLoad(t testing.TB, text string) *Config {
	t.Helper()
	c, err := Load(write(t, text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// problemRows are files with one problem each; want has no file name.
var problemRows = []struct{ name, text, want string }{
	{"unknown key", "listen:\n  ext_prc: 1:2\n", `2: listen.ext_prc: unknown key; did you mean "ext_proc"?`},
	{"unknown key, nothing near", "llm:\n  zzzzzzzzzz: 1\n", `2: llm.zzzzzzzzzz: unknown key; known keys: base_url, loop_url`},
	{"unknown section", "client: {}\n", `1: client: unknown key; did you mean "clients"?`},
	{"merge key", "llm:\n  <<: {base_url: x}\n", `2: llm["<<"]: unknown key; known keys: base_url, loop_url`},
	{"duplicate key", "servers:\n  a: {command: [x]}\n  a: {command: [y]}\n", `3: servers.a: duplicate key, first given in line 2`},
	{"mapping wanted", "servers: [a]\n", `1: servers: must be a mapping (key: value), not a list`},
	{"list wanted", "servers:\n  a:\n    command: npx\n", `3: servers.a.command: must be a list ([a, b]), not a single value`},
	{"text wanted", "listen: {admin: [a]}\n", `1: listen.admin: must be a text, not a list`},
	{"number wanted", "clients:\n  default:\n    max_tools: many\n", `3: clients.default.max_tools: must be a whole number`},
	{"quoted number", "max_request_bytes: '10'\n", `1: max_request_bytes: must be a whole number`},
	{"bool wanted", "clients: {default: {resources: maybe}}\n", `1: clients.default.resources: must be true or false`},
	{"duration without unit", "drain_timeout: 30\n", `1: drain_timeout: must be a duration with its unit, such as 500ms, 60s or 5m`},
	{"zero", "clients: {default: {loop_timeout: 0s}}\n", `1: clients.default.loop_timeout: must be greater than zero`},
	{"unknown server", "servers: {files: {command: [x]}}\nclients:\n  team-a:\n    servers:\n      - fils\n", `5: clients.team-a.servers[0]: unknown server "fils"; did you mean "files"?`},
	{"unknown server, none configured", "clients: {a: {servers: [b]}}\n", `1: clients.a.servers[0]: unknown server "b"; none is configured`},
	{"unknown server, expanded", "clients: {a: {servers: ['${SECRET}']}}\n", `1: clients.a.servers[0]: unknown server "${SECRET}"; none is configured`},
	{"servers of like names", "servers:\n  a: {command: [x]}\n  a__b: {command: [x]}\n  ab: {command: [x]}\n", `3: servers.a__b: begins as the tools of the server "a" do (a__…): a tool, and a rule for it, could be of either; rename one of the servers`},
	{"servers of like names when injected", "servers:\n  a.x_.b: {command: [x]}\n  a.x: {command: [x]}\n", `2: servers.a.x_.b: begins as the tools of the server "a.x" do (a_x__…): a tool, and a rule for it, could be of either; rename one of the servers`},
	{"transposed key", "servers: {a: {ulr: 'http://h'}}\n", `1: servers.a.ulr: unknown key; did you mean "url"?`},
	{"transposed section", "lgo: {}\n", `1: lgo: unknown key; did you mean "log"?`},
	{"identity of a credential", "identity: {header: Authorization}\n", `1: identity.header: "Authorization" carries a secret, and identities are in logs as they are; leave header out: authorization in identity.from uses its hash`},
	{"identity of a cookie", "identity: {header: cookie}\n", `1: identity.header: "cookie" carries a secret, and identities are in logs as they are; leave header out: authorization in identity.from uses its hash`},
	{"identity of a caller's token", "identity: {header: X-User}\n" + of("auth: {token_exchange: {token_url: 'https://sts', subject_header: x-user}}"), `1: identity.header: "X-User" carries the callers' tokens (subject_header of a token_exchange), and identities are in logs as they are; use another header`},
	{"identity of the protocol", "identity: {header: Host}\n", `1: identity.header: "Host" belongs to the protocol, and is no identity`},
	{"protocol header forwarded", "servers: {a: {url: 'http://h', forward_headers: [x-t, Mcp-Session-Id]}}\n", `1: servers.a.forward_headers[1]: "Mcp-Session-Id" belongs to the protocol; the service sets its own for each MCP server`},
	{"length forwarded", "servers: {a: {url: 'http://h', forward_headers: [content-length]}}\n", `1: servers.a.forward_headers[0]: "content-length" belongs to the protocol; the service sets its own for each MCP server`},
	{"protocol header set", "servers: {a: {url: 'http://h', headers: {Host: x}}}\n", `1: servers.a.headers.Host: belongs to the protocol, and is the service's own to set`},
	{"credential of a gateway forwarded", "servers: {a: {url: 'http://h', forward_headers: [Ocp-Apim-Subscription-Key]}}\n", `1: servers.a.forward_headers[0]: "Ocp-Apim-Subscription-Key" carries the caller's LLM credential, which no MCP server may get; let callers use a header of their own`},
	{"server twice", "servers: {f: {command: [x]}}\nclients: {a: {servers: [f, f]}}\n", `2: clients.a.servers[1]: server "f" is named twice`},
	{"unknown client in routes", "clients: {team-a: {}}\nroutes:\n  \"httproute/a/*\": team-b\n", `3: routes["httproute/a/*"]: unknown client "team-b"; did you mean "team-a"?`},
	{"bad route glob", "routes:\n  \"a[\": default\n", `2: routes["a["]: is not a glob: use *, ? and [a-z] classes, and \ before a literal one of them`},
	{"bad tool glob", "servers:\n  a:\n    command: [x]\n    tools:\n      deny: ['[']\n", `5: servers.a.tools.deny[0]: is not a glob: use *, ? and [a-z] classes, and \ before a literal one of them`},
	{"a stdio server with a way for HTTP", "servers:\n  a:\n    command: [x]\n    egress: false\n", `2: servers.a: mixes a stdio server (command, env, cwd) with an HTTP one (url, headers, forward_headers, auth, tls, transport, egress); keep one kind`},
	{"stdio and HTTP mixed", "servers:\n  a:\n    command: [x]\n    url: http://h/mcp\n", `2: servers.a: mixes a stdio server (command, env, cwd) with an HTTP one (url, headers, forward_headers, auth, tls, transport, egress); keep one kind`},
	{"neither kind", "servers:\n  a: {}\n", `2: servers.a: needs a command (stdio server) or a url (HTTP server)`},
	{"empty command", "servers: {a: {command: []}}\n", `1: servers.a.command: needs a program, such as [npx, -y, some-server]`},
	{"missing cwd", "servers:\n  a:\n    command: [x]\n    cwd: /nonexistent/dir\n", `4: servers.a.cwd: "/nonexistent/dir" is not a directory here; create it, correct the path, or leave cwd out for the service's own`},
	{"cwd is a file", "servers: {a: {command: [x], cwd: load_test.go}}\n", `1: servers.a.cwd: "load_test.go" is not a directory here; create it, correct the path, or leave cwd out for the service's own`},
	{"expanded cwd", "servers: {a: {command: [x], cwd: '/${SECRET}'}}\n", `1: servers.a.cwd: "/${SECRET}" is not a directory here; create it, correct the path, or leave cwd out for the service's own`},
	{"variable with =", "servers:\n  a:\n    command: [x]\n    env:\n      A=b: c\n", `5: servers.a.env["A=b"]: the name of an environment variable must not contain "=" or NUL; write NAME: value`},
	{"variable without a name", "servers: {a: {command: [x], env: {'': c}}}\n", `1: servers.a.env[""]: an environment variable needs a name`},
	{"null variable", "servers:\n  a:\n    command: [x]\n    env:\n      TOKEN:\n", `5: servers.a.env.TOKEN: has no value; give it one, write "" for an empty one, or leave the key out`},
	{"null header", "servers:\n  a:\n    url: http://h\n    headers: {x: ~}\n", `4: servers.a.headers.x: has no value; give it one, write "" for an empty one, or leave the key out`},
	{"empty redis URL", "store:\n  redis:\n    url: \"\"\n", `3: store.redis.url: is empty; give it a URL such as redis://127.0.0.1:6379/0, or leave store.redis out for the store in memory`},
	{"redis without a URL", "store:\n  redis: {}\n", `2: store.redis.url: is empty; give it a URL such as redis://127.0.0.1:6379/0, or leave store.redis out for the store in memory`},
	{"server name", "servers:\n  1st: {command: [x]}\n", `2: servers.1st: a server name must begin with an ASCII letter, because tool names are made from it`},
	{"relative root", "servers: {a: {command: [x], roots: [src]}}\n", `1: servers.a.roots[0]: "src" is not a file URI; write the absolute path as file:///path/to/directory`},
	{"root on a host", "servers: {a: {command: [x], roots: ['file://data/x']}}\n", `1: servers.a.roots[0]: "file://data/x" is not a file URI; write the absolute path as file:///path/to/directory`},
	{"root of another scheme", "servers:\n  a:\n    command: [x]\n    roots: ['file:///a', 'https://h/b']\n", `4: servers.a.roots[1]: "https://h/b" is not a file URI; write the absolute path as file:///path/to/directory`},
	{"whole call shorter than its silence", "servers:\n  a:\n    command: [x]\n    tool_timeout: 2m\n    tool_timeout_max: 90s\n", `5: servers.a.tool_timeout_max: is shorter than tool_timeout (2m0s), and would cut it`},
	{"no time for a call", "servers: {a: {command: [x], tool_timeout_max: 0s}}\n", `1: servers.a.tool_timeout_max: must be greater than zero`},
	{"misspelt timeout", "servers: {a: {command: [x], tool_timeout_maxx: 1m}}\n", `1: servers.a.tool_timeout_maxx: unknown key; did you mean "tool_timeout_max"?`},
	{"sampling", "servers: {a: {command: [x], sampling: perhaps}}\n", `1: servers.a.sampling: must be true or false`},
	{"empty transport", "servers: {a: {url: 'http://h', transport: ''}}\n", `1: servers.a.transport: must be one of: streamable-http, sse`},
	{"transport", "servers: {a: {url: 'http://h', transport: http}}\n", `1: servers.a.transport: must be one of: streamable-http, sse`},
	{"bad URL", "servers:\n  a:\n    url: host/mcp\n", `3: servers.a.url: is not a URL of the form http://host or https://host:port/path`},
	{"bad expanded URL", "servers: {a: {url: '${SECRET}'}}\n", `1: servers.a.url: is not a URL of the form http://host or https://host:port/path`},
	{"bad expanded number", "max_request_bytes: ${NOT_A_NUMBER}\n", `1: max_request_bytes: must be a whole number`},
	{"loop URL with a path", "llm: {loop_url: 'http://127.0.0.1:1/v1'}\n", `1: llm.loop_url: must be scheme and host only, because requests keep the client's own path`},
	{"base URL with a password", "llm: {base_url: 'http://u:hunter2@h/v1'}\n", `1: llm.base_url: must not carry a query or credentials`},
	{"header name", "servers: {a: {url: 'http://h', headers: {'a b': x}}}\n", `1: servers.a.headers["a b"]: is not a valid HTTP header name`},
	{"header value", "servers: {a: {url: 'http://h', headers: {a: \"hunter2\\n\"}}}\n", `1: servers.a.headers.a: has characters that an HTTP header value must not contain`},
	{"forwarded credential", "servers: {a: {url: 'http://h', forward_headers: [Authorization]}}\n", `1: servers.a.forward_headers[0]: "Authorization" carries the caller's LLM credential, which no MCP server may get; let callers use a header of their own`},
	{"unset variable", "servers:\n  a:\n    url: http://h\n    headers: {x: '${MCP_TEST_UNSET}'}\n", `4: servers.a.headers.x: the environment variable MCP_TEST_UNSET of ${MCP_TEST_UNSET} is not set`},
	{"missing file", "listen:\n  admin: ${file:/nonexistent/x}\n", `2: listen.admin: the file of a ${file:PATH} cannot be read: open /nonexistent/x: no such file or directory`},
	{"unclosed reference", "store: {key_prefix: 'a${b'}\n", `1: store.key_prefix: has a ${ without its }; write $${ for a literal ${`},
	{"strange reference", "store: {key_prefix: '${A:-b}'}\n", `1: store.key_prefix: ${A:-b} is neither ${VAR} nor ${file:PATH}; write $${ for a literal ${`},
	{"address", "listen: {ext_proc: localhost}\n", `1: listen.ext_proc: is not an address of the form host:port, such as 127.0.0.1:9002`},
	{"http without base_url", "listen: {http: '127.0.0.1:0'}\n", `1: listen.http: the mode without Envoy needs llm.base_url, such as http://127.0.0.1:11434/v1`},
	{"half a certificate", "listen:\n  tls: {cert: a}\n", `2: listen.tls: needs both cert and key`},
	{"encryption key", "store:\n  encryption_keys: [c2hvcnQ=]\n", `2: store.encryption_keys: cannot be used: invalid argument: encryption key 1 is not 32 bytes in base64`},
	{"redis URL", "store: {redis: {url: 'http://u:hunter2@h'}}\n", `1: store.redis.url: cannot be used: invalid argument: the Redis URL must have the form redis://user:password@host:port/0, with rediss for TLS, ?master_name=NAME for Sentinel, redis+cluster for a cluster; in a password, / ? # @ : % must be percent-encoded`},
	{"schema dialect", "clients: {a: {schema_dialect: geminii}}\n", "1: clients.a.schema_dialect: must be one of: openai, openai-strict, gemini, mistral, anthropic, permissive"},
	{"no room for tools", "clients: {a: {max_tools_bytes: 0}}\n", "1: clients.a.max_tools_bytes: must be greater than zero"},
	{"dialect", "clients: {a: {dialect: opnai}}\n", `1: clients.a.dialect: must be one of: ` + strings.Join(sortedKeys(chat.Dialects), ", ")},
	{"empty model", "clients: {a: {models: ['']}}\n", `1: clients.a.models[0]: must not be empty; * matches every model`},
	{"images", "clients: {a: {images: yes}}\n", `1: clients.a.images: must be one of: describe, user_message, tool_message`},
	{"elicitation", "clients: {a: {elicitation: server}}\n", `1: clients.a.elicitation: must be one of: decline, client`},
	{"sampling without a budget", "clients:\n  a:\n    sampling: {max_requests: 3}\n", `3: clients.a.sampling.max_tokens: must be greater than zero`},
	{"sampling, misspelt", "clients:\n  a:\n    sampling: {max_request: 3, max_tokens: 1, max_requests: 1}\n", `3: clients.a.sampling.max_request: unknown key; did you mean "max_requests"?`},
	{"a question that outlives its turn", "clients:\n  a:\n    approval_timeout: 2h\n", `3: clients.a.approval_timeout: an open question (approval_timeout, 2h0m0s) must not outlive the memory of its turn (session_ttl, 1h0m0s)`},
	{"no time for a question", "clients: {a: {approval_timeout: 0s}}\n", `1: clients.a.approval_timeout: must be greater than zero`},
	{"identity", "identity: {from: [cookie]}\n", `1: identity.from[0]: must be one of: mtls_san, jwt_sub, authorization`},
	{"log level", "log: {level: loud}\n", `1: log.level: must be one of: debug, info, warn, error`},
	{"old Envoy", "envoy: {version: 1.36}\n", `1: envoy.version: needs an Envoy version from 1.37 on, such as 1.40`},
	{"override on old Envoy", "envoy: {version: 1.39.3, mode: override}\n", `1: envoy.mode: override needs Envoy 1.40; use static, or leave mode out`},
	{"fail open in static mode", "envoy: {mode: static, failure_mode_allow: true}\n", `1: envoy.failure_mode_allow: is not possible in static mode: Envoy cannot go on once body bytes have left it`},
	{"tracing without a collector", "envoy:\n  tracing: {sampling: 5}\n", `2: envoy.tracing.collector: is not an address of the form host:port, such as 127.0.0.1:9002`},
	{"tracing, misspelt", "envoy: {tracing: {collectr: 'a:1', collector: 'a:1'}}\n", `1: envoy.tracing.collectr: unknown key; did you mean "collector"?`},
	{"more than all traces", "envoy: {tracing: {collector: 'a:1', sampling: 101}}\n", `1: envoy.tracing.sampling: is a percentage, from 0 to 100`},
	{"traces by no service", "envoy: {tracing: {collector: 'a:1', service_name: ''}}\n", `1: envoy.tracing.service_name: must not be empty`},
	{"half a tracing percentage", "envoy: {tracing: {collector: 'a:1', sampling: half}}\n", `1: envoy.tracing.sampling: must be a number`},
	{"allowed glob", "servers: {files: {command: [x]}}\nclients:\n  a:\n    tools: {allow: ['files__[']}\n", `4: clients.a.tools.allow[0]: is not a glob: use *, ? and [a-z] classes, and \ before a literal one of them`},
	{"denied tool of no server", "servers: {files: {command: [x]}}\nclients:\n  a:\n    tools:\n      deny: ['*__ok', 'f*', 'mcp_prompt__files__*', 'fils__*']\n", `5: clients.a.tools.deny[3]: matches no tool: no server is named "fils"; did you mean "files"?`},
	{"denied tool with a dot", "clients: {a: {tools: {deny: ['files.write']}}}\n", `1: clients.a.tools.deny[0]: matches no tool: names have letters of ASCII, digits, _ and - only, such as server__tool`},
	{"rule of another language", "clients:\n  a:\n    constraints:\n      - tool: '*'\n        rule: args.path ~= 'x'\n", `5: clients.a.constraints[0].rule: is not a rule in CEL: 1:11: Syntax error: token recognition error at: '~'; 1:12: Syntax error: token recognition error at: '= '; 1:14: Syntax error: extraneous input ''x'' expecting <EOF>`},
	{"rule without a truth", "clients: {a: {constraints: [{tool: '*', rule: args.size()}]}}\n", `1: clients.a.constraints[0].rule: is not a rule in CEL: 1:1: gives int, not true or false`},
	{"rule of unknown names", "clients: {a: {constraints: [{tool: '*', rule: argz.x == user}]}}\n", `1: clients.a.constraints[0].rule: is not a rule in CEL: 1:1: undeclared reference to 'argz' (did you mean 'args'?); 1:11: undeclared reference to 'user'`},
	{"expanded rule", "clients: {a: {constraints: [{tool: '*', rule: '${SECRET}'}]}}\n", `1: clients.a.constraints[0].rule: is not a rule in CEL after its expansion`},
	{"no rule", "clients:\n  a:\n    constraints:\n      - {tool: '*'}\n", `4: clients.a.constraints[0].rule: is not a rule in CEL: 1:1: it is empty`},
	{"rule for no tool", "clients:\n  a:\n    constraints:\n      - {rule: 'true'}\n", `4: clients.a.constraints[0].tool: is not a glob: use *, ? and [a-z] classes, and \ before a literal one of them`},
	{"approval, short", "clients: {a: {approve: ['*', '[']}}\n", `1: clients.a.approve[1]: is not a glob: use *, ? and [a-z] classes, and \ before a literal one of them`},
	{"approval, long", "clients:\n  a:\n    approve:\n      - tool: 'a b'\n        unless_read_only: true\n", `4: clients.a.approve[0].tool: matches no tool: names have letters of ASCII, digits, _ and - only, such as server__tool`},
	{"approval of another form", "clients: {a: {approve: [[x]]}}\n", `1: clients.a.approve[0]: must be a mapping (key: value), not a list`},
	{"rate", "servers: {a: {command: [x], limits: {rate: 10/day}}}\n", `1: servers.a.limits.rate: is not a rate of the form 10/s, 600/m or 1000/h`},
	{"burst without a rate", "servers:\n  a:\n    command: [x]\n    limits:\n      burst: 3\n", `5: servers.a.limits.burst: is of no use without a rate`},
	{"no concurrency", "servers:\n  a:\n    command: [x]\n    limits:\n      tools:\n        \"w*\": {concurrency: 0}\n", `6: servers.a.limits.tools["w*"].concurrency: must be greater than zero`},
	{"limit of no glob", "servers:\n  a:\n    command: [x]\n    limits: {tools: {'[': {rate: 1/s}}}\n", `4: servers.a.limits.tools["["]: is not a glob: use *, ? and [a-z] classes, and \ before a literal one of them`},
	{"audit in no directory", "audit: {file: /nonexistent/audit.jsonl}\n", `1: audit.file: "/nonexistent/audit.jsonl" is in a directory that is not here; create it, or write stderr`},
	{"audit in a directory", "audit:\n  file: .\n", `2: audit.file: "." is a directory; name a file in it`},
	{"audit on stdout", "audit: {file: stdout}\n", `1: audit.file: "stdout" is not possible; write stderr, or a path (./stdout for a file of that name)`},
	{"audited arguments", "audit: {arguments: all}\n", `1: audit.arguments: must be one of: digest, full`},
	{"not YAML", "listen:\n  a: b: c\n", `2: is not valid YAML: mapping values are not allowed in this context`},
	{"two documents", "{}\n---\n{}\n", `2: has more than one YAML document; keep one`},
	{"not a mapping", "- a\n", `1: must be a mapping (key: value), not a list`},
}

func TestProblemsNameLineAndKey(t *testing.T) {
	t.Setenv("SECRET", "hunter2 not-a-url")
	t.Setenv("NOT_A_NUMBER", "hunter2")
	for _, row := range problemRows {
		t.Run(row.name, func(t *testing.T) {
			path := write(t, row.text)
			_, err := Load(path)
			if err == nil {
				t.Fatal("accepted")
			}
			if got := strings.TrimPrefix(err.Error(), path+":"); got != row.want {
				t.Errorf("\n got %s\nwant %s", got, row.want)
			}
			if strings.Contains(err.Error(), "hunter2") {
				t.Error("a secret is in the message")
			}
		})
	}
}

func TestAllProblemsAreReportedInFileOrder(t *testing.T) {
	path := write(t, "clients:\n  a: {servers: [nope], max_tols: 1}\nlisten: {admin: x}\ndrain_timeout: soon\n")
	_, err := Load(path)
	want := strings.ReplaceAll(`F:2: clients.a.max_tols: unknown key; did you mean "max_tools"?
F:2: clients.a.servers[0]: unknown server "nope"; none is configured
F:3: listen.admin: is not an address of the form host:port, such as 127.0.0.1:9002
F:4: drain_timeout: must be a duration with its unit, such as 500ms, 60s or 5m`, "F", path)
	if err == nil || err.Error() != want {
		t.Errorf("got %v\nwant %s", err, want)
	}
}

func TestWarnings(t *testing.T) {
	for text, want := range map[string]string{
		"":                                    "",
		"clients: {defautl: {}}":              `1: clients.defautl: is not the profile of requests for which no route chose another; did you mean "default"?`,
		"clients: {defautl: {}, default: {}}": "",
		"identity: {header: x-user-token}":    `1: identity.header: "x-user-token" is named like a secret, and identities are in logs as they are`,
		"identity: {header: x-monkey}":        "",
		"clients: {team: {}}":                 "",
		of("auth: {oauth: {client_id: i, client_secret: x}}"):                                    `4: servers.a.auth.oauth: has no issuer: whatever authorization server the MCP server names gets the client's proof; name the only one that may in issuer`,
		of("auth: {oauth: {client_id: i, client_secret: x, issuer: 'https://i'}}"):               "",
		of("auth: {oauth: {client_id: i, client_secret: x, token_url: 'http://idp/t'}}"):         `4: servers.a.auth.oauth.token_url: is plain http: credentials go to another machine unencrypted; use https`,
		of("auth: {oauth: {client_id: i, client_secret: x, token_url: 'http://127.0.0.2:1/t'}}"): "",
		of("auth: {token_exchange: {subject_header: x-u, token_url: 'http://[::1]/t'}}"):         "",
		of("auth: {token_exchange: {subject_header: x-u, token_url: 'http://10.0.0.1/t'}}"):      `4: servers.a.auth.token_exchange.token_url: is plain http: credentials go to another machine unencrypted; use https`,
	} {
		c := mustLoad(t, text)
		var got string
		for _, w := range c.Warnings() {
			got += strings.TrimPrefix(w.Error(), w.File+":")
		}
		if got != want {
			t.Errorf("%s\n got %s\nwant %s", text, got, want)
		}
	}
}

func TestMissingFile(t *testing.T) {
	_, err := Load("/nonexistent/c.yaml")
	if want := "/nonexistent/c.yaml: cannot be read: no such file or directory"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestDefaults(t *testing.T) {
	c := mustLoad(t, "servers: {files: {command: [x]}, web: {url: 'https://h/mcp'}}\n")
	want := &Config{
		Listen: Listen{ExtProc: "127.0.0.1:9002", Admin: "127.0.0.1:9003"},
		LLM:    LLM{LoopURL: "http://127.0.0.1:10001"},
		Store:  Store{KeyPrefix: "mcpvia:", OnError: "fail"},
		Servers: map[string]Server{
			"files": {Command: []string{"x"}, ToolTimeout: time.Minute, ConnectTimeout: 10 * time.Second, MaxResultBytes: 65536, TrustAnnotations: true, Egress: true, Optional: true},
			"web":   {URL: "https://h/mcp", ToolTimeout: time.Minute, ConnectTimeout: 10 * time.Second, MaxResultBytes: 65536, TrustAnnotations: true, Egress: true, Optional: true},
		},
		Clients: map[string]Client{"default": {
			Servers: []string{"files", "web"}, MaxIterations: 10, LoopTimeout: 5 * time.Minute, SessionTTL: time.Hour,
			Resources: true, Prompts: true, MaxParallelCalls: 16, MaxTools: 128, TurnMaxBytes: 524288, HistoryMaxBytes: 262144,
			Keepalive: 10 * time.Second, KeepaliveStyle: "comment", Dialect: "openai", SchemaDialect: "openai", MaxToolsBytes: 524288, Models: []string{"*"},
			Images: "describe", Elicitation: "decline", ApprovalTimeout: 10 * time.Minute,
		}},
		Identity:        Identity{From: []string{"mtls_san", "jwt_sub", "authorization"}},
		Audit:           Audit{Arguments: "digest"},
		MaxRequestBytes: 32 << 20, MaxResponseBytes: 32 << 20, DrainTimeout: 25 * time.Second,
		Log:   Log{Level: "info", Format: "auto"},
		Envoy: Envoy{Main: "127.0.0.1:10000", MCPEgress: "127.0.0.1:10002", Admin: "127.0.0.1:9901", Version: "1.40", CA: "/etc/ssl/certs/ca-certificates.crt"},
	}
	if diff := cmp.Diff(want, c, cmpopts.IgnoreUnexported(Config{})); diff != "" {
		t.Error(diff)
	}
}

func TestClientsStartFromBuiltInDefaults(t *testing.T) {
	c := mustLoad(t, `
servers: {a: {command: [x]}, b: {command: [y]}}
clients:
  default: {max_iterations: 3}
  team: {servers: [b], resources: false}
  none: {servers: []}
`)
	if got := c.Clients["default"]; got.MaxIterations != 3 || len(got.Servers) != 2 {
		t.Errorf("default: %+v", got)
	}
	if got := c.Clients["team"]; got.MaxIterations != 10 || got.Resources || !got.Prompts || len(got.Servers) != 1 {
		t.Errorf("team: %+v", got)
	}
	if got := c.Clients["none"]; len(got.Servers) != 0 {
		t.Errorf("none: %+v", got)
	}
	c = mustLoad(t, "servers: {a: {command: [x]}}\nclients: {team: {}}\n")
	if got := c.Clients["default"]; len(got.Servers) != 0 {
		t.Errorf("a default beside configured clients got servers nobody gave it: %+v", got)
	}
}

func TestClientFor(t *testing.T) {
	c := mustLoad(t, `
clients: {team-a: {}, team-b: {}}
routes:
  "httproute/team-b/special/*": team-a
  "httproute/team-b/*": team-b
`)
	for _, row := range []struct{ named, route, want string }{
		{"", "", "default"},
		{"team-a", "httproute/team-b/x", "team-a"},
		{"", "httproute/team-b/llm/rule/0/match/0/*", "team-b"},
		{"", "httproute/team-b/special/rule/0", "team-a"},
		{"", "httproute/other", "default"},
	} {
		if name, client, err := c.ClientFor(row.named, row.route); err != nil || client == nil || name != row.want {
			t.Errorf("ClientFor(%q, %q) = %q, %v; want %q", row.named, row.route, name, err, row.want)
		}
	}
	_, _, err := c.ClientFor("team-c", "")
	if want := `the route names an unknown profile: the client profile "team-c" is not configured; did you mean "team-a"?`; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// An empty value that is written out is meant.
func TestEmptyValuesMayBeGiven(t *testing.T) {
	c := mustLoad(t, "servers: {a: {command: [x], env: {A: ''}, cwd: .}, b: {url: 'http://h', headers: {x: \"\"}}}\nstore: {redis: }\n")
	if value, ok := c.Servers["a"].Env["A"]; !ok || value != "" || c.Store.Redis != nil {
		t.Errorf("%+v, %+v", c.Servers, c.Store)
	}
}

func TestEnvoyMode(t *testing.T) {
	for text, want := range map[string]string{
		"":                         ModeOverride,
		"envoy: {version: 1.39.3}": ModeStatic,
		"envoy: {version: '1.41'}": ModeOverride,
		"envoy: {mode: static}":    ModeStatic,
	} {
		if c := mustLoad(t, text); c.Envoy.FilterMode() != want {
			t.Errorf("%q: %s, want %s", text, c.Envoy.FilterMode(), want)
		}
	}
}

// The full example names every key there is.
func TestFullExampleIsFull(t *testing.T) {
	text, err := os.ReadFile("../examples/config/full.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var look func(reflect.Type)
	look = func(in reflect.Type) {
		switch in.Kind() {
		case reflect.Pointer, reflect.Map, reflect.Slice:
			look(in.Elem())
		case reflect.Struct:
			for i := range in.NumField() {
				key := in.Field(i).Tag.Get("yaml")
				if in.Field(i).Anonymous {
					look(in.Field(i).Type)
				}
				if key == "" {
					continue
				}
				if !regexp.MustCompile(`[\s{]` + key + `:\s`).Match(append([]byte("\n"), text...)) {
					t.Errorf("full.yaml lacks %s of %s", key, in)
				}
				look(in.Field(i).Type)
			}
		}
	}
	look(reflect.TypeFor[Config]())
}

func TestExampleFiles(t *testing.T) {
	t.Setenv("GITHUB_TOKEN", "x")
	files, err := filepath.Glob("../examples/config/*.yaml")
	if err != nil || len(files) < 2 {
		t.Fatalf("examples: %v, %v", files, err)
	}
	for _, file := range files {
		if _, err := Load(file); err != nil {
			t.Error(err)
		}
	}
}
