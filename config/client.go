package config

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/mcp-via-llm/mcp-via-llm/chat"
	"github.com/mcp-via-llm/mcp-via-llm/schema"
)

// DefaultClient is the profile of requests for which no route chose another.
const DefaultClient = "default"

// Keepalive styles.
const (
	KeepaliveComment = "comment"
	KeepaliveChunk   = "chunk"
)

// Client is a client profile. Every entry starts from these defaults, not from
// the profile "default".
type Client struct {
	// Servers are the MCP servers whose tools are injected. Absent: all. Empty:
	// none, requests pass untouched.
	Servers []string `yaml:"servers"`
	// MaxIterations limits the segments of a turn; one more runs without tools,
	// for the answer (tool_choice none). A model that calls tools there all the same
	// and says nothing is answered for: its client gets a sentence that says so.
	// Default 10.
	MaxIterations int `yaml:"max_iterations"`
	// LoopTimeout limits a whole turn. Default 5m.
	LoopTimeout time.Duration `yaml:"loop_timeout"`
	// SessionTTL is how long hidden history lives after its last use. Default 60m.
	SessionTTL time.Duration `yaml:"session_ttl"`
	// Resources offers MCP resources, and templates of resources, as functions that
	// read them. Default true.
	Resources bool `yaml:"resources"`
	// Prompts offers MCP prompts: those without arguments as instructions in the
	// leading system message, the others as functions. Default true.
	Prompts bool `yaml:"prompts"`
	// MaxParallelCalls limits the MCP calls of a turn that run at once. Default 16.
	MaxParallelCalls int `yaml:"max_parallel_calls"`
	// MaxTools limits the functions of a request, the client's own included, which
	// are never left out. Resources and prompts that there is no room for, and then
	// tools of the servers that are named last, are found with mcp_search_tools and
	// called with mcp_call_tool. Default 128, OpenAI's own limit.
	MaxTools int `yaml:"max_tools"`
	// TurnMaxBytes limits the results of all calls of a turn together, in bytes; a
	// result that does not fit is shortened: its beginning and end stay. Where the
	// provider refuses a turn's request as too long for the model (by the text of its
	// error, whatever the status; status 400 and 413 whatever the text), the same request
	// sent again brings no more than 2 KiB of each result, and no call runs twice.
	// Default 524288.
	TurnMaxBytes int `yaml:"turn_max_bytes"`
	// HistoryMaxBytes limits the hidden history of a conversation, in bytes: over it the
	// oldest results are replaced by a notice. Where the provider refuses a request as too
	// long that has hidden history in it, it is sent again at once without the results of
	// earlier turns, and at the beginning of a turn, if that is not enough, without all
	// that the client does not have.
	// Default 262144.
	HistoryMaxBytes int `yaml:"history_max_bytes"`
	// Keepalive is the longest silence in a stream that has begun. Default 10s.
	Keepalive time.Duration `yaml:"keepalive"`
	// KeepaliveStyle is comment (an SSE comment line, default) or chunk (an empty
	// delta).
	KeepaliveStyle string `yaml:"keepalive_style"`
	// Dialect names the provider's peculiarities: openai (default, also for any that is
	// not named here), deepseek (an assistant's message with tool calls goes back with
	// reasoning_content, empty if there was none), mistral (stream_options is not added,
	// by which all others are asked for the usage of a stream), ollama (a message that only calls
	// tools goes back with an empty content) or bedrock (with no content; and the choice
	// of no tool, which there is none of, is not made at the end of max_iterations). In all but
	// openai the limit of an answer that a server asks for (sampling) is max_tokens,
	// unless the client's own request says max_completion_tokens.
	Dialect string `yaml:"dialect"`
	// Explain lets a request with the header "x-mcp-via-llm: explain" be told in
	// extensions.mcp_via_llm.explain what the turn did: what was injected and what
	// it costs, which servers are down, and the times of segments and calls.
	// Default false.
	Explain bool `yaml:"explain"`
	// SchemaDialect is the JSON Schema that the provider takes for the parameters of
	// functions: openai (default), openai-strict, gemini, mistral, anthropic or
	// permissive (as the MCP server sent it).
	SchemaDialect string `yaml:"schema_dialect"`
	// MaxToolsBytes limits the JSON of the injected tools, in bytes. Default 524288,
	// which is about 130,000 tokens.
	MaxToolsBytes int `yaml:"max_tools_bytes"`
	// Models are globs over the request's model: "*" is any run of characters,
	// "/" too, and "?" one. A model that matches none passes untouched. Default
	// ["*"].
	Models []string `yaml:"models"`
	// Images says how the model gets images of tool results: describe (type and
	// size in words, default), user_message (in one user message after the results
	// of a round) or tool_message (in the tool message itself, for providers that
	// take image parts there).
	Images string `yaml:"images"`
	// Sampling lets MCP servers ask the model (sampling/createMessage), on the
	// account of the turn whose call they are working on. Absent: they may not.
	Sampling *Sampling `yaml:"sampling"`
	// Elicitation says what becomes of questions that MCP servers have for the
	// user: decline (default), or client: the application gets a call of the
	// function mcp_elicit with the arguments {"server", "message", "mode":
	// "form"|"url", "requested_schema", "url"} (requested_schema is the JSON Schema
	// of a form's content, url the page of the other mode; what is not there is left
	// out). It answers with a tool message whose content is {"action":
	// "accept"|"decline"|"cancel", "content": {…}}, content being that of an accepted
	// form. What is no such answer, or does not fit the schema, counts as cancel.
	// The model sees none of it.
	Elicitation string `yaml:"elicitation"`
	// ApprovalTimeout is how long a question to the user stays open: for leave to
	// make a call (approve: a later yes runs nothing, and the model is told), and of
	// MCP servers (elicitation: declined when the time is over). Not longer than session_ttl. Default 10m, or
	// session_ttl where that is shorter.
	ApprovalTimeout time.Duration `yaml:"approval_timeout"`
	// Tools selects among what the servers offer. Default: everything.
	Tools ClientTools `yaml:"tools"`
	// Constraints are rules over the arguments of calls; all that are for a tool
	// must hold. Default none.
	Constraints []Constraint `yaml:"constraints"`
	// Approve are the tools whose calls wait until the user has approved them. The
	// question is the text of the assistant's answer, always in English: the tool, its
	// arguments (long texts are cut, no argument is left out) and the words that count.
	// The user's next message must be one of these and nothing else: yes (or y, yes
	// please, yes to all, ok, okay, approve, approved, approve all, allow, allow all,
	// confirm, confirmed, go ahead, ja, ja bitte, oui, si, sí, sì, sim, да, はい, 是), or
	// approve 1, 2 for some of several calls. Anything else, and a second message of
	// the user's beside it, is a no. Default none.
	Approve []Approve `yaml:"approve"`
}

