package loop

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-via-llm/mcp-via-llm/chat"
	"github.com/mcp-via-llm/mcp-via-llm/sessions"
	"github.com/tidwall/gjson"
)

// gone is the connection of a client that went away just before the end.
type gone struct{ *httptest.ResponseRecorder }

func (g gone) Write(b []byte) (int, error) {
	if strings.Contains(string(b), `"finish_reason":"tool_calls"`) {
		return 0, errors.New("the client is gone")
	}
	return g.ResponseRecorder.Write(b)
}

func again(r *http.Request) { r.Header.Set(retryCountHeader, "1") }

// A client that did not get the answer of a mixed turn sends the request again and
// has its calls; neither the model is asked again nor a hidden call made again.
func TestMixedAnswerLost(t *testing.T) {
	for _, streaming := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			rigs, _, _ := replicas(t, 2)
			for _, g := range rigs {
				g.tools.run = slowTools(20 * time.Second)
			}
			mixed := strings.Replace(mixedCalls(), `"content":null`, `"content":"Both."`, 1)
			first, second := calls("mcp_wx__now", "{}"), whole(says("Done."))
			answer := whole
			if streaming {
				answer = func(s string) answerFunc { return streamed(asStream(s)) }
				second = answer(says("Done."))
			}
			body := fmt.Sprintf(`{"stream":%v,%s`, streaming, chatOf(asks)[1:])
			rigs[0].answer(answer(first), answer(mixed))
			rigs[0].handler().ServeHTTP(gone{httptest.NewRecorder()}, httptest.NewRequest("POST", "/v1/chat/completions", strings.NewReader(body)))
			w := rigs[1].post(body, again)
			text, names := gjson.Get(w.Body.String(), "choices.0.message.content").String(), gjson.Get(w.Body.String(), "choices.0.message.tool_calls.#.function.name").Raw
			ext := gjson.Get(w.Body.String(), "extensions.mcp_via_llm").Raw
			if streaming {
				s := read(w.Body.String())
				text, names, ext = s.text, fmt.Sprintf("[%q]", strings.Join(s.names, ",")), strings.Join(s.extensions, "")
				if s.roles != 1 || s.dones != 1 || len(s.finishes) != 1 || len(s.ids) != 1 {
					t.Errorf("%s", w.Body)
				}
			} else if gjson.Get(w.Body.String(), "id").String() == "" || gjson.Get(w.Body.String(), "model").String() != "m" {
				t.Errorf("%s", w.Body)
			}
			if w.Code != 200 || text != "Both." || names != `["book_table"]` || rigs[1].model.count() != 0 ||
				gjson.Get(ext, "mcp_tools_called").Raw != `["mcp_wx__now","mcp_mail__send","mcp_clock__now"]` || gjson.Get(ext, "stop_reason").String() != StopClientCalls {
				t.Errorf("stream %v: %d %s", streaming, w.Code, w.Body)
			}
			rigs[1].answer(second)
			rigs[1].post(fmt.Sprintf(`{"stream":%v,%s`, streaming, chatOf(asks, strings.Replace(booking, "null", `"Both."`, 1), booked)[1:]))
			want := strings.Replace(fmt.Sprintf(inOrder, fromMail, fromNow), "assistant:", "assistant:(c1 mcp_wx__now)|toolc1:result of mcp_wx__now|assistant:Both.", 1)
			if got := rigs[1].history(); got != want {
				t.Errorf("stream %v: the model saw\n%s, want\n%s", streaming, got, want)
			}
			if n := len(rigs[0].tools.made()) + len(rigs[1].tools.made()); n != 3 {
				t.Errorf("stream %v: %d calls ran, want 3", streaming, n)
			}
		})
	}
}

