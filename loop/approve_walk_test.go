package loop

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-via-llm/mcp-via-llm/sessions"
	"github.com/tidwall/gjson"
	"pgregory.net/rapid"
)

// askWalk is one run of the property: applications whose users are asked, on two
// handlers, in every order and more than once.
type askWalk struct {
	*rapid.T
	llm      *llmScript
	handlers []http.Handler
	ways     []*brittle
	all      []*asked
	serial   int
	story    []string

	mu     sync.Mutex
	ran    map[string]int  // runs of a call, by its arguments
	agreed map[string]bool // calls to which a yes was sent while the question was open
}

// asked is a conversation, and the question that it has come to.
type asked struct {
	app
	put   time.Time // when the question was put; zero if there is none yet
	calls []string  // arguments of the calls that ask, in order
}

// TestApprovedCallsRunOnce has users asked about calls, alone and beside others, and
// by servers in the midst of calls, and answer in every way, twice, at once, late, on
// whatever replica, while requests fail and replicas lose the store. No call runs
// twice, or without a yes to a question that was open; what the model sees is always
// a proper conversation.
func TestApprovedCallsRunOnce(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var failed any
		synctest.Test(t, func(t *testing.T) {
			store := sessions.NewMemory(100_000, 256<<20)
			defer store.Close() //nolint:errcheck // in memory
			w := &askWalk{T: rt, llm: &llmScript{}, ran: map[string]int{}, agreed: map[string]bool{}}
			for range 2 {
				way := &brittle{Store: store}
				memory := NewMemory(way, nil, nil)
				defer memory.Close(context.Background())
				w.ways, w.handlers = append(w.ways, way), append(w.handlers, w.handler(memory))
			}
			defer func() {
				if failed = recover(); failed != nil && !strings.HasPrefix(fmt.Sprintf("%T", failed), "rapid.") {
					failed = wrong(fmt.Sprintf("%v\n%s", failed, debug.Stack()))
				}
			}()
			for range rapid.IntRange(1, 20).Draw(rt, "steps") {
				w.step()
				w.check()
			}
		})
		switch failed := failed.(type) {
		case nil:
		case wrong:
			rt.Fatal(string(failed))
		default:
			panic(failed)
		}
	})
}

func (w *askWalk) handler(memory *Memory) http.Handler {
	tools := &fakeTools{names: mcpNames, approve: []string{"mcp_mail__send", "mcp_fs__write"}, run: func(ctx context.Context, name, arguments string) Result {
		w.mu.Lock()
		w.ran[arguments]++
		w.mu.Unlock()
		told := ""
		if name != "mcp_mail__send" { // these two have a question for the user
			reply, err := AskerFrom(ctx).Elicit(ctx, "srv", json.RawMessage(`{"message":"Sure?"}`))
			told = fmt.Sprintf(" %s %v", reply, err)
		}
		select {
		case <-time.After(3 * time.Second):
			return Result{Text: "result of " + arguments + told, Outcome: "ok"}
		case <-ctx.Done():
			return Result{Text: "Error", Outcome: "cancelled"}
		}
	}}
	client := newRig().client
	client.HistoryMaxBytes, client.Elicit, client.SessionTTL = 0, true, 24*time.Hour // whoever is asked has time to answer
	return New(Options{
		Client:    func(*http.Request) (*Client, error) { return client, nil },
		Tools:     func(context.Context, *Client, []string, *http.Request, string, []string) Tools { return tools },
		Transport: w.llm, Memory: memory,
		Identity: func(*http.Request) string { return "alice" },
	})
}

func (w *askWalk) pick(what string, n int) int { return rapid.IntRange(0, n-1).Draw(w.T, what) }

// send sends a conversation once, or twice at once, perhaps while the store is lost,
// to a model that answers or fails.
func (w *askWalk) send(c *asked, completion string) (got seen) {
	script := []answerFunc{}
	for _, one := range []string{completion, says("Done."), says("Done.")} {
		if script = append(script, whole(one)); c.stream {
			script[len(script)-1] = streamed(asStream(one))
		}
	}
	if at := w.pick("fails", 12); at < 2 {
		script = slices.Insert(script, at, respond(500, "application/json", `{"error":{"message":"overloaded"}}`))
	}
	w.llm.mu.Lock()
	w.llm.answers = script
	w.llm.mu.Unlock()
	first := w.pick("replica", 2)
	var others sync.WaitGroup
	if !strings.Contains(completion, "tool_calls") && w.pick("twice", 4) == 0 {
		others.Go(func() { c.again(&rig{serve: w.handlers[1-first]}) })
	}
	if w.pick("lost", 8) == 0 {
		others.Go(func() {
			time.Sleep(time.Second)
			w.ways[first].away.Store(true)
			time.Sleep(40 * time.Second)
			w.ways[first].away.Store(false)
		})
	}
	got = c.again(&rig{serve: w.handlers[first]})
	others.Wait()
	w.story = append(w.story, fmt.Sprint(c.messages), "  "+got.body)
	return got
}