// Sampling is the budget of MCP servers that ask the model.
type Sampling struct {
	// MaxRequests limits the requests of all servers in one turn.
	MaxRequests int `yaml:"max_requests"`
	// MaxTokens limits the tokens of each answer.
	MaxTokens int `yaml:"max_tokens"`
}

// How the model gets images of tool results.
const (
	ImagesDescribe    = "describe"
	ImagesUserMessage = "user_message"
	ImagesToolMessage = "tool_message"
)

// What becomes of questions that MCP servers have for the user.
const (
	ElicitationDecline = "decline"
	ElicitationClient  = "client"
)

func (c *Client) setDefaults() {
	c.MaxIterations = 10
	c.LoopTimeout = 5 * time.Minute
	c.SessionTTL = time.Hour
	c.Resources = true
	c.Prompts = true
	c.MaxParallelCalls = 16
	c.MaxTools = 128
	c.TurnMaxBytes = 524288
	c.HistoryMaxBytes = 262144
	c.Keepalive = 10 * time.Second
	c.KeepaliveStyle = KeepaliveComment
	c.Dialect = "openai"
	c.SchemaDialect = string(schema.OpenAI)
	c.MaxToolsBytes = 524288
	c.Models = []string{"*"}
	c.Images = ImagesDescribe
	c.Elicitation = ElicitationDecline
	c.ApprovalTimeout = 10 * time.Minute
}

