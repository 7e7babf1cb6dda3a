package loop

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcp-via-llm/mcp-via-llm/sessions"
	"github.com/tidwall/gjson"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// model is a scripted provider: an http.RoundTripper that answers the nth request
// with the nth answer and keeps what was asked.
type model struct {
	answers []answerFunc

	mu        sync.Mutex
	requests  []*http.Request
	bodies    []string
	byRequest map[*http.Request]string
}

// bodyOf gives the body of a request that is being answered.
func (m *model) bodyOf(r *http.Request) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.byRequest[r]
}

type answerFunc func(r *http.Request) (*http.Response, error)

func (m *model) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	n := len(m.requests)
	if m.byRequest == nil {
		m.byRequest = map[*http.Request]string{}
	}
	m.byRequest[r] = string(body)
	m.requests, m.bodies = append(m.requests, r), append(m.bodies, string(body))
	m.mu.Unlock()
	if n >= len(m.answers) {
		return respond(599, "text/plain", "the script has no answer left")(r)
	}
	return m.answers[n](r)
}

// asked gives the body of request n, from 1; "" if there was none.
func (m *model) asked(n int) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if n > len(m.bodies) {
		return ""
	}
	return m.bodies[n-1]
}

func (m *model) count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.bodies)
}

// respond answers with bytes; a body that is to come in pieces is cut up.
func respond(status int, contentType string, body string, cuts ...int) answerFunc {
	return func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {contentType}},
			Body: &cutReader{ctx: r.Context(), rest: body, cuts: cuts}}, nil
	}
}

func streamed(body string, cuts ...int) answerFunc {
	return respond(200, "text/event-stream", body, cuts...)
}
func whole(body string) answerFunc { return respond(200, "application/json", body) }

// cutReader gives its text in pieces of the given sizes, the last one repeated.
type cutReader struct {
	ctx   context.Context
	rest  string
	cuts  []int
	pause time.Duration // before each piece
}

func (c *cutReader) Read(p []byte) (int, error) {
	if c.pause > 0 {
		select {
		case <-time.After(c.pause):
		case <-c.ctx.Done():
		}
	}
	if err := context.Cause(c.ctx); err != nil {
		return 0, err
	}
	if c.rest == "" {
		return 0, io.EOF
	}
	n := min(len(p), len(c.rest))
	if len(c.cuts) > 0 {
		n = min(n, c.cuts[0])
		if len(c.cuts) > 1 {
			c.cuts = c.cuts[1:]
		}
	}
	copy(p, c.rest[:n])
	c.rest = c.rest[n:]
	return n, nil
}

func (c *cutReader) Close() error { return nil }

// fakeTools are tools that answer as a function says.
type fakeTools struct {
	names       []string
	run         func(ctx context.Context, name, arguments string) Result
	unavailable []string
	system      string
	omitted     []string
	targets     map[string]string // of names that have come to be another tool's
	approve     []string          // names of tools that need the user's consent

	mu             sync.Mutex
	calls          []madeCall
	declined       []string // "name why"
	asked, refused []string
}

type madeCall struct{ Name, Arguments string }

func (f *fakeTools) JSON() []byte {
	var b bytes.Buffer
	for i, name := range f.names {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(`{"type":"function","function":{"name":"` + name + `","parameters":{"type":"object","properties":{}}}}`)
	}
	return b.Bytes()
}
func (f *fakeTools) Has(name string) bool  { return slices.Contains(f.names, name) }
func (f *fakeTools) Owns(name string) bool { return strings.HasPrefix(name, "mcp_") }
func (f *fakeTools) Hints(name, _ string) (readOnly, repeatable bool) {
	return slices.Contains(readOnlyNames, name), slices.Contains(readOnlyNames, name)
}
func (f *fakeTools) System() string               { return f.system }
func (f *fakeTools) Approval(name, _ string) bool { return slices.Contains(f.approve, name) }
func (f *fakeTools) Omitted() []string            { return f.omitted }

// Runs knows one tool, mcp_hub__call, that calls others.
func (f *fakeTools) Runs(name, arguments string) string {
	if name == "mcp_hub__call" {
		return gjson.Get(arguments, "name").String()
	}
	if f.Has(name) {
		return name
	}
	return ""
}
func (f *fakeTools) Target(name, arguments string) string {
	runs := f.Runs(name, arguments)
	if runs == "" {
		return ""
	}
	return cmp.Or(f.targets[runs], "srv\x00"+runs)
}
func (f *fakeTools) Unavailable() []string { return f.unavailable }
func (f *fakeTools) Declined(_ context.Context, name, _, why string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.declined = append(f.declined, name+" "+why)
}
func (f *fakeTools) Asked(_ context.Context, name, _ string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, name)
}
func (f *fakeTools) Refused(_ context.Context, name, _, outcome string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refused = append(f.refused, name+" "+outcome)
}
func (f *fakeTools) Cost() (tools, tokens int) { return len(f.names), 10 * len(f.names) }

func (f *fakeTools) Injected() []Injected {
	var all []Injected
	for _, name := range f.names {
		server, _, _ := strings.Cut(strings.TrimPrefix(name, "mcp_"), "__")
		all = append(all, Injected{Name: name, Server: server, Kind: "tool", Tokens: 10})
	}
	return all
}
func (f *fakeTools) Call(ctx context.Context, name, arguments string) Result {
	if f.Approval(name, arguments) != Consented(ctx) {
		return Result{Text: "Error: the user's consent is amiss", Outcome: "denied"}
	}
	f.mu.Lock()
	f.calls = append(f.calls, madeCall{name, arguments})
	f.mu.Unlock()
	if !f.Has(name) {
		return Result{Text: "Error: there is no tool " + name, Outcome: "unknown_tool"}
	}
	if f.run == nil {
		return Result{Text: "result of " + name, Outcome: "ok"}
	}
	return f.run(ctx, name, arguments)
}

