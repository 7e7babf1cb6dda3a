package loop

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mcp-via-llm/mcp-via-llm/chat"
	"github.com/tidwall/gjson"
)

const question = `{"model":"m","messages":[{"role":"user","content":"x"}]`

// calls is a completion that makes calls, given as name and arguments in turn.
func calls(pairs ...string) string {
	var entries []string
	for i := 0; i < len(pairs); i += 2 {
		entries = append(entries, fmt.Sprintf(`{"id":"c%d","type":"function","function":{"name":%q,"arguments":%q}}`, i/2+1, pairs[i], pairs[i+1]))
	}
	return `{"id":"cc","choices":[{"index":0,"finish_reason":"tool_calls","message":{"role":"assistant","content":null,"tool_calls":[` + strings.Join(entries, ",") + `]}}],"usage":{"prompt_tokens":10,"completion_tokens":2,"total_tokens":12}}`
}

// says is a completion that answers.
func says(text string) string {
	return fmt.Sprintf(`{"id":"cc","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":%q}}],"usage":{"prompt_tokens":20,"completion_tokens":3,"total_tokens":23}}`, text)
}

// asStream is a completion as a stream of one chunk.
func asStream(completion string) string {
	return "data: " + chat.AsChunk(completion) + "\n\ndata: [DONE]\n\n"
}

func extension(body, name string) string {
	return gjson.Get(body, "extensions.mcp_via_llm."+name).String()
}

func TestParallelCallsKeepTheModelsOrder(t *testing.T) {
	g := newRig(whole(calls("mcp_wx__now", `{"city":"Oslo"}`, "mcp_clock__now", "{}", "mcp_wx__now", `{"city":"Rome"}`)), whole(says("done")))
	started := make(chan struct{}, 3)
	release := make(chan struct{})
	g.tools.run = func(_ context.Context, name, arguments string) Result {
		started <- struct{}{}
		<-release
		if strings.Contains(arguments, "Oslo") {
			time.Sleep(time.Millisecond) // the first one ends last
		}
		return Result{Text: name + arguments, Outcome: "ok"}
	}
	go func() {
		for range 3 {
			<-started // all three run before any may end
		}
		close(release)
	}()
	w := g.post(question + "}")
	var results []string
	for _, m := range gjson.Get(g.model.asked(2), `messages.#(role=="tool")#.content`).Array() {
		results = append(results, m.String())
	}
	if want := []string{`mcp_wx__now{"city":"Oslo"}`, `mcp_clock__now{}`, `mcp_wx__now{"city":"Rome"}`}; !slices.Equal(results, want) {
		t.Errorf("results %q, want %q", results, want)
	}
	if got := extension(w.Body.String(), "mcp_tools_called"); got != `["mcp_wx__now","mcp_clock__now","mcp_wx__now"]` {
		t.Errorf("mcp_tools_called = %s", got)
	}
	if got := gjson.Get(w.Body.String(), "usage").Raw; got != `{"prompt_tokens":30,"completion_tokens":5,"total_tokens":35}` {
		t.Errorf("usage = %s", got)
	}
}

func TestForcedToolChoiceIsForTheFirstSegment(t *testing.T) {
	for _, tt := range []struct{ sent, second string }{
		{`"required"`, `"auto"`},
		{`"auto"`, `"auto"`},
		{`{"type":"function","function":{"name":"mcp_wx__now"}}`, `"auto"`},
		{`{"type":"function","function":{"name":"nobody_knows"}}`, `"auto"`},
		{`{"type":"allowed_tools","allowed_tools":{"mode":"required","tools":[]}}`, `{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[]}}`},
		{`null`, `null`},
	} {
		g := newRig(whole(calls("mcp_wx__now", "{}")), whole(says("done")))
		g.post(question + `,"tool_choice":` + tt.sent + "}")
		if got := gjson.Get(g.model.asked(1), "tool_choice").Raw; got != tt.sent {
			t.Errorf("first segment: tool_choice = %s, want %s", got, tt.sent)
		}
		if got := gjson.Get(g.model.asked(2), "tool_choice").Raw; got != tt.second {
			t.Errorf("second segment: tool_choice = %s, want %s", got, tt.second)
		}
	}
}

