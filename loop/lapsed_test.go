package loop

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"
)

// A question that has expired with all that was behind it: the model learns that the
// answer came to nothing.
func TestAnswerToAnExpiredQuestion(t *testing.T) {
	each(t, func(t *testing.T, a *app) {
		rigs, _, _ := asking(t, 1)
		g := rigs[0]
		a.answers(g, calls("mcp_mail__send", "{}"), says("I ask again."), says("Bye."))
		q := a.send(g, asks)
		time.Sleep(3 * time.Hour)
		a.send(g, user("yes"))
		question := "user:Weather?|assistant:" + q.text
		if got := g.history(); got != question+"|user:yes\n\n"+noticeLapsed || len(g.tools.made()) != 0 {
			t.Errorf("the model saw %s", got)
		}
		a.send(g, thanks)
		if got := g.history(); got != question+"|user:yes|assistant:I ask again.|user:Thanks." {
			t.Errorf("in the next turn the model saw %s", got)
		}
		if count(g.events, EventExpired) != 1 {
			t.Errorf("events %v", g.events)
		}
	})
	each(t, func(t *testing.T, a *app) {
		rigs, _ := curious(t, 1, map[string][]string{"mcp_mail__send": {wantsSeat}})
		g := rigs[0]
		a.answers(g, calls("mcp_mail__send", "{}"), says("Sorry."))
		_, ids := elicited(t, a.send(g, asks))
		time.Sleep(3 * time.Hour)
		a.send(g, replyTo(ids[0], `{"action":"accept","content":{"seat":"aisle"}}`))
		if got := g.history(); got != "user:Weather?|assistant:("+ids[0]+" "+ElicitFunction+")|tool"+ids[0]+":"+noticeLapsedElicit {
			t.Errorf("the model saw %s", got)
		}
	})
}

// Content in parts gets one more; what follows the answer stays where it is, and
// what answers no question as it is.
func TestWhereAnExpiredQuestionIsTold(t *testing.T) {
	const question = `{"role":"assistant","content":"May I? (question ABCDEFGHIJKL)"}`
	parts := `{"role":"user","content":[{"type":"text","text":"yes"}],"name":"ann"}`
	for name, tt := range map[string]struct {
		messages []string
		want     string
	}{
		"parts":                    {[]string{asks, question, parts}, `[` + asks + `,` + question + `,{"role":"user","content":[{"type":"text","text":"yes"},{"type":"text","text":"` + noticeLapsed + `"}],"name":"ann"}]`},
		"two messages":             {[]string{asks, question, user("hm"), user("yes")}, `[` + asks + `,` + question + `,` + user("hm") + `,{"role":"user","content":"yes\n\n` + noticeLapsed + `"}]`},
		"an instruction after it":  {[]string{question, user(""), `{"role":"system","content":"x"}`}, `[` + question + `,{"role":"user","content":"` + noticeLapsed + `"},{"role":"system","content":"x"}]`},
		"answered long ago":        {[]string{question, user("yes"), sunny, thanks}, `[` + question + `,` + user("yes") + `,` + sunny + `,` + thanks + `]`},
		"no answer":                {[]string{asks, question}, `[` + asks + `,` + question + `]`},
		"other words of the model": {[]string{asks, sunny, thanks}, `[` + asks + `,` + sunny + `,` + thanks + `]`},
	} {
		t.Run(name, func(t *testing.T) {
			g := newRig(whole(says("Hello.")))
			g.post(chatOf(tt.messages...))
			if got := gjson.Get(g.model.asked(1), "messages").Raw; got != tt.want {
				t.Errorf("the model saw\n%s, want\n%s", got, tt.want)
			}
		})
	}
}

// What is no answer to a server's question is logged, without a word of it.
func TestOddAnswerIsLogged(t *testing.T) {
	for answer, want := range map[string]int{`{"seat":"secret"}`: 1, `{"action":"accept","content":{"seat":"secret"}}`: 1, `{"action":"cancel"}`: 0, `{"action":"decline"}`: 0, `{"action":"accept","content":{"seat":"aisle"}}`: 0} {
		rigs, _ := curious(t, 1, map[string][]string{"mcp_mail__send": {wantsSeat}})
		g, a := rigs[0], &app{}
		var log bytes.Buffer
		g.options.Log = slog.New(slog.NewTextHandler(&log, nil))
		a.answers(g, calls("mcp_mail__send", "{}"), says("Done."))
		_, ids := elicited(t, a.send(g, asks))
		a.send(g, replyTo(ids[0], answer))
		if got := log.String(); strings.Count(got, "counts as cancel") != want || strings.Contains(got, "secret") {
			t.Errorf("%s: logged %s", answer, got)
		}
	}
}
