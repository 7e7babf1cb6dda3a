package loop

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"

	"github.com/tidwall/gjson"
)

// llmScript answers requests with what is left of it, and keeps what it was asked.
type llmScript struct {
	mu      sync.Mutex
	answers []answerFunc
	asked   [][]string
}

func (l *llmScript) RoundTrip(r *http.Request) (*http.Response, error) {
	var body struct{ Messages json.RawMessage }
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		return nil, err
	}
	var lines []string
	for _, m := range gjson.ParseBytes(body.Messages).Array() {
		lines = append(lines, readSaid(m).line())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked = append(l.asked, lines)
	if len(l.answers) == 0 {
		return respond(599, "text/plain", "the script has no answer left")(r)
	}
	next := l.answers[0]
	l.answers = l.answers[1:]
	return next(r)
}

func readSaid(m gjson.Result) said {
	out := said{role: m.Get("role").String(), answers: m.Get("tool_call_id").String(), text: m.Get("content").String()}
	if parts := m.Get("content"); parts.IsArray() {
		var texts []string
		for _, p := range parts.Array() {
			texts = append(texts, p.Get("text").String())
		}
		out.text = strings.Join(texts, " ")
	}
	for _, c := range m.Get("tool_calls").Array() {
		out.calls = append(out.calls, saidCall{c.Get("id").String(), c.Get("function.name").String(),
			strings.ReplaceAll(c.Get("function.arguments").String(), " ", "")})
	}
	return out
}

func (m said) completion() string {
	message := map[string]any{"role": "assistant", "content": m.text}
	if m.text == "" {
		message["content"] = nil
	}
	if calls := m.entries(""); len(calls) > 0 {
		message["tool_calls"] = calls
	}
	return encoded(map[string]any{"id": "cc", "choices": []any{map[string]any{"index": 0, "message": message, "finish_reason": "stop"}}})
}

func (m said) entries(space string) (all []any) {
	for _, c := range m.calls {
		arguments := strings.ReplaceAll(c.arguments, ":", ":"+space)
		all = append(all, map[string]any{"id": c.id, "type": "function", "function": map[string]any{"name": c.name, "arguments": arguments}})
	}
	return all
}

func encoded(v any) string {
	out, err := json.Marshal(v)
	if err != nil {
		panic(err) // maps of strings
	}
	return string(out)
}

// send spells a request in one of the ways that clients have.
func (w *walk) send(c *talker, stream bool, sent []said) string {
	var messages []string
	for _, m := range sent {
		messages = append(messages, w.spell(m))
	}
	body := `{"model":"m","stream":` + fmt.Sprint(stream) + `,"messages":[` + strings.Join(messages, ",") + `],"tools":[{"type":"function","function":{"name":"book_table"}}]`
	if c.user != "" {
		body += `,"user":"` + c.user + `"`
	}
	r := httptest.NewRequest("POST", "/v1/chat/completions", strings.NewReader(body+"}"))
	r.Header.Set("Authorization", c.authorization)
	if c.session != "" {
		r.Header.Set(HeaderSession, c.session)
	}
	response := httptest.NewRecorder()
	w.handlers[w.pick("replica", len(w.handlers))].ServeHTTP(response, r)
	return response.Body.String()
}

func (w *walk) spell(m said) string {
	var members []string
	add := func(name string, value any) { members = append(members, fmt.Sprintf("%q:%s", name, encoded(value))) }
	add("role", m.role)
	switch text := m.text; {
	case len(m.calls) > 0 && text == "":
		if w.chance("null", 2) {
			add("content", nil)
		}
	case w.chance("parts", 4):
		head, tail, _ := strings.Cut(text, " ")
		add("content", []any{map[string]any{"type": "text", "text": head}, map[string]any{"type": "text", "text": tail}})
	case w.chance("space", 4):
		add("content", " "+strings.ReplaceAll(text, " ", "\n")+" ")
	default:
		add("content", text)
	}
	if len(m.calls) > 0 {
		add("tool_calls", m.entries(strings.Repeat(" ", w.pick("indent", 2))))
	}
	if m.role == "tool" {
		add("tool_call_id", m.answers)
	}
	if m.role == "assistant" && w.chance("nulls", 2) {
		add("refusal", nil)
	}
	if w.chance("reorder", 2) {
		slices.Reverse(members)
	}
	return "{" + strings.Join(members, ",") + "}"
}
