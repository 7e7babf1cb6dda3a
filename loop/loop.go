// Package loop is the turn: an http.Handler that takes a chat completions
// request, gives the model the MCP tools of its client, runs the MCP calls that
// the model makes, and asks again until there is an answer for the client.
//
// It knows nothing of Envoy or MCP: it sends requests through an
// http.RoundTripper and calls tools through small interfaces declared here.
package loop

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/mcp-via-llm/mcp-via-llm/chat"
)

// Headers with which an application steers one request. None of them reaches
// the model's provider.
const (
	HeaderOff     = "X-Mcp-Via-Llm" // "off": the request passes untouched; "explain": see Client.Explain
	HeaderServers = "X-Mcp-Servers" // names, joined by commas, that narrow the profile's servers
	HeaderSession = "X-Mcp-Session" // scopes the hidden history within the client
)

// Headers are all request headers that steer, for adapters that remove them.
var Headers = []string{HeaderOff, HeaderServers, HeaderSession}

// Client is a client profile: whose settings apply to a turn.
type Client struct {
	Name             string
	Explain          bool          // "x-mcp-via-llm: explain" makes a turn tell what it did
	Servers          []string      // names of MCP servers, in order of priority
	Models           []string      // globs; a request for a model that matches none passes untouched
	MaxIterations    int           // segments in which the model may call tools
	MaxParallelCalls int           // MCP calls of one turn that run at once
	MaxTools         int           // functions in one request, the client's own included; 0 means no limit
	MaxToolsBytes    int           // JSON of the injected functions of one request; 0 means no limit
	Resources        bool          // MCP resources are offered as tools
	Prompts          bool          // MCP prompts are offered, as instructions or as tools
	LoopTimeout      time.Duration // wall time of a turn
	Keepalive        time.Duration // longest silence of a stream that has begun; 0 means none is broken
	KeepaliveStyle   string        // "comment" or "chunk"
	Dialect          string        // a name in chat.Dialects
	SchemaDialect    string        // the JSON Schema that the provider takes
	SessionTTL       time.Duration // how long hidden history is kept after its last use
	TurnMaxBytes     int           // of the results of one turn together; 0 means no limit
	HistoryMaxBytes  int           // of hidden results in one request; 0 means no limit
	Images           string        // how the model gets images of results: "describe", "user_message" or "tool_message"
	Sampling         Sampling      // what MCP servers may ask the model for
	Elicit           bool          // questions of MCP servers reach the application as calls of ElicitFunction
	ApprovalTimeout  time.Duration // how long a question to the user stays open
}

// Sampling is the budget of MCP servers that ask the model (sampling/createMessage).
type Sampling struct {
	MaxRequests int // of all servers in one turn; 0: they may not ask
	MaxTokens   int // of each answer
}

// Tools are the MCP tools of one request.
type Tools interface {
	// JSON gives the function tools, joined by commas, byte-stable from request
	// to request; empty if there are none.
	JSON() []byte
	// Has says whether name is the injected name of one of the tools.
	Has(name string) bool
	// Owns says whether name is in the namespace of MCP tools, whether or not
	// there is such a tool.
	Owns(name string) bool
	// System gives instructions of the servers for the leading system message,
	// byte-stable from request to request; empty if there are none.
	System() string
	// Hints gives what is known of a call: that it changes nothing, and that
	// making it again does no harm (MCP, tool annotations).
	Hints(name, arguments string) (readOnly, repeatable bool)
	// Runs gives the injected name of the tool that a call runs: a call may go through
	// another tool. It is "" if there is no tool of that name.
	Runs(name, arguments string) string
	// Target tells what a call is of, such that no two tools ever have the same: a
	// name may come to be that of another tool. It is "" if there is no tool of that
	// name.
	Target(name, arguments string) string
	// Approval says whether the operator wants the user asked before this call runs.
	Approval(name, arguments string) bool
	// Declined tells of a call that Approval was for and that does not run; why is
	// one of the Declined constants.
	Declined(ctx context.Context, name, arguments, why string)
	// Asked tells of a call that Approval was for when the user is asked about it. Of
	// a question that nobody answers nothing else is told.
	Asked(ctx context.Context, name, arguments string)
	// Refused tells of a call that is not made, and about which nobody is asked: its
	// arguments cannot be read, or its name is another tool's by now. outcome is a
	// word for why, as in Result.
	Refused(ctx context.Context, name, arguments, outcome string)
	// Call runs a tool. What goes wrong is in the result: the model is told.
	Call(ctx context.Context, name, arguments string) Result
	// Omitted names the tools for which there was no room. They can be called.
	Omitted() []string
	// Unavailable names the servers whose tools should be here and are not.
	Unavailable() []string
	// Injected lists the tools in the order of JSON.
	Injected() []Injected
	// Cost tells how many they are, and the tokens that they cost together.
	Cost() (tools, tokens int)
}

