package loop

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

// app is an application that talks: it sends all that it has seen, and keeps what
// it gets, as any chat client does.
type app struct {
	stream   bool
	messages []string
	edit     []func(*http.Request)
}

// seen is what an application gets for a request.
type seen struct {
	status       int
	text         string
	finish       string
	stop         string // stop_reason
	called       string // mcp_tools_called
	iterations   int64
	calls        []gjson.Result
	usage        string
	body         string
	commentsSeen int
}

func user(text string) string { return fmt.Sprintf(`{"role":"user","content":%q}`, text) }

// answers gives the rig an answer of the model, in the form that the app asks for.
func (a *app) answers(g *rig, completions ...string) {
	for _, c := range completions {
		if a.stream {
			g.answer(streamed(asStream(c)))
		} else {
			g.answer(whole(c))
		}
	}
}

// send sends the conversation with more messages, and keeps the answer.
func (a *app) send(g *rig, more ...string) seen {
	a.messages = append(a.messages, more...)
	s := a.again(g)
	a.messages = append(a.messages, s.message())
	return s
}

// message is the answer as the application keeps it.
func (s seen) message() string {
	raw := fmt.Sprintf(`{"role":"assistant","content":%q`, s.text)
	if len(s.calls) > 0 {
		var all []string
		for _, c := range s.calls {
			all = append(all, c.Raw)
		}
		raw += `,"tool_calls":[` + strings.Join(all, ",") + "]"
	}
	return raw + "}"
}

// again sends the conversation as it is, and keeps nothing.
func (a *app) again(g *rig) seen {
	body := fmt.Sprintf(`{"stream":%v,"stream_options":{"include_usage":true},%s`, a.stream, chatOf(a.messages...)[1:])
	w := g.post(body, a.edit...)
	s := seen{status: w.Code, body: w.Body.String(), usage: gjson.Get(w.Body.String(), "usage").Raw}
	choice, ext := gjson.Get(s.body, "choices.0"), gjson.Get(s.body, "extensions.mcp_via_llm")
	s.text, s.finish, s.calls = choice.Get("message.content").String(), choice.Get("finish_reason").String(), choice.Get("message.tool_calls").Array()
	if a.stream && w.Code == http.StatusOK {
		got := read(s.body)
		s.text, s.finish, s.usage = got.text, strings.Join(got.finishes, ","), strings.Join(got.usage, ",")
		ext = gjson.Parse(strings.Join(got.extensions, ""))
		for i, name := range got.names {
			s.calls = append(s.calls, gjson.Parse(fmt.Sprintf(`{"id":%q,"type":"function","function":{"name":%q,"arguments":%q}}`, got.callIDs[i], name, got.arguments[i])))
		}
		s.commentsSeen = strings.Count(s.body, ": keep-alive")
		if got.roles != 1 || got.dones != 1 || len(got.ids) != 1 {
			s.status = 0
		}
	}
	s.stop, s.called, s.iterations = ext.Get("stop_reason").String(), ext.Get("mcp_tools_called").Raw, ext.Get("iterations").Int()
	return s
}

// branch is the application with the first n of its messages.
func (a *app) branch(n int) *app {
	return &app{stream: a.stream, messages: append([]string(nil), a.messages[:n]...), edit: a.edit}
}

// lose sends the conversation as it is on a connection that breaks as a text is
// about to pass, and gives what was on its way.
func (a *app) lose(t *testing.T, g *rig, until string) string {
	t.Helper()
	body := fmt.Sprintf(`{"stream":%v,%s`, a.stream, chatOf(a.messages...)[1:])
	w := &breaking{ResponseRecorder: httptest.NewRecorder(), until: until}
	g.handler().ServeHTTP(w, httptest.NewRequest("POST", "/v1/chat/completions", strings.NewReader(body)))
	if w.lost == "" {
		t.Fatalf("the connection did not break: %s", w.Body)
	}
	return w.lost
}

// breaking is a connection that breaks as a text is about to pass.
type breaking struct {
	*httptest.ResponseRecorder
	until, lost string
}

func (b *breaking) Write(p []byte) (int, error) {
	if b.lost != "" || strings.Contains(string(p), b.until) {
		b.lost += string(p)
		return 0, errors.New("the connection is broken")
	}
	return b.ResponseRecorder.Write(p)
}
