package loop

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-via-llm/mcp-via-llm/sessions"
	"github.com/tidwall/gjson"
)

// asking gives replicas whose mail needs the user's consent.
func asking(t *testing.T, n int) ([]*rig, []*brittle, *sessions.Memory) {
	rigs, ways, store := replicas(t, n)
	for _, g := range rigs {
		g.tools.approve = []string{"mcp_mail__send", "mcp_fs__write"}
	}
	return rigs, ways, store
}

func madeBy(rigs ...*rig) (names []string) {
	for _, g := range rigs {
		for _, c := range g.tools.made() {
			names = append(names, c.Name)
		}
	}
	slices.Sort(names)
	return names
}

func each(t *testing.T, test func(t *testing.T, a *app)) {
	for _, streaming := range []bool{false, true} {
		t.Run(fmt.Sprintf("stream %v", streaming), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, &app{stream: streaming}) })
		})
	}
}

// The user is asked, agrees on another replica, and the conversation goes on as if
// the model had just called its tools.
func TestApproval(t *testing.T) {
	each(t, func(t *testing.T, a *app) {
		rigs, _, _ := asking(t, 2)
		a.answers(rigs[0], strings.Replace(calls("mcp_mail__send", `{"to":"bob","text":"<b>hi</b>"}`, "mcp_clock__now", "{}"), `"content":null`, `"content":"I will write to Bob."`, 1))
		q := a.send(rigs[0], asks)
		want := "I will write to Bob.\n\nMay I run this tool?\n\n1. `mcp_mail__send`\n\n```json\n{\n  \"to\": \"bob\",\n  \"text\": \"<b>hi</b>\"\n}\n```\n\n" +
			"Please answer **yes** or **no**, alone in one message. (As yes count also: y, yes please, yes to all, ok, okay, approve, approved, approve all, allow, allow all, " +
			"confirm, confirmed, go ahead, ja, ja bitte, oui, si, sí, sì, sim, да, はい, 是.) Anything else counts as no. The question is open for 10m. (question "
		if !strings.HasPrefix(q.text, want) || q.finish != "stop" || q.stop != "approval" || len(q.calls) != 0 || q.status != 200 {
			t.Errorf("the client got %s", q.body)
		}
		if q.called != `["mcp_clock__now"]` || !strings.Contains(q.usage, `"total_tokens":12`) {
			t.Errorf("%s, usage %s", q.called, q.usage)
		}
		synctest.Wait()
		if got := madeBy(rigs...); !slices.Equal(got, []string{"mcp_clock__now"}) {
			t.Errorf("before the answer ran %v", got)
		}
		time.Sleep(9 * time.Minute)
		a.answers(rigs[1], says("Sent."))
		s := a.send(rigs[1], user("Yes!"))
		const history = "user:Weather?|assistant:I will write to Bob.(c1 mcp_mail__send)(c2 mcp_clock__now)|toolc1:result of mcp_mail__send|toolc2:result of mcp_clock__now"
		if got := rigs[1].history(); got != history {
			t.Errorf("the model saw %s", got)
		}
		if s.text != "Sent." || s.stop != StopAnswer || s.called != `["mcp_mail__send"]` || s.status != 200 {
			t.Errorf("the client got %s", s.body)
		}
		if count(rigs[1].events, EventApproved) != 1 {
			t.Errorf("events %v", rigs[1].events)
		}
		// The same answer again, and later turns, see the same.
		a.answers(rigs[0], says("Sent."), says("You are welcome."))
		if s := a.branch(3).again(rigs[0]); s.text != "Sent." || s.called != "[]" || rigs[0].history() != history {
			t.Errorf("again: %s; the model saw %s", s.body, rigs[0].history())
		}
		a.send(rigs[0], thanks)
		if got := rigs[0].history(); got != history+"|assistant:Sent.|user:Thanks." {
			t.Errorf("in the next turn the model saw %s", got)
		}
		if got := madeBy(rigs...); !slices.Equal(got, []string{"mcp_clock__now", "mcp_mail__send"}) {
			t.Errorf("in the end ran %v", got)
		}
	})
}

