package sessions_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/mcp-via-llm/mcp-via-llm/e2e/llm"
)

// plan is what a user's message asks the model to do.
type plan struct {
	Nonce string `json:"nonce"`
	Kind  string `json:"kind"`  // a key of steps
	Order int    `json:"order"` // milliseconds that order takes
	Look  int    `json:"look"`
}

// steps are the calls that the model makes one message after the other; then it says that it is done. The ids repeat
// from message to message and from conversation to conversation, as those of some providers do.
var steps = map[string][][]string{
	"plain":   {},
	"order":   {{"shop__order"}},
	"mixed":   {{"shop__order", "book_table", "shop__look"}},
	"ordered": {{"shop__order"}, {"shop__look", "book_table"}},
	"long":    {{"shop__stamp"}, {"book_table", "shop__look"}, {"shop__stamp", "book_table"}, {"shop__stamp"}},
	"client":  {{"book_table"}},
}

var nonces = regexp.MustCompile(`n[0-9]+x`)

// conversationHeader tells the model which conversation a request is of, beside all that tells it to the service.
const conversationHeader = "X-Conversation"

// seen is what the model was shown of a conversation.
type seen struct {
	requests int
	last     []string          // the last request, a line a message
	results  map[string]string // by step and call: what the model was told
	degraded bool              // a message came without the calls that are hidden from the client
}

// model plays the plans, and looks at every request: all calls of a message in order, then their results in the same
// order, nothing of another conversation, and nothing that was told differently before.
type model struct {
	t *testing.T

	mu       sync.Mutex
	seen     map[string]*seen // by conversation
	failures map[string]int   // by nonce: requests with results of tools that are to be answered with 500
	gates    map[string]chan struct{}
}

func newModel(t *testing.T) *model {
	return &model{t: t, seen: map[string]*seen{}, failures: map[string]int{}, gates: map[string]chan struct{}{}}
}

func (m *model) answer(r *llm.Request) llm.Step {
	if r.Chat.Err != nil {
		m.t.Errorf("the model got a body that is not one JSON value: %v", r.Chat.Err)
	}
	at, p := lastPlan(r.Chat.Messages)
	m.mu.Lock()
	defer m.mu.Unlock()
	who := r.Header.Get(conversationHeader)
	s := m.seen[who]
	if s == nil {
		s = &seen{results: map[string]string{}}
		m.seen[who] = s
	}
	s.requests++
	s.last = lines(r.Chat.Messages)
	for _, found := range nonces.FindAllString(strings.Join(s.last, " "), -1) {
		if found != p.Nonce {
			m.t.Errorf("conversation %s: the model saw something of %s:\n%s", p.Nonce, found, strings.Join(s.last, "\n"))
		}
	}
	step := s.check(m.t, p, r.Chat.Messages[at+1:])
	if step > 0 && m.failures[p.Nonce] > 0 {
		m.failures[p.Nonce]--
		return llm.Raw(http.StatusInternalServerError, nil, `{"error":{"message":"overloaded","type":"server_error"}}`)
	}
	gate := m.gates[fmt.Sprintf("%s %d", p.Nonce, step)]
	return func(w http.ResponseWriter, r *llm.Request) {
		if gate != nil {
			<-gate
		}
		p.say(step)(w, r)
	}
}

func lastPlan(messages []llm.Message) (at int, p plan) {
	for at = len(messages) - 1; at >= 0; at-- {
		if messages[at].Role == "user" && json.Unmarshal([]byte(messages[at].Text()), &p) == nil {
			return at, p
		}
	}
	return at, p
}

// lines is a request's history as text.
func lines(messages []llm.Message) []string {
	var out []string
	for _, m := range messages {
		line := m.Role + m.ToolCallID + ":" + m.Text()
		for _, c := range m.ToolCalls {
			line += "(" + c.ID + " " + c.Function.Name + " " + c.Function.Arguments + ")"
		}
		out = append(out, line)
	}
	return out
}

// say gives the model's answer at a step.
func (p plan) say(step int) llm.Step {
	all := steps[p.Kind]
	if step >= len(all) {
		return llm.Text("done " + p.Nonce)
	}
	a := llm.Answer{Prompt: 10, Output: 5}
	if step == 0 {
		a.Text = "Let me see."
	}
	for i, name := range all[step] {
		in := errand{Nonce: p.Nonce}
		switch name {
		case "shop__order":
			in.MS = p.Order
		case "shop__look":
			in.MS = p.Look
		}
		arguments, err := json.Marshal(in)
		if err != nil {
			panic(err) // a string and an int
		}
		a.Calls = append(a.Calls, llm.Call(fmt.Sprintf("c%d", i+1), name, string(arguments)))
	}
	return a.Step()
}

// check looks at what follows the user's message, and gives the number of steps in it.
func (s *seen) check(t *testing.T, p plan, messages []llm.Message) (step int) {
	fail := func(what string) {
		t.Errorf("conversation %s, step %d: %s:\n%s", p.Nonce, step+1, what, strings.Join(s.last, "\n"))
	}
	for ; len(messages) > 0 && messages[0].Role == "assistant" && step < len(steps[p.Kind]); step++ {
		var names, ids, told []string
		for _, c := range messages[0].ToolCalls {
			names, ids = append(names, c.Function.Name), append(ids, c.ID)
		}
		messages = messages[1:]
		for len(messages) > 0 && messages[0].Role == "tool" {
			told = append(told, messages[0].ToolCallID)
			s.hear(fail, step, messages[0])
			messages = messages[1:]
		}
		switch {
		case slices.Equal(names, []string{"book_table"}) && !slices.Equal(steps[p.Kind][step], names):
			s.degraded = true // and it may stand for several steps
		case !slices.Equal(names, steps[p.Kind][step]):
			fail(fmt.Sprintf("the model sees calls %q of its own", names))
		}
		if !slices.Equal(ids, told) {
			fail(fmt.Sprintf("calls %q have results %q", ids, told))
		}
	}
	return step
}

// hear notes what the model is told of a call: it must never hear two different things. A stamp is of a round of its
// own, which a turn that is sent again may have again.
func (s *seen) hear(fail func(string), step int, m llm.Message) {
	key := fmt.Sprintf("%d %s", step, m.ToolCallID)
	if before, ok := s.results[key]; ok && before != m.Text() && !strings.HasPrefix(before, "did stamp ") {
		fail(fmt.Sprintf("of %s the model heard %q before and %q now", m.ToolCallID, before, m.Text()))
	}
	s.results[key] = m.Text()
}

// of gives what the model has seen of a conversation.
func (m *model) of(c *conversation) seen {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.seen[c.id]; s != nil {
		return *s
	}
	return seen{}
}

// fail has the model answer with 500 where it gets results of tools, n times.
func (m *model) fail(nonce string, n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.failures[nonce] = n
}

// hold keeps the answer at a step back until the function it gives is called.
func (m *model) hold(nonce string, step int) (release func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	gate := make(chan struct{})
	m.gates[fmt.Sprintf("%s %d", nonce, step)] = gate
	return sync.OnceFunc(func() { close(gate) })
}