func TestIterationCap(t *testing.T) {
	for _, streaming := range []bool{false, true} {
		t.Run(fmt.Sprint("stream ", streaming), func(t *testing.T) {
			answer := func(s string) answerFunc {
				if streaming {
					return streamed(asStream(s))
				}
				return whole(s)
			}
			g := newRig(answer(calls("mcp_wx__now", "{}")), answer(calls("mcp_wx__now", "{}")), answer(calls("mcp_wx__now", "{}")))
			g.client.MaxIterations = 2
			body := g.post(fmt.Sprintf("%s,\"stream\":%v}", question, streaming)).Body.String()
			if g.model.count() != 3 || gjson.Get(g.model.asked(3), "tool_choice").String() != "none" {
				t.Errorf("%d requests, the last with tool_choice %s; want 3 and none", g.model.count(), gjson.Get(g.model.asked(3), "tool_choice"))
			}
			if !gjson.Get(g.model.asked(3), "tools.0").Exists() {
				t.Error("the last request has lost its tools")
			}
			if n := len(g.tools.made()); n != 2 {
				t.Errorf("%d calls ran, want 2: what is called in spite of tool_choice none does not run", n)
			}
			finish, stop := gjson.Get(body, "choices.0.finish_reason").String(), extension(body, "stop_reason")
			text := gjson.Get(body, "choices.0.message.content").String()
			if streaming {
				s := read(body)
				text = s.text
				finish, stop = strings.Join(s.finishes, ","), gjson.Get(s.extensions[0], "stop_reason").String()
			}
			if finish != "stop" || stop != StopMaxIterations {
				t.Errorf("finish %q, stop_reason %q", finish, stop)
			}
			if !strings.Contains(text, "after 2 rounds") || strings.Contains(body, `"tool_calls":[`) {
				t.Errorf("%s", body)
			}
			// The model finds the same text in the history.
			g.answer(answer(says("Fine.")))
			g.post(chatOf(`{"role":"user","content":"x"}`, `{"role":"assistant","content":`+strconv.Quote(text)+`}`, `{"role":"user","content":"go on"}`))
			if got := g.history(); !strings.Contains(got, "assistant:"+text+"|user:go on") {
				t.Errorf("the model saw %s", got)
			}
		})
	}
}

func TestWhoOwnsACall(t *testing.T) {
	own := `,"tools":[{"type":"function","function":{"name":"book_table"}}]`
	for _, tt := range []struct {
		name, request, called string
		toClient              bool
	}{
		{"the client's own", own, "book_table", true},
		{"a tool of ours", own, "mcp_wx__now", false},
		{"a near miss in our namespace", own, "mcp_wx__forcast", false},
		{"nobody's, and the client has functions", own, "Bash", true},
		{"nobody's, and the client has none", "", "Bash", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := newRig(whole(calls(tt.called, `{"a":1}`)), whole(says("done")))
			w := g.post(question + tt.request + "}")
			got := gjson.Get(w.Body.String(), "choices.0.message.tool_calls.0.function.name").String()
			if tt.toClient && (got != tt.called || g.model.count() != 1) {
				t.Errorf("the client got call %q after %d segments", got, g.model.count())
			}
			if !tt.toClient && (got != "" || g.model.count() != 2) {
				t.Errorf("the client got call %q after %d segments", got, g.model.count())
			}
		})
	}
}

// Until results of a mixed turn are kept for its resume, its MCP calls run and
// the client gets its own calls alone.
func TestMixedTurn(t *testing.T) {
	own := `,"tools":[{"type":"function","function":{"name":"book_table"}}]`
	mixed := calls("mcp_wx__now", "{}", "book_table", `{"n":2}`, "mcp_clock__now", "{}")
	g := newRig(whole(mixed))
	body := g.post(question + own + "}").Body.String()
	if got := gjson.Get(body, "choices.0.message.tool_calls.#.function.name").Raw; got != `["book_table"]` {
		t.Errorf("the client got %s", got)
	}
	if got := extension(body, "stop_reason") + extension(body, "mcp_tools_called"); got != `client_tool_calls["mcp_wx__now","mcp_clock__now"]` {
		t.Errorf("extensions: %s", got)
	}
	g = newRig(streamed(asStream(mixed)))
	s := read(g.post(question + own + `,"stream":true}`).Body.String())
	if !slices.Equal(s.names, []string{"book_table"}) || !slices.Equal(s.callIDs, []string{"c2"}) || !slices.Equal(s.finishes, []string{"tool_calls"}) {
		t.Errorf("streamed: calls %v, ids %v, finishes %v", s.names, s.callIDs, s.finishes)
	}
	if len(g.tools.made()) != 2 {
		t.Errorf("%d MCP calls ran, want 2", len(g.tools.made()))
	}
}

