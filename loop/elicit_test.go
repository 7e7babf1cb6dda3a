package loop

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidwall/gjson"
)

const wantsSeat = `{"message":"Window or aisle?","requestedSchema":{"type":"object","properties":{"seat":{"type":"string","enum":["window","aisle"]}},"required":["seat"]}}`

// curious are replicas for an application that takes questions. The tools in ask
// have one for the user before they answer.
func curious(t *testing.T, n int, ask map[string][]string) ([]*rig, []*brittle) {
	rigs, ways, _ := replicas(t, n)
	for _, g := range rigs {
		g.client.Elicit = true
		g.tools.run = func(ctx context.Context, name, _ string) Result {
			text := "result of " + name
			for _, params := range ask[name] {
				got, err := AskerFrom(ctx).Elicit(ctx, "srv", json.RawMessage(params))
				if err != nil {
					got = []byte(err.Error())
				}
				text += " " + string(got)
			}
			if ctx.Err() != nil {
				return Result{Text: "Error: cancelled", Outcome: "cancelled"}
			}
			return Result{Text: text, Outcome: "ok"}
		}
	}
	return rigs, ways
}

// elicited gives the questions of servers in an answer.
func elicited(t *testing.T, s seen) (messages []string, ids []string) {
	t.Helper()
	for _, c := range s.calls {
		if c.Get("function.name").String() != ElicitFunction {
			t.Errorf("not a question: %s", c.Raw)
		}
		messages = append(messages, gjson.Get(c.Get("function.arguments").String(), "message").String())
		ids = append(ids, c.Get("id").String())
	}
	slices.Sort(messages)
	if s.finish != "tool_calls" || s.stop != StopClientCalls {
		t.Errorf("%s", s.body)
	}
	return messages, ids
}

func replyTo(id, content string) string {
	return fmt.Sprintf(`{"role":"tool","tool_call_id":%q,"content":%q}`, id, content)
}

// A call asks the user, through the application and on another replica, and what
// the model sees is a call that took its time.
func TestElicitation(t *testing.T) {
	each(t, func(t *testing.T, a *app) {
		rigs, _ := curious(t, 2, map[string][]string{"mcp_mail__send": {wantsSeat}})
		a.answers(rigs[0], strings.Replace(calls("mcp_mail__send", "{}", "mcp_clock__now", "{}"), `"content":null`, `"content":"Booking."`, 1))
		s := a.send(rigs[0], asks)
		messages, ids := elicited(t, s)
		if !slices.Equal(messages, []string{"Window or aisle?"}) || s.text != "Booking." || s.called != `["mcp_mail__send","mcp_clock__now"]` {
			t.Errorf("the client got %s", s.body)
		}
		want := `{"server":"srv","message":"Window or aisle?","mode":"form","requested_schema":` + gjson.Get(wantsSeat, "requestedSchema").Raw + `}`
		if got := s.calls[0].Get("function.arguments").String(); got != want {
			t.Errorf("asked %s", got)
		}
		time.Sleep(5 * time.Minute)
		a.answers(rigs[1], says("Booked."))
		if s = a.send(rigs[1], replyTo(ids[0], ` {"action":"accept","content":{"seat":"aisle"}}`)); s.text != "Booked." || s.called != "[]" || s.status != 200 {
			t.Errorf("the client got %s", s.body)
		}
		const history = `user:Weather?|assistant:Booking.(c1 mcp_mail__send)(c2 mcp_clock__now)|toolc1:result of mcp_mail__send {"action":"accept","content":{"seat":"aisle"}}|toolc2:result of mcp_clock__now`
		if got := rigs[1].history(); got != history {
			t.Errorf("the model saw %s", got)
		}
		a.answers(rigs[0], says("Booked."), says("Bye."))
		if s := a.branch(3).again(rigs[0]); s.text != "Booked." || rigs[0].history() != history {
			t.Errorf("again: %s; the model saw %s", s.body, rigs[0].history())
		}
		a.send(rigs[0], thanks)
		if got := rigs[0].history(); got != history+"|assistant:Booked.|user:Thanks." {
			t.Errorf("in the next turn the model saw %s", got)
		}
		if got := madeBy(rigs...); len(got) != 2 {
			t.Errorf("ran %v", got)
		}
	})
}