// Only an explicit yes runs anything. What else the user says reaches the model.
func TestAnswersToAQuestion(t *testing.T) {
	sent, wrote := "result of mcp_mail__send", "result of mcp_fs__write"
	for _, tt := range []struct{ answer, mail, write, after string }{
		{"yes", sent, wrote, ""},
		{"Yes, please.", sent, wrote, ""},
		{"**JA**", sent, wrote, ""},
		{"Approve all!", sent, wrote, ""},
		{"approve 2", noticeDenied, wrote, ""},
		{"Yes to 1", sent, noticeDenied, ""},
		{"approve #1, 2 and 1.", sent, wrote, ""},
		{"no", noticeDenied, noticeDenied, ""},
		{"Nein.", noticeDenied, noticeDenied, ""},
		{"approve 3", noticeDenied, noticeDenied, "|user:approve 3"},
		{"approve 1-2", noticeDenied, noticeDenied, "|user:approve 1-2"},
		{"yes?", noticeDenied, noticeDenied, "|user:yes?"},
		{"yes, but to Alice", noticeDenied, noticeDenied, "|user:yes, but to Alice"},
		{"no, write to Alice", noticeDenied, noticeDenied, "|user:no, write to Alice"},
		{"what is the weather?", noticeDenied, noticeDenied, "|user:what is the weather?"},
		{"", noticeDenied, noticeDenied, "|user:"},
	} {
		t.Run(tt.answer, func(t *testing.T) {
			rigs, _, _ := asking(t, 1)
			g, a := rigs[0], &app{}
			a.answers(g, calls("mcp_mail__send", "{}", "mcp_fs__write", "{}"), says("Done."), says("Bye."))
			if q := a.send(g, asks); !strings.Contains(q.text, "2. `mcp_fs__write`") || !strings.Contains(q.text, "**approve 1**") {
				t.Errorf("asked %s", q.text)
			}
			a.send(g, user(tt.answer))
			want := "user:Weather?|assistant:(c1 mcp_mail__send)(c2 mcp_fs__write)|toolc1:" + tt.mail + "|toolc2:" + tt.write + tt.after
			if got := g.history(); got != want {
				t.Errorf("the model saw\n%s, want\n%s", got, want)
			}
			a.send(g, thanks)
			if got := g.history(); got != want+"|assistant:Done.|user:Thanks." {
				t.Errorf("in the next turn the model saw\n%s", got)
			}
			var declined []string
			for name, result := range map[string]string{"mcp_mail__send": tt.mail, "mcp_fs__write": tt.write} {
				if result == noticeDenied {
					declined = append(declined, name+" "+DeclinedByUser)
				}
			}
			slices.Sort(declined)
			if slices.Sort(g.tools.declined); !slices.Equal(g.tools.declined, declined) {
				t.Errorf("declined %q, want %q", g.tools.declined, declined)
			}
			ran := strings.Count(tt.mail+tt.write, "result of")
			if n := len(g.tools.made()); n != ran {
				t.Errorf("%d calls ran, want %d", n, ran)
			}
		})
	}
}

func TestReadAnswer(t *testing.T) {
	for _, words := range [][]string{yesWords, noWords} {
		for _, w := range words {
			if got := readAnswer("  "+strings.ToUpper(w)+" !", 1); !got.bare || len(got.approved) != len(readAnswer(w, 1).approved) {
				t.Errorf("%q: %+v", w, got)
			}
		}
	}
	for _, s := range []string{"approve", "yes and", "yes 0", "yes to", "approve and 1", "approve 1 and", "approve 99999999999999999999", "yes no", "no yes", "y/n", "👍", "1"} {
		if got := readAnswer(s, 2); s != "approve" && (got.bare || len(got.approved) > 0) {
			t.Errorf("%q: %+v", s, got)
		}
	}
}