func TestRequestsThatPassUntouched(t *testing.T) {
	body := `{ "model":"m", "messages":[], "n":2 }`
	answer := "data: {\"choices\":[{\"index\":1,\"delta\":{\"tool_calls\":[]}}]}\r\n\r\n"
	for name, tt := range map[string]struct {
		body string
		edit func(*rig, *http.Request)
	}{
		"n is 2":             {body, nil},
		"legacy functions":   {`{"messages":[],"functions":[]}`, nil},
		"tool_choice none":   {`{"messages":[],"tool_choice":"none"}`, nil},
		"opted out":          {`not even JSON`, func(_ *rig, r *http.Request) { r.Header.Set(HeaderOff, "off") }},
		"another model":      {`{"model":"gpt","messages":[]}`, func(g *rig, _ *http.Request) { g.client.Models = []string{"local/*"} }},
		"no tools":           {`{"messages":[]}`, func(g *rig, _ *http.Request) { g.tools.names = nil }},
		"another path":       {`{"input":"x"}`, func(_ *rig, r *http.Request) { r.URL.Path = "/v1/embeddings" }},
		"tools is no array":  {`{"messages":[],"tools":3}`, nil},
		"several are opt-in": {`{"messages":[],"function_call":"auto"}`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			g := newRig(respond(207, "x/y", answer))
			w := g.post(tt.body, func(r *http.Request) {
				r.Header.Set(HeaderServers, "a,b")
				if tt.edit != nil {
					tt.edit(g, r)
				}
			})
			if g.model.asked(1) != tt.body || w.Body.String() != answer || w.Code != 207 {
				t.Errorf("the model got %q, the client %d %q", g.model.asked(1), w.Code, w.Body)
			}
			for _, header := range Headers {
				if v := g.model.requests[0].Header.Get(header); v != "" {
					t.Errorf("the model's provider sees %s: %s", header, v)
				}
			}
		})
	}
}

func TestClientErrors(t *testing.T) {
	for name, tt := range map[string]struct {
		body   string
		edit   func(*rig, *http.Request)
		status int
		code   string
	}{
		"not JSON":         {`{"messages":[`, nil, 400, "invalid_body"},
		"two values":       {`{"messages":[]}{}`, nil, 400, "invalid_body"},
		"not an object":    {`[1]`, nil, 400, "invalid_body"},
		"no messages":      {`{"model":"m"}`, nil, 400, "invalid_body"},
		"nested too deep":  {strings.Repeat("[", 5_000_000), nil, 400, "invalid_body"},
		"too large":        {`{"messages":["` + strings.Repeat("x", 2000) + `"]}`, func(g *rig, _ *http.Request) { g.options.MaxRequestBytes = 1000 }, 413, "request_too_large"},
		"unknown coding":   {`x`, func(_ *rig, r *http.Request) { r.Header.Set("Content-Encoding", "br") }, 415, "unsupported_content_encoding"},
		"gzip that is not": {`{"messages":[]}`, func(_ *rig, r *http.Request) { r.Header.Set("Content-Encoding", "gzip") }, 400, "invalid_body"},
		"unknown profile": {`{"messages":[]}`, func(g *rig, _ *http.Request) {
			g.options.Client = func(*http.Request) (*Client, error) { return nil, errors.New("no such client") }
		}, 500, "internal_error"},
		"refused profile": {`{"messages":[]}`, func(g *rig, _ *http.Request) {
			g.options.Client = func(*http.Request) (*Client, error) {
				return nil, &chat.Error{Status: 508, Code: "loop_detected", Message: "m", Type: "server_error"}
			}
		}, 508, "loop_detected"},
	} {
		t.Run(name, func(t *testing.T) {
			g := newRig()
			var log strings.Builder
			var refused []string
			g.options.Log = slog.New(slog.NewTextHandler(&log, nil))
			g.options.OnRefused = func(code string) { refused = append(refused, code) }
			var w = g.post(tt.body, func(r *http.Request) {
				if tt.edit != nil {
					tt.edit(g, r)
				}
			})
			e := gjson.Get(w.Body.String(), "error")
			if w.Code != tt.status || e.Get("code").String() != tt.code || e.Get("message").String() == "" || e.Get("type").String() == "" || !e.Get("param").Exists() {
				t.Errorf("got %d %s", w.Code, w.Body)
			}
			if g.model.count() != 0 {
				t.Error("the model was asked")
			}
			if line := "level=INFO msg=\"a request is refused\" status=" + strconv.Itoa(tt.status) + " code=" + tt.code; !strings.Contains(log.String(), line) || !slices.Equal(refused, []string{tt.code}) {
				t.Errorf("counted %q, logged %s", refused, log.String())
			}
		})
	}
}