// What an application can answer, and what the server gets for it.
func TestAnswersToElicitations(t *testing.T) {
	const cancel = `{"action":"cancel"}`
	link := `{"mode":"url","message":"Sign in.","url":"https://example.com/x","elicitationId":"1"}`
	for _, tt := range []struct{ name, params, answer, want string }{
		{"accept", wantsSeat, `{"action":"accept","content":{"seat":"window"}}`, `{"action":"accept","content":{"seat":"window"}}`},
		{"decline", wantsSeat, `{"action":"decline"}`, `{"action":"decline"}`},
		{"cancel", wantsSeat, `{"action":"cancel","content":{"seat":"window"}}`, cancel},
		{"does not fit the schema", wantsSeat, `{"action":"accept","content":{"seat":"roof"}}`, cancel},
		{"lacks what is required", wantsSeat, `{"action":"accept"}`, cancel},
		{"nothing is required", `{"message":"Go on?","requestedSchema":{"type":"object","properties":{}}}`, `{"action":"accept"}`, `{"action":"accept","content":{}}`},
		{"defaults", `{"message":"Go on?","requestedSchema":{"type":"object","required":["a"],"properties":{"a":{"type":"integer","default":9007199254740993},"b":{"type":"string","default":"x"},"c":{"type":"boolean"}}}}`,
			`{"action":"accept","content":{ "b":"y" }}`, `{"action":"accept","content":{ "b":"y" ,"a":9007199254740993}}`},
		{"a format", `{"message":"Mail?","requestedSchema":{"type":"object","properties":{"m":{"type":"string","format":"email"}}}}`, `{"action":"accept","content":{"m":"no"}}`, cancel},
		{"a schema that is none", `{"message":"x","requestedSchema":{"type":7}}`, `{"action":"accept","content":{"a":1}}`, `{"action":"accept","content":{"a":1}}`},
		{"content that is no object", wantsSeat, `{"action":"accept","content":"window"}`, cancel},
		{"no idea", wantsSeat, "Error: unknown function mcp_elicit", cancel},
		{"another object", wantsSeat, `{"seat":"window"}`, cancel},
		{"a link", link, `{"action":"accept","content":{"a":1}}`, `{"action":"accept"}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rigs, _ := curious(t, 1, map[string][]string{"mcp_mail__send": {tt.params}})
			g, a := rigs[0], &app{}
			a.answers(g, calls("mcp_mail__send", "{}"), says("Done."))
			_, ids := elicited(t, a.send(g, asks))
			a.send(g, replyTo(ids[0], tt.answer))
			if got := g.history(); got != "user:Weather?|assistant:(c1 mcp_mail__send)|toolc1:result of mcp_mail__send "+tt.want {
				t.Errorf("the model saw %s", got)
			}
		})
	}
}

// An application that goes on without an answer cancels; one that never comes back
// declines, in time.
func TestElicitationWithoutAnAnswer(t *testing.T) {
	each(t, func(t *testing.T, a *app) {
		rigs, _ := curious(t, 1, map[string][]string{"mcp_mail__send": {wantsSeat}})
		g := rigs[0]
		a.answers(g, calls("mcp_mail__send", "{}"), says("Done."))
		elicited(t, a.send(g, asks))
		b := a.branch(2)
		b.send(g, user("Never mind."))
		if got := g.history(); got != `user:Weather?|assistant:(c1 mcp_mail__send)|toolc1:result of mcp_mail__send {"action":"cancel"}|user:Never mind.` {
			t.Errorf("the model saw %s", got)
		}
		c := a.branch(0)
		c.answers(g, calls("mcp_mail__send", "{}"), says("Done."))
		_, ids := elicited(t, c.send(g, asks))
		time.Sleep(11 * time.Minute)
		c.send(g, replyTo(ids[0], `{"action":"accept","content":{"seat":"aisle"}}`))
		if got := g.history(); got != `user:Weather?|assistant:(c1 mcp_mail__send)|toolc1:result of mcp_mail__send {"action":"decline"}` {
			t.Errorf("too late: the model saw %s", got)
		}
	})
}

// Questions one after another, at once, and in calls that run beside the client's.
func TestManyElicitations(t *testing.T) {
	ask := func(texts ...string) (all []string) {
		for _, text := range texts {
			all = append(all, fmt.Sprintf(`{"message":%q,"requestedSchema":{"type":"object","properties":{}}}`, text))
		}
		return all
	}
	accept := `{"action":"accept","content":{}}`
	answerAll := func(t *testing.T, a *app, g *rig, s seen, rounds int) seen {
		for range rounds {
			_, ids := elicited(t, s)
			var replies []string
			for _, id := range ids {
				replies = append(replies, replyTo(id, accept))
			}
			s = a.send(g, replies...)
		}
		return s
	}
	each(t, func(t *testing.T, a *app) {
		rigs, _ := curious(t, 2, map[string][]string{"mcp_mail__send": ask("one", "two", "three"), "mcp_clock__now": ask("four")})
		slow := rigs[0].tools.run
		for _, g := range rigs {
			g.tools.run = func(ctx context.Context, name, arguments string) Result {
				time.Sleep(time.Second)
				return slow(ctx, name, arguments)
			}
		}
		a.answers(rigs[0], mixedCalls())
		if s := a.send(rigs[0], asks); len(s.calls) != 1 || s.calls[0].Get("id").String() != "c2" {
			t.Errorf("%s", s.body)
		}
		s := a.send(rigs[1], booked)
		if messages, _ := elicited(t, s); len(messages) == 0 || s.iterations != 0 {
			t.Errorf("asked %v", messages)
		}
		a.answers(rigs[1], says("Done."))
		for n := 0; s.stop == StopClientCalls && n < 5; n++ {
			s = answerAll(t, a, rigs[1], s, 1)
		}
		want := fmt.Sprintf(inOrder, fromMail+strings.Repeat(" "+accept, 3), fromNow+" "+accept)
		if got := rigs[1].history(); got != want || s.text != "Done." {
			t.Errorf("the model saw %s, the client %s", got, s.body)
		}
		a.answers(rigs[0], says("Bye."))
		a.send(rigs[0], thanks)
		if got := rigs[0].history(); got != want+"|assistant:Done.|user:Thanks." {
			t.Errorf("in the next turn the model saw %s", got)
		}
	})
	t.Run("an approved call", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			rigs, _ := curious(t, 2, map[string][]string{"mcp_mail__send": ask("one"), "mcp_wx__now": ask("two")})
			for _, g := range rigs {
				g.tools.approve = []string{"mcp_mail__send"}
			}
			a := &app{}
			a.answers(rigs[0], calls("mcp_mail__send", "{}", "mcp_wx__now", "{}"))
			a.send(rigs[0], asks)
			s := a.send(rigs[1], user("yes"))
			if messages, _ := elicited(t, s); len(messages) == 0 || s.called != `["mcp_mail__send"]` {
				t.Errorf("asked %s", s.body)
			}
			a.answers(rigs[0], says("Done."))
			for n := 0; s.stop == StopClientCalls && n < 5; n++ {
				s = answerAll(t, a, rigs[0], s, 1)
			}
			if got := rigs[0].history(); got != "user:Weather?|assistant:(c1 mcp_mail__send)(c2 mcp_wx__now)|toolc1:result of mcp_mail__send "+accept+"|toolc2:result of mcp_wx__now "+accept {
				t.Errorf("the model saw %s; the client %s", got, s.body)
			}
		})
	})
}

// The application's connection breaks as the question goes out: the same request
// brings the same question, and the call goes on.
func TestElicitationAfterABreak(t *testing.T) {
	each(t, func(t *testing.T, a *app) {
		rigs, _ := curious(t, 2, map[string][]string{"mcp_mail__send": {wantsSeat}})
		a.answers(rigs[0], calls("mcp_mail__send", "{}"))
		a.messages = []string{asks}
		lost := a.lose(t, rigs[0], ElicitFunction)
		s := a.send(rigs[1])
		_, ids := elicited(t, s)
		if len(ids) != 1 || !strings.Contains(lost, ids[0]) || rigs[1].model.count() != 0 {
			t.Fatalf("again: %s\nafter %s", s.body, lost)
		}
		a.answers(rigs[1], says("Booked."))
		a.send(rigs[1], replyTo(ids[0], `{"action":"accept","content":{"seat":"aisle"}}`))
		if got := rigs[1].history(); !strings.HasSuffix(got, `{"action":"accept","content":{"seat":"aisle"}}`) || len(madeBy(rigs...)) != 1 {
			t.Errorf("the model saw %s; ran %v", got, madeBy(rigs...))
		}
	})
}

// Where nobody can be asked the server hears so at once, and the turn goes on.
func TestNobodyToAsk(t *testing.T) {
	for _, params := range []string{"{", `{"message":"` + strings.Repeat("x", maxQuestion) + `"}`} {
		rigs, _ := curious(t, 1, map[string][]string{"mcp_mail__send": {params}})
		a := &app{}
		a.answers(rigs[0], calls("mcp_mail__send", "{}"), says("Done."))
		if a.send(rigs[0], asks); !strings.HasSuffix(rigs[0].history(), errOddQuestion.Error()) {
			t.Errorf("the model saw %s", rigs[0].history())
		}
	}
	for name, edit := range map[string]func(*rig, *brittle){
		"the application takes no questions": func(g *rig, _ *brittle) { g.client.Elicit = false },
		"the store is away":                  func(_ *rig, way *brittle) { way.away.Store(true) },
		"the question cannot be kept": func(_ *rig, way *brittle) {
			way.onPut = func(key string) bool { return strings.HasPrefix(key, "t:") }
		},
	} {
		t.Run(name, func(t *testing.T) {
			rigs, ways := curious(t, 1, map[string][]string{"mcp_mail__send": {wantsSeat, wantsSeat}})
			g, a := rigs[0], &app{}
			edit(g, ways[0])
			a.answers(g, calls("mcp_mail__send", "{}"), says("Done."))
			if s := a.send(g, asks); s.text != "Done." {
				t.Errorf("%s", s.body)
			}
			if got := g.history(); strings.Count(got, "cannot be asked") != 2 {
				t.Errorf("the model saw %s", got)
			}
		})
	}
}