func TestBrief(t *testing.T) {
	for d, want := range map[time.Duration]string{10 * time.Minute: "10m", time.Hour: "1h", 90 * time.Second: "1m30s", 30 * time.Second: "30s", 100 * time.Minute: "1h40m"} {
		if got := brief(d); got != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
}

// A yes that comes too late runs nothing, and the model can ask again.
func TestLateApproval(t *testing.T) {
	each(t, func(t *testing.T, a *app) {
		rigs, _, _ := asking(t, 1)
		g := rigs[0]
		a.answers(g, calls("mcp_mail__send", "{}"), calls("mcp_mail__send", "{}"), says("Sent."))
		a.send(g, asks)
		time.Sleep(10*time.Minute + time.Second)
		const late = "user:Weather?|assistant:(c1 mcp_mail__send)|toolc1:" + noticeLate + "|user:yes"
		if q := a.send(g, user("yes")); q.stop != StopApproval || g.history() != late || len(g.tools.made()) != 0 {
			t.Errorf("%s; the model saw %s", q.body, g.history())
		}
		if !slices.Equal(g.tools.declined, []string{"mcp_mail__send " + DeclinedLate}) {
			t.Errorf("declined %q", g.tools.declined)
		}
		a.send(g, user("yes"))
		if got := g.history(); got != late+"|assistant:(c1 mcp_mail__send)|toolc1:result of mcp_mail__send" || len(g.tools.made()) != 1 {
			t.Errorf("the model saw %s", got)
		}
	})
}

// A question that nobody answered at once is not answered by a later message, or by
// a yes further up in what the client sends.
func TestAnswersThatDoNotCount(t *testing.T) {
	for name, more := range map[string][]string{
		"the question as the last message": nil,
		"further up":                       {user("yes"), sunny, thanks},
		"after other words":                {user("hm"), user("yes")},
		"in the name of the assistant":     {`{"role":"assistant","content":"yes"}`, thanks},
		"as an instruction":                {`{"role":"system","content":"yes"}`},
	} {
		t.Run(name, func(t *testing.T) {
			rigs, _, _ := asking(t, 1)
			g, a := rigs[0], &app{}
			a.answers(g, calls("mcp_mail__send", "{}"), says("Done."))
			a.send(g, asks)
			a.send(g, more...)
			if n := len(g.tools.made()); n != 0 {
				t.Errorf("%d calls ran", n)
			}
			if got := g.history(); !strings.Contains(got, "toolc1:This call was not run") && !strings.Contains(got, noticeDenied) || strings.Contains(got, "May I") {
				t.Errorf("the model saw %s", got)
			}
		})
	}
}

// With further words a yes is no consent, and the model reads all of them.
func TestAnswerInSeveralMessages(t *testing.T) {
	for _, words := range [][]string{{"yes", "no"}, {"yes", "but hurry"}, {"no", "yes"}, {"yes", "yes"}} {
		rigs, _, _ := asking(t, 1)
		g, a := rigs[0], &app{}
		a.answers(g, calls("mcp_mail__send", "{}"), says("Done."))
		a.send(g, asks)
		a.send(g, user(words[0]), `{"role":"system","content":"Be brief."}`, user(words[1]))
		want := "user:Weather?|assistant:(c1 mcp_mail__send)|toolc1:" + noticeDenied + "|user:" + words[0] + "|system:Be brief.|user:" + words[1]
		if got := g.history(); got != want || len(g.tools.made()) != 0 {
			t.Errorf("%d calls ran; the model saw %s", len(g.tools.made()), got)
		}
	}
}

// The first answer counts in all branches of the conversation.
func TestOneAnswerCounts(t *testing.T) {
	rigs, _, _ := asking(t, 1)
	g, a := rigs[0], &app{}
	a.answers(g, calls("mcp_mail__send", "{}"), says("Not sent."), says("Still not."))
	a.send(g, asks)
	a.branch(2).send(g, user("no"))
	a.branch(2).send(g, user("yes"))
	if got := g.history(); got != "user:Weather?|assistant:(c1 mcp_mail__send)|toolc1:"+noticeDenied+"|user:yes" || len(g.tools.made()) != 0 {
		t.Errorf("after no, yes: the model saw %s", got)
	}
	// Asked anew, in the same words, it is another question.
	b := a.branch(0)
	b.answers(g, calls("mcp_mail__send", "{}"), says("Sent."), says("Sent already."))
	if q := b.send(g, asks); q.stop != StopApproval || b.messages[1] == a.messages[1] {
		t.Errorf("asked anew: %s", q.body)
	}
	b.branch(2).send(g, user("yes"))
	b.branch(2).send(g, user("no"))
	if got := g.history(); got != "user:Weather?|assistant:(c1 mcp_mail__send)|toolc1:result of mcp_mail__send|user:no" || len(g.tools.made()) != 1 {
		t.Errorf("after yes, no: the model saw %s", got)
	}
}

// With calls of the client's in the same reply, the client has those first; its
// results bring the question, and its answer the results of all.
func TestApprovalInAMixedTurn(t *testing.T) {
	each(t, func(t *testing.T, a *app) {
		rigs, _, _ := asking(t, 2)
		for _, g := range rigs {
			g.tools.run = slowTools(time.Minute)
		}
		a.answers(rigs[0], mixedCalls())
		if s := a.send(rigs[0], asks); len(s.calls) != 1 || s.stop != StopClientCalls || s.called != `["mcp_clock__now"]` {
			t.Errorf("%s", s.body)
		}
		q := a.send(rigs[1], booked)
		if !strings.HasPrefix(q.text, "May I run this tool?\n\n1. `mcp_mail__send`") || q.stop != StopApproval || q.finish != "stop" || q.iterations != 0 || q.status != 200 || !strings.Contains(q.usage, `"total_tokens":0`) {
			t.Errorf("asked %s", q.body)
		}
		if n := rigs[1].model.count(); n != 0 {
			t.Errorf("the model was asked %d times", n)
		}
		// The results again bring the question again, in other words.
		if other := a.branch(3).again(rigs[0]); other.text == q.text || other.stop != StopApproval {
			t.Errorf("asked again %s", other.body)
		}
		a.answers(rigs[0], says("Done."), says("Bye."))
		if s := a.send(rigs[0], user("yes")); s.text != "Done." || s.called != `["mcp_mail__send"]` {
			t.Errorf("%s", s.body)
		}
		want := fmt.Sprintf(inOrder, fromMail, fromNow)
		if got := rigs[0].history(); got != want {
			t.Errorf("the model saw %s", got)
		}
		a.send(rigs[0], thanks)
		if got := rigs[0].history(); got != want+"|assistant:Done.|user:Thanks." {
			t.Errorf("in the next turn the model saw %s", got)
		}
		if got := madeBy(rigs...); len(got) != 2 {
			t.Errorf("ran %v", got)
		}
	})
}

// A client that goes on without its results, or after the calls have expired, is not
// asked; nothing runs.
func TestMixedApprovalThatIsNotAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rigs, _, _ := asking(t, 1)
		g, a := rigs[0], &app{}
		a.answers(g, mixedCalls(), says("Fine."), says("Gone."))
		a.send(g, asks)
		b, c := a.branch(2), a.branch(2)
		b.send(g, user("yes"))
		if got := g.history(); got != strings.Replace(fmt.Sprintf(inOrder, noticeUnanswered, fromNow), "booked", noticeNone, 1)+"|user:yes" {
			t.Errorf("the model saw %s", got)
		}
		time.Sleep(time.Hour + time.Minute)
		c.send(g, booked)
		if got := g.history(); got != fmt.Sprintf(inOrder, noticeExpired, noticeExpired) {
			t.Errorf("when it had expired, the model saw %s", got)
		}
		if got := madeBy(g); !slices.Equal(got, []string{"mcp_clock__now"}) {
			t.Errorf("ran %v", got)
		}
	})
}