func (f *fakeTools) made() []madeCall {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.calls)
}

// readOnlyNames are the tools that say they change nothing.
var readOnlyNames = []string{"mcp_clock__now", "mcp_docs__find"}

var mcpNames = []string{"mcp_clock__now", "mcp_db__row", "mcp_docs__find", "mcp_fs__read", "mcp_fs__write", "mcp_mail__send", "mcp_wx__now"}

// rig is a handler with a scripted model and fake tools.
type rig struct {
	model   *model
	tools   *fakeTools
	client  *Client
	options Options
	store   sessions.Store // set to share it with others and with later requests
	memory  *Memory
	serve   http.Handler // in the place of one made of all this
	reports []*Report
	events  []string // of the memory

	mu sync.Mutex
}

func newRig(answers ...answerFunc) *rig {
	return &rig{
		model:  &model{answers: answers},
		tools:  &fakeTools{names: mcpNames},
		client: &Client{Name: "default", Servers: []string{"a", "b"}, MaxIterations: 10, LoopTimeout: 5 * time.Minute, Keepalive: 10 * time.Second, MaxParallelCalls: 16, SessionTTL: time.Hour, HistoryMaxBytes: 262144, ApprovalTimeout: 10 * time.Minute},
	}
}

func (g *rig) handler() http.Handler {
	if g.serve != nil {
		return g.serve
	}
	o := g.options
	o.Transport = g.model
	o.OnTurn = func(_ context.Context, r *Report) { g.mu.Lock(); defer g.mu.Unlock(); g.reports = append(g.reports, r) }
	if o.Memory = g.memory; o.Memory == nil {
		o.Memory = g.remember(g.store)
	}
	if o.Identity == nil {
		o.Identity = func(r *http.Request) string { return r.Header.Get("Authorization") }
	}
	if o.Client == nil {
		o.Client = func(*http.Request) (*Client, error) { return g.client, nil }
	}
	o.Tools = func(context.Context, *Client, []string, *http.Request, string, []string) Tools { return g.tools }
	return New(o)
}

// remember makes a memory that counts its events.
func (g *rig) remember(store sessions.Store) *Memory {
	return NewMemory(store, nil, func(e string) { g.mu.Lock(); defer g.mu.Unlock(); g.events = append(g.events, e) })
}

// post sends a chat request and gives the whole response. Unless the rig has a
// memory, the request has one of its own.
func (g *rig) post(body string, edit ...func(*http.Request)) *httptest.ResponseRecorder {
	if g.memory == nil && g.serve == nil {
		store := sessions.NewMemory(1000, 1<<20)
		g.memory = g.remember(store)
		defer func() {
			g.memory.Close(context.Background())
			g.memory = nil
			store.Close() //nolint:errcheck // in memory
		}()
	}
	r := httptest.NewRequest("POST", "/v1/chat/completions", strings.NewReader(body))
	for _, e := range edit {
		e(r)
	}
	w := httptest.NewRecorder()
	g.handler().ServeHTTP(w, r)
	return w
}

// stream is a client's view of a streamed answer.
type stream struct {
	events     []string // data of every event
	text       string
	roles      int
	dones      int
	ids        map[string]bool
	finishes   []string
	names      []string // of tool calls, by index
	arguments  []string
	callIDs    []string
	errors     []string
	usage      []string
	extensions []string
}

// read parses a stream as a plain client would: line by line.
func read(body string) *stream {
	s := &stream{ids: map[string]bool{}}
	for _, line := range strings.Split(body, "\n") {
		data, ok := strings.CutPrefix(line, "data: ")
		if !ok {
			continue
		}
		s.events = append(s.events, data)
		if data == "[DONE]" {
			s.dones++
			continue
		}
		chunk := gjson.Parse(data)
		if e := chunk.Get("error"); e.IsObject() {
			s.errors = append(s.errors, e.Raw)
			continue
		}
		s.ids[chunk.Get("id").String()] = true
		if u := chunk.Get("usage"); u.IsObject() {
			s.usage = append(s.usage, u.Raw)
		}
		if e := chunk.Get("extensions.mcp_via_llm"); e.Exists() {
			s.extensions = append(s.extensions, e.Raw)
		}
		choice := chunk.Get("choices.0")
		s.text += choice.Get("delta.content").String()
		if choice.Get("delta.role").Exists() {
			s.roles++
		}
		if f := choice.Get("finish_reason").String(); f != "" {
			s.finishes = append(s.finishes, f)
		}
		for _, call := range choice.Get("delta.tool_calls").Array() {
			s.addCall(call)
		}
	}
	return s
}

func (s *stream) addCall(call gjson.Result) {
	i := int(call.Get("index").Int())
	for len(s.names) <= i {
		s.names, s.arguments, s.callIDs = append(s.names, ""), append(s.arguments, ""), append(s.callIDs, "")
	}
	s.names[i] += call.Get("function.name").String()
	s.arguments[i] += call.Get("function.arguments").String()
	s.callIDs[i] += call.Get("id").String()
}