func (c *Client) validate(r *report, at string, servers map[string]Server) {
	for i, name := range c.Servers {
		key := index(join(at, "servers"), i)
		if _, ok := servers[name]; !ok {
			r.add(key, "unknown server %q%s", r.shown(key, name), hint(name, sortedKeys(servers), "configured"))
		} else if slices.Contains(c.Servers[:i], name) {
			r.add(key, "server %q is named twice", r.shown(key, name))
		}
	}
	r.positive(join(at, "max_iterations"), c.MaxIterations)
	r.positive(join(at, "loop_timeout"), c.LoopTimeout)
	r.positive(join(at, "session_ttl"), c.SessionTTL)
	r.positive(join(at, "max_parallel_calls"), c.MaxParallelCalls)
	r.positive(join(at, "max_tools"), c.MaxTools)
	r.positive(join(at, "turn_max_bytes"), c.TurnMaxBytes)
	r.positive(join(at, "history_max_bytes"), c.HistoryMaxBytes)
	r.positive(join(at, "keepalive"), c.Keepalive)
	r.oneOf(join(at, "keepalive_style"), c.KeepaliveStyle, KeepaliveComment, KeepaliveChunk)
	r.oneOf(join(at, "dialect"), c.Dialect, sortedKeys(chat.Dialects)...)
	r.oneOf(join(at, "schema_dialect"), c.SchemaDialect, schema.Dialects()...)
	r.positive(join(at, "max_tools_bytes"), c.MaxToolsBytes)
	for i, glob := range c.Models {
		if glob == "" {
			r.add(index(join(at, "models"), i), "must not be empty; * matches every model")
		}
	}
	c.validatePauses(r, at)
	c.validatePolicy(r, at, servers)
}

func (c *Client) validatePauses(r *report, at string) {
	r.oneOf(join(at, "images"), c.Images, ImagesDescribe, ImagesUserMessage, ImagesToolMessage)
	if c.Sampling != nil {
		r.positive(join(at, "sampling.max_requests"), c.Sampling.MaxRequests)
		r.positive(join(at, "sampling.max_tokens"), c.Sampling.MaxTokens)
	}
	r.oneOf(join(at, "elicitation"), c.Elicitation, ElicitationDecline, ElicitationClient)
	key := join(at, "approval_timeout")
	r.positive(key, c.ApprovalTimeout)
	if r.given(key) && c.ApprovalTimeout > c.SessionTTL {
		r.add(key, "an open question (approval_timeout, %v) must not outlive the memory of its turn (session_ttl, %v)", c.ApprovalTimeout, c.SessionTTL)
	}
}

// Route sends the requests of matching Envoy routes to a client profile.
type Route struct {
	Glob   string
	Client string
}

// Routes are the entries of `routes`, in file order.
type Routes []Route

func (rs Routes) validate(r *report, at string, clients map[string]Client) {
	for _, route := range rs {
		key := join(at, route.Glob)
		r.glob(key, route.Glob)
		if _, ok := clients[route.Client]; !ok {
			r.add(key, "unknown client %q%s", r.shown(key, route.Client), hint(route.Client, sortedKeys(clients), "configured"))
		}
	}
}

// Client gives a profile by its name.
func (c *Config) Client(name string) (*Client, error) {
	client, ok := c.Clients[name]
	if !ok {
		return nil, fmt.Errorf("the client profile %q is not configured%s", name, hint(name, sortedKeys(c.Clients), "configured"))
	}
	return &client, nil
}

// ClientFor chooses the profile of a request: named if not empty (the gRPC
// metadata x-mcp-client that a route sets), else by the first glob that matches
// the route's name, else the default. An unknown name is an error.
func (c *Config) ClientFor(named, route string) (string, *Client, error) {
	name := c.NameFor(named, route)
	client, err := c.Client(name)
	if err != nil {
		return name, nil, fmt.Errorf("the route names an unknown profile: %w", err)
	}
	return name, client, nil
}

// NameFor is the name of the profile that ClientFor gives.
func (c *Config) NameFor(named, route string) string {
	if named != "" {
		return named
	}
	return c.Routes.match(route)
}

func (rs Routes) match(route string) string {
	// path.Match keeps "*" within a segment; route names are paths made by
	// control planes (httproute/NAMESPACE/NAME/rule/0/…), where it should not.
	flat := func(s string) string { return strings.ReplaceAll(s, "/", "\x00") }
	for _, r := range rs {
		if ok, _ := path.Match(flat(r.Glob), flat(route)); ok && route != "" {
			return r.Client
		}
	}
	return DefaultClient
}
