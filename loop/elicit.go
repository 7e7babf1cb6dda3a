package loop

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/mcp-via-llm/mcp-via-llm/chat"
	"github.com/mcp-via-llm/mcp-via-llm/schema"
	"github.com/mcp-via-llm/mcp-via-llm/sessions"
	"github.com/tidwall/gjson"
	"google.golang.org/protobuf/proto"
)

// elicitation is what an MCP server asks the user in the midst of a call
// (MCP 2025-11-25, "Elicitation").
type elicitation struct {
	id     string // of the call by which the application is asked
	place  int    // of the call that waits for the answer
	server string
	params string // of the request, raw JSON
	reply  []byte // result of the request, raw JSON; nil as long as there is none
}

// questionPrefix begins the ids of calls that the model never made.
const questionPrefix = "call_mcp_elicit_"

func isQuestion(callID string) bool { return strings.HasPrefix(callID, questionPrefix) }

func newElicitation(place int, server string, params json.RawMessage) elicitation {
	return elicitation{id: questionPrefix + rand.Text(), place: place, server: server, params: string(params)}
}

// What a server is told if the user has no answer for it.
var (
	declined  = []byte(`{"action":"decline"}`)
	cancelled = []byte(`{"action":"cancel"}`)
)

// call is the question as a call of a function of the application's.
func (q elicitation) call() chat.Call {
	params := gjson.Parse(q.params)
	arguments := struct {
		Server  string          `json:"server"`
		Message string          `json:"message"`
		Mode    string          `json:"mode"`
		Schema  json.RawMessage `json:"requested_schema,omitempty"`
		URL     string          `json:"url,omitempty"`
	}{q.server, params.Get("message").String(), "form", json.RawMessage(params.Get("requestedSchema").Raw), params.Get("url").String()}
	if arguments.URL != "" {
		arguments.Mode = "url"
	}
	raw, err := json.Marshal(arguments)
	if err != nil {
		panic(err) // strings, and JSON that has been parsed
	}
	return chat.NewCall(q.id, ElicitFunction, string(raw))
}

// read makes the server's result of what the application answered. What is no
// answer, or does not fit the schema, cancels: the user has made no choice.
func (q elicitation) read(answer string) (reply []byte, ok bool) {
	root := gjson.Parse(answer)
	switch action := root.Get("action").String(); {
	case !gjson.Valid(answer) || !root.IsObject():
	case action == "decline":
		return declined, true
	case action == "cancel":
		return cancelled, true
	case action == "accept":
		params, content := gjson.Parse(q.params), root.Get("content")
		if params.Get("mode").String() == "url" || params.Get("url").Exists() {
			return []byte(`{"action":"accept"}`), true
		}
		if !content.Exists() {
			content = gjson.Parse("{}")
		}
		if !content.IsObject() {
			break
		}
		wanted := params.Get("requestedSchema")
		check := schema.NewChecker(wanted.Raw)
		check.Formats = true
		if full := withDefaults(content, wanted); check.Problems(full) == nil {
			return []byte(`{"action":"accept","content":` + full + "}"), true
		}
	}
	return cancelled, false
}

// withDefaults adds the defaults of what an answer leaves out (MCP 2025-11-25,
// "Elicitation": clients should pre-populate fields with them).
func withDefaults(content, wanted gjson.Result) string {
	given := content.Map()
	full := strings.TrimSuffix(strings.TrimSpace(content.Raw), "}")
	empty := len(given) == 0
	wanted.Get("properties").ForEach(func(name, property gjson.Result) bool {
		if _, ok := given[name.String()]; ok || !property.Get("default").Exists() {
			return true
		}
		if !empty {
			full += ","
		}
		empty = false
		full += name.Raw + ":" + property.Get("default").Raw
		return true
	})
	return full + "}"
}

// open gives the questions of calls that wait for an answer.
func (r *record) open() (all []elicitation) {
	for _, q := range r.questions {
		if _, done := r.results[q.place]; q.reply == nil && !done {
			all = append(all, q)
		}
	}
	return all
}