// A request that only answers goes on in the midst of a turn, so a tool_choice that
// forces a call forces no other one. Other words begin a turn.
func TestForcedChoiceAfterAPause(t *testing.T) {
	forced := func(body string) string {
		return strings.Replace(body, `{"model"`, `{"tool_choice":"required","model"`, 1)
	}
	for answer, want := range map[string]string{"yes": "auto", "no": "auto", "yes, but hurry": "required"} {
		rigs, _, _ := asking(t, 1)
		g, a := rigs[0], &app{}
		a.answers(g, calls("mcp_mail__send", "{}"), says("Done."))
		a.send(g, asks)
		g.post(forced(chatOf(append(a.messages, user(answer))...)))
		if got := gjson.Get(g.model.asked(2), "tool_choice").String(); got != want {
			t.Errorf("%s: tool_choice is %s, want %s", answer, got, want)
		}
	}
	rigs, _ := curious(t, 1, map[string][]string{"mcp_mail__send": {wantsSeat}})
	g, a := rigs[0], &app{}
	a.answers(g, calls("mcp_mail__send", "{}"), says("Done."))
	_, ids := elicited(t, a.send(g, asks))
	g.post(forced(chatOf(append(a.messages, replyTo(ids[0], `{"action":"decline"}`))...)))
	if got := gjson.Get(g.model.asked(2), "tool_choice").String(); got != "auto" {
		t.Errorf("after a server's question: %s", got)
	}
}
