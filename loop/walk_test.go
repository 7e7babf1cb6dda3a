package loop

import (
	"context"
	"fmt"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-via-llm/mcp-via-llm/sessions"
	"pgregory.net/rapid"
)

// talker is one client of the model: whose conversations they are.
type talker struct {
	authorization, session, user string
	conversations                [][]said
}

func (c *talker) scope() string { return c.authorization + "|" + c.session + "|" + c.user }

// walk is one run of the property: clients at random on two handlers.
type walk struct {
	*rapid.T
	plain
	llm      *llmScript
	handlers []http.Handler
	tools    *fakeTools
	talkers  []*talker
	results  int // hidden calls that have begun, for results that are all different
	mu       sync.Mutex
	told     map[string]string // result by arguments: all calls have different ones
	serial   int
	story    []string // what was sent, and what came back
}

// TestConversationsAgainstAPlainModel has clients begin, continue, branch, edit,
// regenerate, try again, resume in every way, respell and cut off what they send.
func TestConversationsAgainstAPlainModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var failed any
		synctest.Test(t, func(t *testing.T) {
			store := sessions.NewMemory(100_000, 256<<20)
			defer store.Close() //nolint:errcheck // in memory
			w := &walk{T: rt, plain: plain{map[string]known{}, map[string]map[string]origin{}, map[string][][]round{}}, llm: &llmScript{}, told: map[string]string{}}
			for range 2 {
				memory := NewMemory(store, nil, nil)
				defer memory.Close(context.Background())
				w.handlers = append(w.handlers, w.handler(memory))
			}
			// rapid stops a walk by a panic, which must not pass the bubble's edge.
			defer func() {
				if failed = recover(); failed != nil && !strings.HasPrefix(fmt.Sprintf("%T", failed), "rapid.") {
					failed = wrong(fmt.Sprintf("%v\n%s", failed, debug.Stack()))
				}
			}()
			w.run()
		})
		switch failed := failed.(type) {
		case nil:
		case wrong:
			rt.Fatal(string(failed))
		default:
			panic(failed) // from another line, or rapid would take both for the same failure
		}
	})
}

func (w *walk) handler(memory *Memory) http.Handler {
	w.tools = &fakeTools{names: mcpNames, run: func(ctx context.Context, name, arguments string) Result {
		w.mu.Lock()
		w.results++
		text := fmt.Sprintf("result %d of %s", w.results, name)
		if _, again := w.told[arguments]; again {
			text = "ran twice"
		}
		w.told[arguments] = text
		pause := time.Duration(w.results%7) * time.Second
		w.mu.Unlock()
		time.Sleep(pause)
		return Result{Text: text, Outcome: "ok"}
	}}
	client := newRig().client
	client.SessionTTL, client.HistoryMaxBytes, client.MaxIterations = 10_000*time.Hour, 0, 1000
	return New(Options{
		Client:    func(*http.Request) (*Client, error) { return client, nil },
		Tools:     func(context.Context, *Client, []string, *http.Request, string, []string) Tools { return w.tools },
		Transport: w.llm, Memory: memory,
		Identity: func(r *http.Request) string { return r.Header.Get("Authorization") },
	})
}

// wrong is a failure of a walk.
type wrong string

func (w *walk) wrong(format string, values ...any) {
	panic(wrong(fmt.Sprintf(format, values...) + "\nThe story:\n" + strings.Join(w.story, "\n")))
}

func (w *walk) pick(what string, n int) int { return rapid.IntRange(0, n-1).Draw(w.T, what) }

func (w *walk) chance(what string, of int) bool { return w.pick(what, of) == 0 }

func (w *walk) run() {
	for _, name := range []string{"alice", "bob"} {
		w.talkers = append(w.talkers, &talker{authorization: name})
	}
	w.talkers = append(w.talkers, &talker{authorization: "alice", session: "two"}, &talker{authorization: "alice", user: "u1"})
	for range rapid.IntRange(1, 25).Draw(w.T, "steps") {
		c := w.talkers[w.pick("client", len(w.talkers))]
		if len(c.conversations) == 0 || w.chance("begin", 6) {
			w.turn(c, []said{w.asks()}, nil)
			continue
		}
		sent, dropped := w.next(c.conversations[w.pick("conversation", len(c.conversations))])
		w.turn(c, sent, dropped)
	}
}

// asks is a user's message. There are few, so that conversations have the same words.
func (w *walk) asks() said {
	return said{role: "user", text: rapid.SampledFrom([]string{"Weather?", "And now?", "Thanks  a lot."}).Draw(w.T, "text")}
}

// next makes the next request out of a conversation, and what the client leaves out
// of its beginning.
func (w *walk) next(before []said) (sent, dropped []said) {
	sent = slices.Clone(before)
	for i := range sent {
		if len(sent[i].calls) > 0 && w.chance("drop the text", 4) {
			sent[i].text = ""
		}
	}
	if w.chance("edit", 5) {
		at := w.pick("at", len(sent))
		if sent[at].role == "user" || sent[at].role == "tool" || sent[at].role == "assistant" && w.chance("reply", 2) {
			sent[at].text += " Edited."
		}
		if w.chance("resend", 2) {
			sent = sent[:at+1]
		}
	}
	if w.chance("branch", 4) {
		sent = sent[:1+w.pick("at", len(sent))]
	}
	if last := sent[len(sent)-1]; last.role == "assistant" {
		sent = w.reply(sent, last)
	}
	if users := w.usersIn(sent); len(users) > 1 && w.chance("cut off", 5) {
		at := users[1+w.pick("from", len(users)-1)]
		sent, dropped = sent[at:], slices.Clone(sent[:at])
		copy(dropped, before) // nobody sees an edit of what is not sent
	}
	if w.chance("instruct", 3) {
		sent = append([]said{{role: "system", text: fmt.Sprintf("It is %d o'clock.", w.pick("hour", 24))}}, sent...)
	}
	return sent, dropped
}

