package config

import (
	"net/url"
	"os"
	"path"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"
)

// Transports of an MCP server reached by URL.
const (
	TransportStreamableHTTP = "streamable-http"
	TransportSSE            = "sse"
)

// Server is one MCP server: a command (stdio) or a URL (HTTP), never both.
type Server struct {
	// Command starts a stdio server: program and arguments, no shell.
	Command []string `yaml:"command"`
	// Env is added to the small environment a stdio server gets.
	Env map[string]string `yaml:"env"`
	// Cwd is the working directory of a stdio server; it must exist. Default: the
	// service's own.
	Cwd string `yaml:"cwd"`
	// URL is the endpoint of an HTTP server, such as https://host/mcp.
	URL string `yaml:"url"`
	// Headers are sent with every request to an HTTP server.
	Headers map[string]string `yaml:"headers"`
	// ForwardHeaders names headers of the client's request that an HTTP server
	// gets too. Headers that carry the caller's LLM credential, and those of the
	// protocol, are refused; a caller that repeats its LLM credential in one of these
	// is heard of in the log, and the header is not sent on.
	ForwardHeaders []string `yaml:"forward_headers"`
	// Auth is what the service proves itself with to an HTTP server.
	Auth *Auth `yaml:"auth"`
	// TLS is how an https server is verified, and the client certificate for it.
	TLS *ServerTLS `yaml:"tls"`
	// Transport is streamable-http, or sse for servers of the MCP revision
	// 2024-11-05. Default: streamable-http, and sse where the server refuses that
	// with status 400, 404 or 405.
	Transport string `yaml:"transport"`
	// ToolTimeout limits the time in which a tool call shows no progress: every
	// progress notification of the server starts it anew. A call whose time is over is
	// cancelled, and never sent again. Default 60s.
	ToolTimeout time.Duration `yaml:"tool_timeout"`
	// ToolTimeoutMax limits a tool call as a whole, without the time that the
	// server waits for answers to its own questions. Default 10m, or tool_timeout
	// where that is longer.
	ToolTimeoutMax time.Duration `yaml:"tool_timeout_max"`
	// ConnectTimeout limits one attempt to connect and list. After a failure the next
	// attempt follows at once, then after 0.5 s, doubling up to 10 s, with jitter; a
	// server that refuses the credential (401, 403) is tried again after half a minute
	// to a minute. Tools are listed again every 60 s (sooner if ttlMs says so, or the
	// server that they changed). Default 10s.
	ConnectTimeout time.Duration `yaml:"connect_timeout"`
	// MaxResultBytes cuts a tool result for the model, in bytes; less than 100 counts as
	// that. Default 65536.
	MaxResultBytes int `yaml:"max_result_bytes"`
	// Roots are the directories that the server is told to work in, as file:// URIs.
	// Default none: the server may not ask for them.
	Roots []string `yaml:"roots"`
	// Sampling lets the server ask the client's model for completions during a
	// call. The client profile sets the budget. Default false.
	Sampling bool `yaml:"sampling"`
	// Elicitation lets the server ask the user for input during a call. The client
	// profile says whether anybody answers. A question that may be of another call,
	// such as one that was cancelled and not answered within tool_timeout, is declined.
	// Default false.
	Elicitation bool `yaml:"elicitation"`
	// Limits bound its calls. Default: none.
	Limits Limits `yaml:"limits"`
	// Tools selects among the server's tools by their own names.
	Tools ToolFilter `yaml:"tools"`
	// TrustAnnotations takes the server's word for which tools change nothing
	// (readOnlyHint) and may be called again (idempotentHint): read_only and
	// unless_read_only of clients go by it, and so does which calls are sent a second
	// time when the connection broke or the answer was an HTTP error. Any other call is
	// only if it cannot have run: it never left, or the server did not know the session. MCP 2025-11-25, "Tools", lets a host trust the annotations of
	// servers that it trusts only. false: no tool counts as either. Default true.
	TrustAnnotations bool `yaml:"trust_annotations"`
	// Egress lets an HTTP server be reached through Envoy where envoy.use_mcp_egress
	// is true. false: it is dialled directly, and envoy-config leaves it out, such as
	// for a server beside this service whose address means another to Envoy. Default
	// true.
	Egress bool `yaml:"egress"`
	// Optional servers do not hold back /readyz. Default true.
	Optional bool `yaml:"optional"`
}

// ToolFilter selects tools by globs: "*" is any run of characters, "?" one
// character, "[…]" a class. A glob that matches no tool is said in the log.
type ToolFilter struct {
	// Allow keeps only matching tools. Empty: all.
	Allow []string `yaml:"allow"`
	// Deny drops matching tools, also allowed ones.
	Deny []string `yaml:"deny"`
}

func (s *Server) setDefaults() {
	s.ToolTimeout = 60 * time.Second
	s.ConnectTimeout = 10 * time.Second
	s.MaxResultBytes = 65536
	s.TrustAnnotations = true
	s.Egress = true
	s.Optional = true
}