func TestServersHeaderNarrows(t *testing.T) {
	for header, want := range map[string][]string{"b": {"b"}, " b , a": {"a", "b"}, "z": nil, "": nil} {
		if got := narrow([]string{"a", "b"}, []string{header}); !slices.Equal(got, want) {
			t.Errorf("x-mcp-servers %q gives %v, want %v", header, got, want)
		}
	}
	if got := narrow([]string{"a", "b"}, nil); len(got) != 2 {
		t.Errorf("no header gives %v", got)
	}
}

func TestServersThatAreAwayAreNamed(t *testing.T) {
	g := newRig(whole(says("hello")))
	g.tools.names, g.tools.unavailable = nil, []string{"files"}
	body := g.post(question + "}").Body.String()
	if extension(body, "servers_unavailable") != `["files"]` || gjson.Get(g.model.asked(1), "tools").Exists() {
		t.Errorf("the model got %s, the client %s", g.model.asked(1), body)
	}
}

func TestGlob(t *testing.T) {
	for _, tt := range []struct {
		pattern, s string
		want       bool
	}{
		{"*", "", true}, {"*", "a/b", true}, {"a/*", "a/b/c", true}, {"a/*", "b/a", false}, {"*b*", "abc", true},
		{"gpt-?", "gpt-4", true}, {"gpt-?", "gpt-", false}, {"", "", true}, {"", "a", false}, {"a*b*c", "axxbyyc", true}, {"a*b*c", "axxbyy", false},
	} {
		if got := Glob(tt.pattern, tt.s); got != tt.want {
			t.Errorf("Glob(%q, %q) = %v", tt.pattern, tt.s, got)
		}
	}
}

// One data line may be as large as a whole call's arguments.
func TestLargeArguments(t *testing.T) {
	for _, size := range []int{70_000, 3_000_000} {
		arguments := `{"text":"` + strings.Repeat("x", size) + `"}`
		g := newRig(streamed(asStream(calls("mcp_fs__write", arguments)), 1000), streamed(asStream(says("Written."))))
		s := read(g.post(question + `,"stream":true}`).Body.String())
		if made := g.tools.made(); len(made) != 1 || made[0].Arguments != arguments || s.text != "Written." {
			t.Errorf("%d bytes: %d calls, text %q", size, len(made), s.text)
		}
	}
}

// Calls that come without an id get one that no other turn has, the same one
// each time the same request is answered so.
func TestIDsOfCallsThatHaveNone(t *testing.T) {
	nameless := `{"choices":[{"index":0,"finish_reason":"tool_calls","message":{"role":"assistant","content":null,"tool_calls":[{"type":"function","function":{"name":"book_table","arguments":"{}"}}]}}]}`
	ids := map[string]bool{}
	for _, said := range []string{"x", "y"} {
		request := strings.Replace(question, `"x"`, fmt.Sprintf("%q", said), 1) + `,"tools":[{"type":"function","function":{"name":"book_table"}}]`
		for range 2 {
			ids[gjson.Get(newRig(whole(nameless)).post(request+"}").Body.String(), "choices.0.message.tool_calls.0.id").String()] = true
			ids[read(newRig(streamed(asStream(nameless))).post(request + `,"stream":true}`).Body.String()).callIDs[0]] = true
		}
	}
	if len(ids) != 2 || ids[""] {
		t.Errorf("ids %v, want one for each of two conversations", ids)
	}
}

func TestPrivateHeadersStayInside(t *testing.T) {
	g := newRig(whole(says("hi")))
	g.options.Private = []string{"x-github-token"}
	g.post(question+"}", func(r *http.Request) { r.Header.Set("X-Github-Token", "secret") })
	if v := g.model.requests[0].Header.Get("X-Github-Token"); v != "" {
		t.Errorf("the provider sees %s", v)
	}
}