func (w *askWalk) step() {
	if len(w.all) == 0 || w.pick("begin", 3) == 0 {
		w.all = append(w.all, &asked{app: app{stream: w.pick("stream", 2) == 0, messages: []string{user(fmt.Sprint("Do ", w.pick("what", 2)))}}})
	}
	c := w.all[w.pick("conversation", len(w.all))]
	if w.pick("branch", 6) == 0 {
		c = &asked{app: *c.branch(len(c.messages)), put: c.put, calls: slices.Clone(c.calls)}
		w.all = append(w.all, c)
	}
	last := c.messages[len(c.messages)-1]
	switch {
	case strings.Contains(last, "(question "):
		time.Sleep(time.Duration(w.pick("minutes", 14)) * time.Minute)
		words := rapid.SampledFrom([]string{"yes", "Yes, please!", "approve 1", "no", "why?"}).Draw(w.T, "words")
		w.note(c, words)
		c.messages = append(c.messages, user(words))
	case strings.Contains(last, `"tool_calls"`):
		for _, call := range gjson.Get(last, "tool_calls").Array() {
			reply := rapid.SampledFrom([]string{"booked", `{"action":"accept"}`, `{"action":"decline"}`}).Draw(w.T, "reply")
			if w.pick("no reply", 6) > 0 {
				c.messages = append(c.messages, replyTo(call.Get("id").String(), reply))
			}
		}
		if c.messages[len(c.messages)-1] == last {
			c.messages = append(c.messages, thanks)
		}
	case strings.Contains(last, `"role":"assistant"`):
		c.messages = append(c.messages, thanks)
	}
	completion := says("Done.")
	if w.pick("calls", 2) == 0 {
		completion = w.calls()
	}
	if got := w.send(c, completion); got.status == http.StatusOK {
		c.messages = append(c.messages, got.message())
		c.put = time.Time{}
		if got.stop == StopApproval {
			c.put, c.calls = time.Now(), nil
			for _, n := range shownNumber.FindAllStringSubmatch(got.text, -1) {
				c.calls = append(c.calls, `{"n":`+n[1]+"}")
			}
		}
	}
}

// calls is a completion that calls tools: some that ask, some that do not, and
// perhaps the client's.
func (w *askWalk) calls() string {
	var pairs []string
	for range 1 + w.pick("tools", 3) {
		w.serial++
		pairs = append(pairs, rapid.SampledFrom([]string{"mcp_mail__send", "mcp_fs__write", "mcp_fs__read"}).Draw(w.T, "tool"), fmt.Sprintf(`{"n":%d}`, w.serial))
	}
	completion := calls(pairs...)
	if w.pick("mixed", 3) == 0 { // the client's call has the id that the client's result is for
		completion = strings.Replace(completion, `"tool_calls":[`, `"tool_calls":[{"id":"c2","type":"function","function":{"name":"book_table","arguments":"{\"n\":2}"}},`, 1)
		completion = strings.ReplaceAll(completion, `{"id":"c2","type":"function","function":{"name":"mcp`, `{"id":"c9","type":"function","function":{"name":"mcp`)
	}
	return completion
}

// note notes to what the user agrees.
func (w *askWalk) note(c *asked, words string) {
	if c.put.IsZero() || time.Since(c.put) > 10*time.Minute {
		return
	}
	for i, arguments := range c.calls {
		if strings.HasPrefix(strings.ToLower(words), "yes") || words == "approve 1" && i == 0 {
			w.agreed[arguments] = true
		}
	}
}

func (w *askWalk) wrong(format string, values ...any) {
	panic(wrong(fmt.Sprintf(format, values...) + "\nThe story:\n" + strings.Join(w.story, "\n")))
}

// check checks what ran, and what the model has seen.
func (w *askWalk) check() {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	for arguments, n := range w.ran {
		if n > 1 {
			w.wrong("the call with %s ran %d times", arguments, n)
		}
	}
	w.llm.mu.Lock()
	defer w.llm.mu.Unlock()
	for _, lines := range w.llm.asked {
		w.checkHistory(lines)
	}
	w.llm.asked = nil
}

var shownNumber = regexp.MustCompile(`"n": (\d+)`)

var callIDs = regexp.MustCompile(`\((c\d+) (\S+) (\{[^)]*\})\)`)

func (w *askWalk) checkHistory(lines []string) {
	for i, line := range lines {
		if strings.Contains(line, "(question ") || strings.Contains(line, ElicitFunction) {
			w.wrong("the model saw a question:\n%s", strings.Join(lines, "\n"))
		}
		for n, call := range callIDs.FindAllStringSubmatch(line, -1) {
			at := i + 1 + n
			if at >= len(lines) || !strings.HasPrefix(lines[at], "tool"+call[1]+":") {
				w.wrong("the call %s has no result in its place:\n%s", call[1], strings.Join(lines, "\n"))
			}
			asks := call[2] == "mcp_mail__send" || call[2] == "mcp_fs__write"
			if asks && strings.Contains(lines[at], "result of") && !w.agreed[call[3]] {
				w.wrong("the call with %s ran, and nobody agreed:\n%s", call[3], strings.Join(lines, "\n"))
			}
		}
	}
}
