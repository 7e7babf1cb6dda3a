package loop

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// Something comes between the calls and their results: the results go to their calls all
// the same, now and in later turns, and what came between stands after them.
func TestMixedInterrupted(t *testing.T) {
	mixed := calls("book_table", `{"n":1}`, "mcp_mail__send", "{}", "book_table", `{"n":3}`)
	own := `{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"book_table","arguments":"{\"n\":1}"}},{"id":"c3","type":"function","function":{"name":"book_table","arguments":"{\"n\":3}"}}]}`
	one, three, again := `{"role":"tool","tool_call_id":"c1","content":"one"}`, `{"role":"tool","tool_call_id":"c3","content":"three"}`, `{"role":"tool","tool_call_id":"c1","content":"again"}`
	wait, note, ok := `{"role":"user","content":"Wait."}`, `{"role":"system","content":"A note."}`, `{"role":"assistant","content":"I wait."}`
	reused := `{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"book_table","arguments":"{}"}}]}`
	const block = "user:Weather?|assistant:(c1 book_table)(c2 mcp_mail__send)(c3 book_table)|toolc1:%s|toolc2:" + fromMail + "|toolc3:%s"
	for _, tt := range []struct {
		name     string
		messages []string // after the calls
		want     string
	}{
		{"a user", []string{wait, three, one}, fmt.Sprintf(block, "one", "three") + "|user:Wait."},
		{"a note", []string{note, one, three}, fmt.Sprintf(block, "one", "three") + "|system:A note."},
		{"between results", []string{three, wait, one}, fmt.Sprintf(block, "one", "three") + "|user:Wait."},
		{"one missing", []string{wait, three}, fmt.Sprintf(block, noticeNone, "three") + "|user:Wait."},
		{"one twice", []string{one, wait, three, again}, fmt.Sprintf(block, "again", "three") + "|user:Wait."},
		{"an answer", []string{wait, ok, one, three, thanks}, fmt.Sprintf(block, "one", "three") + "|user:Wait.|assistant:I wait.|user:Thanks."},
		{"an id used again", []string{three, wait, reused, again}, fmt.Sprintf(block, noticeNone, "three") + "|user:Wait.|assistant:(c1 book_table)|toolc1:again"},
	} {
		synctest.Test(t, func(t *testing.T) {
			rigs, _, _ := replicas(t, 1)
			g := rigs[0]
			g.tools.run = slowTools(time.Second)
			g.answer(whole(mixed), whole(says("Done.")), whole(says("Done.")), whole(calls("mcp_mail__send", "{}")), whole(says("Sent.")), whole(says("Bye.")))
			messages := append([]string{asks, own}, tt.messages...)
			g.post(chatOf(asks))
			g.post(chatOf(messages...))
			if got := g.history(); got != tt.want {
				t.Errorf("%s: the model saw\n%s, want\n%s", tt.name, got, tt.want)
			}
			g.post(chatOf(messages...)) // sent again
			if got := g.history(); got != tt.want {
				t.Errorf("%s: sent again, the model saw\n%s, want\n%s", tt.name, got, tt.want)
			}
			messages = append(messages, `{"role":"assistant","content":"Done."}`, `{"role":"user","content":"Mail."}`)
			g.post(chatOf(messages...))
			g.post(chatOf(append(messages, `{"role":"assistant","content":"Sent."}`, thanks)...))
			want := tt.want + "|assistant:Done.|user:Mail.|assistant:(c1 mcp_mail__send)|toolc1:" + fromMail + "|assistant:Sent.|user:Thanks."
			if got := g.history(); got != want {
				t.Errorf("%s: later the model saw\n%s, want\n%s", tt.name, got, want)
			}
			if n := len(g.tools.made()); n != 2 {
				t.Errorf("%s: %d calls ran", tt.name, n)
			}
		})
	}
}

// The same where all calls of the message are the client's, after hidden ones.
func TestInterruptedAfterHiddenCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rigs, _, _ := replicas(t, 1)
		g := rigs[0]
		g.answer(whole(calls("mcp_mail__send", "{}")), whole(calls("book_table", `{"n":2}`)), whole(says("Done.")))
		g.post(chatOf(asks))
		own := `{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"book_table","arguments":"{\"n\":2}"}}]}`
		g.post(chatOf(asks, own, `{"role":"user","content":"Wait."}`, `{"role":"tool","tool_call_id":"c1","content":"booked"}`))
		want := "user:Weather?|assistant:(c1 mcp_mail__send)|toolc1:result of mcp_mail__send|assistant:(c1 book_table)|toolc1:booked|user:Wait."
		if got := g.history(); got != want {
			t.Errorf("the model saw\n%s, want\n%s", got, want)
		}
	})
}

// A history that is left out leaves what the client has sent as the client has it.
func TestMixedInterruptedAndLeftOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rigs, _, _ := replicas(t, 1)
		g := rigs[0]
		g.answer(whole(mixedCalls()), whole(says("Done.")), respond(400, "application/json", `{"error":{"message":"?"}}`), whole(says("Bye.")))
		wait := `{"role":"user","content":"Wait."}`
		g.post(chatOf(asks))
		g.post(chatOf(asks, booking, wait, booked))
		g.post(chatOf(asks, booking, wait, booked, `{"role":"assistant","content":"Done."}`, thanks))
		if got, want := g.history(), "user:Weather?|assistant:(c2 book_table)|user:Wait.|toolc2:booked|assistant:Done.|user:Thanks."; got != want {
			t.Errorf("the model saw\n%s, want\n%s", got, want)
		}
	})
}

// A client that leaves when the model's answer is read, but nothing was done with it
// yet, leaves no call behind that begins.
func TestNoCallBeginsAfterTheClientLeft(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	g := newRig(func(r *http.Request) (*http.Response, error) {
		resp, err := whole(calls("mcp_wx__now", "{}"))(r)
		resp.Body = lastRead{resp.Body, cancel}
		return resp, err
	})
	g.post(question+"}", func(r *http.Request) { *r = *r.WithContext(ctx) })
	if made := madeBy(g); len(made) != 0 || !slices.Equal(g.tools.refused, []string{"mcp_wx__now cancelled"}) {
		t.Errorf("ran %v, refused %v", made, g.tools.refused)
	}
}

// lastRead is a body with whose end the client leaves.
type lastRead struct {
	io.ReadCloser
	leave func()
}

func (l lastRead) Close() error { l.leave(); return l.ReadCloser.Close() }