func (w *walk) usersIn(messages []said) (at []int) {
	for i, m := range messages {
		if m.role == "user" {
			at = append(at, i)
		}
	}
	return at
}

// reply goes on after the assistant: with results, some of them, or other words.
func (w *walk) reply(sent []said, last said) []said {
	results := 0
	for _, c := range last.calls {
		if !w.chance("no result", 6) {
			results++
			sent = append(sent, said{role: "tool", answers: c.id, text: fmt.Sprintf("booked %d", w.pick("booking", 3))})
		}
	}
	if results == 0 || w.chance("more words", 6) {
		sent = append(sent, w.asks())
	}
	if w.chance("late", 3) {
		time.Sleep(time.Duration(w.pick("minutes", 90)) * time.Minute)
	}
	return sent
}

// turn sends a request, again if the provider fails, and checks all that the LLM
// was asked and all that the client got.
func (w *walk) turn(c *talker, sent, dropped []said) {
	stream := w.chance("stream", 2)
	want := w.expect(c.scope(), sent, dropped)
	at := func(messages []said) string { return fmt.Sprintf("%v %s", stream, path(c.scope(), messages)) }
	request := at(sent)
	for {
		claimable := w.journals[request]
		if len(dropped) > 0 {
			claimable = append(append([][]round{nil}, claimable...), w.journals[at(append(slices.Clone(dropped), sent...))]...)
		}
		script, ok := w.attempt(c, stream, sent, want, claimable, len(dropped) == 0 && w.chance("fails", 4))
		if i := script.claimed; i >= 0 {
			w.forget(claimable[i])
		}
		if ok {
			w.learn(c, sent, dropped, script)
			if w.chance("the same again", 8) {
				w.turn(c, sent, dropped)
			}
			return
		}
		if len(script.rounds) > 0 {
			w.journals[request] = append(w.journals[request], script.rounds)
		}
		if w.chance("give up", 3) {
			return
		}
	}
}

// forget removes a broken attempt that was gone on from.
func (w *walk) forget(rounds []round) {
	for at, all := range w.journals {
		w.journals[at] = slices.DeleteFunc(all, func(r []round) bool { return len(r) > 0 && len(rounds) > 0 && &r[0] == &rounds[0] })
	}
}

// script is what the LLM said in a turn: hidden rounds, those of a broken attempt
// first, and a last message.
type script struct {
	claimed int // which broken attempt was gone on from, -1 if none
	rounds  []round
	last    said
	got     said // the client's view of the answer
}

// attempt sends a request once. It says whether there was an answer.
func (w *walk) attempt(c *talker, stream bool, sent []said, want [][]string, journals [][]round, fails bool) (s script, ok bool) {
	var fresh []round
	for range w.pick("rounds", 3) {
		fresh = append(fresh, round{message: w.says(1+w.pick("calls", 2), 0)})
	}
	if w.chance("last calls", 2) {
		s.last = w.says(w.pick("hidden", 3), 1+w.pick("own", 2))
	} else {
		s.last = said{role: "assistant", text: fmt.Sprintf("Answer %d.", w.pick("answer", 4))}
	}
	answer := func(m said) answerFunc {
		if stream {
			return streamed(asStream(m.completion()))
		}
		return whole(m.completion())
	}
	w.llm.answers, w.llm.asked = nil, nil
	for _, r := range fresh {
		w.llm.answers = append(w.llm.answers, answer(r.message))
	}
	if fails {
		w.llm.answers = append(w.llm.answers, respond(500, "application/json", `{"error":{"message":"overloaded"}}`))
	} else {
		w.llm.answers = append(w.llm.answers, answer(s.last))
	}
	w.story = append(w.story, path(c.scope(), sent))
	response := w.send(c, stream, sent)
	w.story = append(w.story, "  "+response)
	synctest.Wait()
	for i := range fresh {
		for _, call := range fresh[i].message.calls {
			fresh[i].results = append(fresh[i].results, "tool"+call.id+":"+w.result(call.arguments))
		}
	}
	s.claimed = w.checkAsked(want, journals, fresh)
	if s.claimed >= 0 {
		s.rounds = slices.Clone(journals[s.claimed])
	}
	s.rounds = append(s.rounds, fresh...)
	if fails {
		if !strings.Contains(response, "overloaded") {
			w.wrong("the provider failed, and the client got %s", response)
		}
		return s, false
	}
	s.got = w.checkAnswer(stream, response, s)
	return s, true
}

func (w *walk) result(arguments string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.told[arguments]
}

// says is a message of the LLM with calls: hidden ones and the client's, mixed.
// Its ids are numbered from the start, as some providers do.
func (w *walk) says(hidden, own int) said {
	m := said{role: "assistant"}
	if w.chance("words", 2) {
		m.text = fmt.Sprintf("Words %d.", w.pick("word", 3))
	}
	for hidden+own > 0 {
		w.serial++
		call := saidCall{id: fmt.Sprintf("c%d", len(m.calls)+1), arguments: fmt.Sprintf(`{"n":%d}`, w.serial)}
		if own == 0 || hidden > 0 && w.chance("hidden first", 2) {
			call.name = mcpNames[w.pick("tool", len(mcpNames))]
			hidden--
		} else {
			call.name = "book_table"
			own--
		}
		m.calls = append(m.calls, call)
	}
	return m
}