// settleQuestions makes the application's answers to the questions of servers count.
// A request that goes on without an answer cancels.
func (t *turn) settleQuestions(ctx context.Context, k *recalled) error {
	for _, at := range append([]int{k.at}, k.more...) {
		results := t.conv.results(at)
		for _, id := range t.conv.messages[at].CallIDs {
			i := slices.IndexFunc(k.questions, func(q elicitation) bool { return q.id == id && q.reply == nil })
			if i < 0 || at == len(t.conv.messages)-1 {
				continue
			}
			q := &k.questions[i]
			reply := cancelled
			if n := slices.IndexFunc(results, func(n int) bool { return t.conv.messages[n].CallID == id }); n >= 0 {
				var ok bool
				if reply, ok = q.read(t.conv.messages[results[n]].Words()); !ok {
					t.h.Log.WarnContext(ctx, "what an application answered to a server's question is no answer, or does not fit the question's schema: it counts as cancel",
						"server", q.server, "client", t.client.Name)
				}
			}
			actual, err := k.answerQuestion(ctx, id, reply)
			if err != nil {
				return err
			}
			q.reply = actual
		}
	}
	return nil
}

// answerQuestion makes a reply count, unless there is one.
func (h *held) answerQuestion(ctx context.Context, id string, reply []byte) (actual []byte, err error) {
	return h.s.store.Settle(ctx, h.s.scope, turnKey(h.anchor), replyField(h.attempt, id), reply, h.s.ttl)
}

var errNobodyToAsk = errors.New("the user cannot be asked at the moment")

// put asks the client that comes back for the record.
func (h *held) put(ctx context.Context, q elicitation, open time.Duration) (json.RawMessage, error) {
	raw, err := proto.Marshal(q.proto())
	if err != nil {
		return nil, err
	}
	there, err := h.s.store.Update(ctx, h.s.scope, turnKey(h.anchor), sessions.Fields{questionField(h.attempt, q.id): raw}, h.s.ttl)
	if err != nil || !there {
		return nil, errNobodyToAsk
	}
	return h.awaitReply(ctx, q.id, open)
}

// awaitReply waits for the reply to a question that is in the record. If none comes
// while it is open, it is declined.
func (h *held) awaitReply(ctx context.Context, id string, open time.Duration) (json.RawMessage, error) {
	changed, stop := h.s.store.Watch(h.s.scope, turnKey(h.anchor))
	defer stop()
	poll := time.NewTicker(pollEvery)
	defer poll.Stop()
	closes := time.After(open)
	for {
		found, err := h.s.store.Load(ctx, h.s.scope, 0, turnKey(h.anchor))
		switch {
		case err != nil: // it may come back
		case found[0] == nil:
			return nil, errNobodyToAsk
		case found[0][replyField(h.attempt, id)] != nil:
			return found[0][replyField(h.attempt, id)], nil
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-changed:
		case <-poll.C:
		case <-closes:
			actual, err := h.answerQuestion(ctx, id, declined)
			if err != nil {
				actual = declined
			}
			return actual, nil
		}
	}
}

func (q elicitation) proto() *sessions.Question {
	return &sessions.Question{Id: q.id, Place: uint32(q.place), Server: strings.ToValidUTF8(q.server, "\ufffd"), Params: []byte(q.params)}
}

func readElicitation(q *sessions.Question) elicitation {
	return elicitation{id: q.Id, place: int(q.Place), server: q.Server, params: string(q.Params)}
}

// decodeElicitations reads the questions of a record, in an order of their own.
func decodeElicitations(fields sessions.Fields, attempt string) (all []elicitation, err error) {
	for name, raw := range fields {
		if !strings.HasPrefix(name, questionField(attempt, "")) {
			continue
		}
		q := &sessions.Question{}
		if err := proto.Unmarshal(raw, q); err != nil {
			return nil, err
		}
		one := readElicitation(q)
		one.reply = fields[replyField(attempt, one.id)]
		all = append(all, one)
	}
	slices.SortFunc(all, func(a, b elicitation) int { return strings.Compare(a.id, b.id) })
	return all, nil
}