// A replica that was killed holds its lease for a while. A client that says that it
// tries again waits for that; one that does not say so may be another, and begins
// afresh.
func TestReplicaKilledAndTriedAgain(t *testing.T) {
	for _, tt := range []struct {
		name string
		edit []func(*http.Request)
		runs int
		wait time.Duration
	}{
		{"tries again", []func(*http.Request){again}, 0, leaseTTL},
		{"another with the same words", nil, 1, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			rigs, ways, _ := replicas(t, 2)
			ctx, kill := context.WithCancel(t.Context())
			rigs[0].answer(whole(calls("mcp_mail__send", "{}")), func(r *http.Request) (*http.Response, error) {
				ways[0].away.Store(true) // to the others it is as good as dead
				<-r.Context().Done()
				return nil, r.Context().Err()
			})
			rigs[1].answer(whole(calls("mcp_mail__send", "{}")), whole(says("Sent.")))
			if tt.runs == 0 {
				rigs[1].model.answers = []answerFunc{whole(says("Sent."))}
			}
			done := make(chan struct{})
			go func() {
				defer close(done)
				rigs[0].post(chatOf(asks), func(r *http.Request) { *r = *r.WithContext(ctx) })
			}()
			synctest.Wait()
			start := time.Now()
			w := rigs[1].post(chatOf(asks), tt.edit...)
			if took := time.Since(start); took < tt.wait-heartbeat || took > tt.wait+time.Second {
				t.Errorf("%s: it took %v", tt.name, took)
			}
			if n := len(rigs[1].tools.made()); n != tt.runs || gjson.Get(w.Body.String(), "choices.0.message.content").String() != "Sent." {
				t.Errorf("%s: %d calls ran again; %s", tt.name, n, w.Body)
			}
			kill()
			<-done
		})
	}
}

// Without the store a request that is sent again is refused: what its first attempt
// has done is not known. One that is not, or that may degrade, goes on.
func TestTriedAgainWithoutStore(t *testing.T) {
	for _, tt := range []struct {
		name    string
		degrade bool
		edit    []func(*http.Request)
		status  int
	}{
		{"for the first time", false, nil, 200},
		{"again", false, []func(*http.Request){again}, 503},
		{"again, and may degrade", true, []func(*http.Request){again}, 200},
	} {
		rigs, ways, _ := replicas(t, 1)
		rigs[0].options.Degrade = tt.degrade
		ways[0].away.Store(true)
		rigs[0].answer(whole(calls("mcp_mail__send", "{}")), whole(says("Sent.")))
		w := rigs[0].post(chatOf(asks), tt.edit...)
		if code := gjson.Get(w.Body.String(), "error.code").String(); w.Code != tt.status || (code == "store_unavailable") != (tt.status == 503) {
			t.Errorf("%s: %d %s", tt.name, w.Code, w.Body)
		}
	}
}

// failing is a store that finds no records.
type failing struct{ sessions.Store }

func (failing) Load(context.Context, sessions.Scope, time.Duration, ...string) ([]sessions.Fields, error) {
	return nil, sessions.ErrUnavailable
}

// An attempt that could not read another one's journal never writes into it.
func TestClaimThatFails(t *testing.T) {
	store := sessions.NewMemory(100, 1<<20)
	defer store.Close() //nolint:errcheck // in memory
	journalOver := func(store sessions.Store) *journal {
		s := &session{Memory: NewMemory(store, nil, nil), scope: sessions.Scope{Client: "c", ID: "i"}, ttl: time.Hour}
		return newJournal(s, "request")
	}
	first := journalOver(store)
	first.segment(t.Context(), 0, &chat.Reply{Message: `{"role":"assistant"}`}, nil, nil)
	first.broken(t.Context())
	second := journalOver(failing{store})
	second.name()
	own := second.attempt
	if err := second.claim(t.Context(), nil); !errors.Is(err, sessions.ErrUnavailable) || second.attempt != own {
		t.Errorf("%v; the attempt has become %q, of %q and %q", err, second.attempt, own, first.attempt)
	}
}

// A turn whose journal is erased while it runs must not be tried again.
func TestErasedJournal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rigs, _, store := replicas(t, 1)
		g := rigs[0]
		g.tools.run = slowTools(20 * time.Second)
		time.AfterFunc(time.Second, func() {
			if n, err := store.Erase(t.Context(), "default/"); n == 0 || err != nil {
				t.Errorf("%d keys erased (%v)", n, err)
			}
		})
		g.answer(whole(calls("mcp_mail__send", "{}")), respond(500, "application/json", `{"error":{}}`))
		if w := g.post(chatOf(asks)); w.Code != 500 || w.Header().Get(retryHeader) != "false" {
			t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
		}
	})
}