// Injected is a tool that a request gets.
type Injected struct {
	Name   string `json:"name"`
	Server string `json:"server"`
	Kind   string `json:"kind"`
	Tokens int    `json:"tokens"` // an estimate of what it costs in every request
}

// Result is what a tool call gave.
type Result struct {
	Text    string // for the model
	Outcome string // "ok", or a word for what went wrong
	// Images are the pictures of the result; Text has a marker in the place of each.
	Images []Image

	span  string    // of a call that ran in the background, as at gives it
	open  *openSpan // the same, until the result is stored
	usage string    // of what the server asked the model meanwhile, raw
}

// Image is a picture for a model that takes them.
type Image struct {
	MIME string
	Data string // base64
}

// Options are what a handler works with. Client, Tools, Transport, Memory and
// Identity must be set.
type Options struct {
	// Client gives the profile of a request. A *chat.Error is sent to the client
	// as it is; any other error is logged and answered with a 500.
	Client func(*http.Request) (*Client, error)
	// Tools gives the tools of those servers for a request of the identity, whose
	// client has functions with the names in taken.
	Tools func(ctx context.Context, c *Client, servers []string, r *http.Request, identity string, taken []string) Tools
	// Transport sends the request of every segment.
	Transport http.RoundTripper
	// Aside sends requests beside the turn's own, before its first, after its last
	// and in between. Default: Transport.
	Aside http.RoundTripper
	// Memory keeps hidden history, mixed turns and journals.
	Memory *Memory
	// Identity gives the proven identity of a request's sender; "" for nobody.
	Identity func(*http.Request) string
	// Private are request headers that are meant for MCP servers, and never go to
	// the model's provider.
	Private []string
	// Degrade lets a turn that brings results of calls go on without the store.
	Degrade bool

	MaxRequestBytes  int64 // default 32 MiB
	MaxResponseBytes int64 // of one turn; default 32 MiB

	// Traces makes the spans of turns, and Propagator carries them on to the model's
	// provider. Both may be nil.
	Traces     trace.TracerProvider
	Propagator propagation.TextMapPropagator
	// Provider describes who answers a request, as attributes of spans; may be nil.
	Provider func(*http.Request, *Client) []attribute.KeyValue
	Content  Content

	// OnStart is called when a turn begins, and what it returns when the turn is
	// over, however it ends. May be nil.
	OnStart func(*Ledger) (over func())
	// OnTurn is called when a turn has ended and OnSegment when an exchange with
	// the model has, with the context of its span. Both may be nil.
	OnTurn    func(context.Context, *Report)
	OnSegment func(context.Context, SegmentEvent)
	// OnRefused is told the code of the error with which a request is refused before it
	// is a turn. May be nil.
	OnRefused func(code string)
	Log       *slog.Logger
}

const (
	defaultMaxBytes = 32 << 20
	maxEventBytes   = 16 << 20 // of one server-sent event of a provider
)

type handler struct {
	Options
	tracer   trace.Tracer    // nil: nothing is traced
	internal map[string]bool // request headers that the provider does not get
}