func (s *Server) validate(r *report, at, name string) {
	if name == "" || !isLetter(name[0]) {
		r.add(at, "a server name must begin with an ASCII letter, because tool names are made from it")
	}
	stdio := s.Command != nil || len(s.Env) > 0 || s.Cwd != ""
	http := s.URL != "" || len(s.Headers) > 0 || len(s.ForwardHeaders) > 0 || s.Auth != nil || s.TLS != nil || r.given(join(at, "transport")) || r.given(join(at, "egress"))
	switch {
	case stdio && http:
		r.add(at, "mixes a stdio server (command, env, cwd) with an HTTP one (url, headers, forward_headers, auth, tls, transport, egress); keep one kind")
	case s.Command == nil && s.URL == "" && !r.under(at):
		r.add(at, "needs a command (stdio server) or a url (HTTP server)")
	case s.Command != nil && (len(s.Command) == 0 || s.Command[0] == ""):
		r.add(join(at, "command"), "needs a program, such as [npx, -y, some-server]")
	}
	s.validateProcess(r, at)
	if s.URL != "" {
		r.httpURL(join(at, "url"), s.URL)
	}
	if key := join(at, "transport"); r.given(key) {
		r.oneOf(key, s.Transport, TransportStreamableHTTP, TransportSSE)
	}
	s.validateHeaders(r, at)
	s.validateAuth(r, join(at, "auth"))
	s.validateTLS(r, join(at, "tls"))
	r.positive(join(at, "tool_timeout"), s.ToolTimeout)
	if key := join(at, "tool_timeout_max"); r.given(key) {
		r.positive(key, s.ToolTimeoutMax)
		if s.ToolTimeoutMax < s.ToolTimeout {
			r.add(key, "is shorter than tool_timeout (%v), and would cut it", s.ToolTimeout)
		}
	}
	r.positive(join(at, "connect_timeout"), s.ConnectTimeout)
	r.positive(join(at, "max_result_bytes"), s.MaxResultBytes)
	for i, root := range s.Roots {
		key := index(join(at, "roots"), i)
		if u, err := url.Parse(root); err != nil || u.Scheme != "file" || u.Host != "" || !path.IsAbs(u.Path) {
			r.add(key, "%q is not a file URI; write the absolute path as file:///path/to/directory", r.shown(key, root))
		}
	}
	r.globs(join(at, "tools.allow"), s.Tools.Allow)
	r.globs(join(at, "tools.deny"), s.Tools.Deny)
	s.Limits.validate(r, join(at, "limits"))
}

// validateProcess checks what would make every start of a stdio server fail.
func (s *Server) validateProcess(r *report, at string) {
	for _, name := range sortedKeys(s.Env) {
		switch key := join(join(at, "env"), name); {
		case name == "":
			r.add(key, "an environment variable needs a name")
		case strings.ContainsAny(name, "=\x00"):
			r.add(key, "the name of an environment variable must not contain \"=\" or NUL; write NAME: value")
		case strings.Contains(s.Env[name], "\x00"):
			r.add(key, "the value of an environment variable must not contain a NUL character")
		}
	}
	if s.Cwd == "" {
		return
	}
	if info, err := os.Stat(s.Cwd); err != nil || !info.IsDir() {
		key := join(at, "cwd")
		r.add(key, "%q is not a directory here; create it, correct the path, or leave cwd out for the service's own", r.shown(key, s.Cwd))
	}
}

func (s *Server) validateHeaders(r *report, at string) {
	for _, name := range sortedKeys(s.Headers) {
		switch key := join(join(at, "headers"), name); {
		case !httpguts.ValidHeaderFieldName(name):
			r.add(key, "is not a valid HTTP header name")
		case isProtocol(name):
			r.add(key, "belongs to the protocol, and is the service's own to set")
		case !httpguts.ValidHeaderFieldValue(s.Headers[name]):
			r.add(key, "has characters that an HTTP header value must not contain")
		}
	}
	for i, name := range s.ForwardHeaders {
		switch key := index(join(at, "forward_headers"), i); {
		case !httpguts.ValidHeaderFieldName(name):
			r.add(key, "is not a valid HTTP header name")
		case isProtocol(name):
			r.add(key, "%q belongs to the protocol; the service sets its own for each MCP server", name)
		case IsLLMCredential(name):
			r.add(key, "%q carries the caller's LLM credential, which no MCP server may get; let callers use a header of their own", name)
		}
	}
}

func isLetter(b byte) bool { return 'a' <= b|0x20 && b|0x20 <= 'z' }

func (r *report) globs(at string, globs []string) {
	for i, glob := range globs {
		r.glob(index(at, i), glob)
	}
}

func (r *report) glob(at, glob string) {
	if _, err := path.Match(glob, ""); err != nil || glob == "" {
		r.add(at, "is not a glob: use *, ? and [a-z] classes, and \\ before a literal one of them")
	}
}