// New makes the handler.
func New(o Options) http.Handler {
	if o.MaxRequestBytes <= 0 {
		o.MaxRequestBytes = defaultMaxBytes
	}
	if o.MaxResponseBytes <= 0 {
		o.MaxResponseBytes = defaultMaxBytes
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Aside == nil {
		o.Aside = o.Transport
	}
	if o.OnTurn == nil {
		o.OnTurn = func(context.Context, *Report) {}
	}
	if o.OnSegment == nil {
		o.OnSegment = func(context.Context, SegmentEvent) {}
	}
	if o.OnRefused == nil {
		o.OnRefused = func(string) {}
	}
	if o.OnStart == nil {
		o.OnStart = func(*Ledger) func() { return func() {} }
	}
	h := &handler{Options: o, internal: internal(o.Private)}
	if o.Traces != nil {
		h.tracer = o.Traces.Tracer("github.com/mcp-via-llm/mcp-via-llm/loop", trace.WithSchemaURL(semconv.SchemaURL))
	}
	return h
}

// Wants says, from its headers alone, whether a request may get tools.
func Wants(r *http.Request) bool {
	return r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/chat/completions") &&
		!strings.EqualFold(strings.TrimSpace(r.Header.Get(HeaderOff)), "off")
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !Wants(r) {
		h.copyThrough(w, r, r.Body, r.ContentLength)
		return
	}
	if t := h.accept(w, r); t != nil {
		defer t.span.End()
		defer t.crashed()
		t.run()
	}
}

// accept begins the turn of a request; nil if that has its answer.
func (h *handler) accept(w http.ResponseWriter, r *http.Request) *turn {
	start := time.Now()
	client, err := h.Client(r)
	if err != nil {
		var known *chat.Error
		if !errors.As(err, &known) {
			h.Log.ErrorContext(r.Context(), "no client profile for the request", "err", err)
			known = &chat.Error{Status: http.StatusInternalServerError, Type: "server_error", Code: "internal_error",
				Message: "The gateway could not find the settings for this request."}
		}
		h.refuse(w, r, known)
		return nil
	}
	body, wrong := h.readBody(r)
	if wrong != nil {
		h.refuse(w, r, wrong)
		return nil
	}
	req, wrong := chat.ParseRequest(body.plain)
	if wrong != nil {
		h.refuse(w, r, wrong)
		return nil
	}
	servers := narrow(client.Servers, r.Header.Values(HeaderServers))
	reason := req.Untouchable
	if reason == "" && !matchAny(client.Models, req.Model) {
		reason = "the model is not among those of the client profile"
	}
	if reason != "" {
		h.passUntouched(w, r, client, body, reason)
		return nil
	}
	r, span := h.startTurn(r, client, req, start)
	runs := false
	defer func() {
		if !runs {
			span.End()
		}
	}()
	identity := h.Identity(r)
	t := newTurn(h, w, r, client, req, h.Tools(r.Context(), client, servers, r, identity, req.Names))
	t.start, t.span, t.servers = start, span, servers
	t.session = h.openSession(client, identity, r, req)
	t.report()
	if err := t.remember(r.Context()); err != nil {
		t.over = h.OnStart(t.rec)
		t.fail(r.Context(), err)
		return nil
	}
	t.notices = t.lapsed()
	switch {
	case len(t.records) > 0 || len(t.notices) > 0:
	case req.NoCalls:
		reason = "tool_choice is none"
	case len(t.tools.JSON()) == 0 && t.tools.System() == "" && len(t.tools.Unavailable()) == 0:
		reason = "there are no tools for this request"
	}
	if reason != "" {
		span.SetAttributes(attribute.String("mcp_via_llm.untouched", reason))
		h.passUntouched(w, r, client, body, reason)
		return nil
	}
	t.over = h.OnStart(t.rec)
	runs = true
	return t
}

// refuse answers a request of which no turn comes. Whoever is gone gets nothing: its
// request did not come whole.
func (h *handler) refuse(w http.ResponseWriter, r *http.Request, wrong *chat.Error) {
	if r.Context().Err() != nil {
		h.Log.DebugContext(r.Context(), "a client left before its request was there")
		return
	}
	h.Log.InfoContext(r.Context(), "a request is refused", "status", wrong.Status, "code", wrong.Code)
	h.OnRefused(wrong.Code)
	wrong.WriteTo(w)
}

func (h *handler) passUntouched(w http.ResponseWriter, r *http.Request, c *Client, body requestBody, reason string) {
	h.Log.DebugContext(r.Context(), "a request passes untouched", "client", c.Name, "reason", reason)
	h.copyThrough(w, r, body.sent(), int64(len(body.wire)))
}

// narrow gives the servers that the header names too; without a header, all.
func narrow(servers, header []string) []string {
	if len(header) == 0 {
		return servers
	}
	wanted := map[string]bool{}
	for _, name := range strings.Split(strings.Join(header, ","), ",") {
		wanted[strings.TrimSpace(name)] = true
	}
	var out []string
	for _, s := range servers {
		if wanted[s] {
			out = append(out, s)
		}
	}
	return out
}

// matchAny says whether a glob matches; an empty list matches everything.
func matchAny(globs []string, s string) bool {
	for _, g := range globs {
		if Glob(g, s) {
			return true
		}
	}
	return len(globs) == 0
}

// Glob matches s with a pattern in which * stands for any characters, "/" too,
// and ? for one.
func Glob(pattern, s string) bool {
	star, mark := -1, 0
	p, i := 0, 0
	for i < len(s) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, mark = p, i
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == s[i]):
			p++
			i++
		case star >= 0:
			p = star + 1
			mark++
			i = mark
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}
