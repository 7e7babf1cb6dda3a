package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/textproto"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-via-llm/mcp-via-llm/e2e/llm"
	"github.com/mcp-via-llm/mcp-via-llm/e2e/rig"
)

// TestClientCredentials asserts that a server which wants a token of the service's own gets one, found by its own
// challenge, and that a turn with its tools runs; directly and through Envoy's egress listener.
func TestClientCredentials(t *testing.T) {
	for _, egress := range []bool{false, true} {
		t.Run(fmt.Sprintf("egress %v", egress), func(t *testing.T) {
			t.Parallel()
			p, g := newIDP(t), newGuarded(t, bearer("m2m-"))
			g.idp = p.URL
			r := start(t, current()[0], setup{config: fmt.Sprintf(`
servers:
  work: {url: "%s/mcp", optional: false, auth: {oauth: {client_id: gateway, client_secret: s3cret}}}
envoy: {use_mcp_egress: %v}
`, g.URL, egress)})
			r.LLM.Use(llm.Sequence(llm.Calls(llm.Call("c", "work__whoami", `{}`)), llm.Text("Done.")))
			if got := post(t, r, ask(false, "who am I?")); parse(t, got.body).text() != "Done." {
				t.Fatalf("status %d, body %s", got.status, got.body)
			}
			messages := r.LLM.Requests()[1].Chat.Messages
			if got := messages[len(messages)-1].Text(); got != "you are m2m-1" {
				t.Errorf("the result is %q", got)
			}
			want := map[string]string{"grant": "client_credentials", "client": "gateway:s3cret", "subject": "", "audience": "", "resource": g.URL + "/mcp", "scope": "tools"}
			if got := p.requests(); len(got) != 1 || fmt.Sprint(got[0]) != fmt.Sprint(want) {
				t.Errorf("token requests %v", got)
			}
			if log := r.Service.Log(); strings.Contains(log, "s3cret") || strings.Contains(log, "m2m-1") {
				t.Error("a secret is in the log")
			}
		})
	}
}

// turns is a model that asks who the caller is, and then says the same to everybody.
func turns() llm.Brain {
	return func(r *llm.Request) llm.Step {
		last := r.Chat.Messages[len(r.Chat.Messages)-1]
		if last.Role == "user" && last.Text() == "who am I?" {
			return llm.Calls(llm.Call("c", "work__whoami", `{}`))
		}
		return llm.Text("Done.")
	}
}

func history(messages ...string) string {
	var all []map[string]string
	for i, text := range messages {
		all = append(all, map[string]string{"role": []string{"user", "assistant"}[i%2], "content": text})
	}
	body, err := json.Marshal(map[string]any{"model": "test-model", "messages": all})
	if err != nil {
		panic(err) // strings always encode
	}
	return string(body)
}

// TestTwoUsers asserts that two users of one application, who share its LLM key and its words and differ only in their
// own credential, never share a session, a connection, a token or a memory.
func TestTwoUsers(t *testing.T) {
	exchange := `auth: {token_exchange: {subject_header: x-user-token, token_url: "%s/token", client_id: gateway, client_secret: s3cret, audience: work}}`
	for name, row := range map[string]struct {
		server string
		header string
		good   func(http.Header) bool
	}{
		"exchanged": {exchange, "X-User-Token", bearer("for-")},
		"forwarded": {`forward_headers: [x-pat] # %s`, "X-Pat", func(h http.Header) bool { return h.Get("X-Pat") != "" }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, g := newIDP(t), newGuarded(t, row.good)
			r := start(t, current()[0], setup{brain: turns(), config: fmt.Sprintf("servers:\n  work:\n    url: \"%s/mcp\"\n    "+row.server+"\n", g.URL, p.URL)})
			// The second turns have what the first saw, and nothing of the other user's.
			for _, body := range []string{history("who am I?"), history("who am I?", "Done.", "and again?")} {
				for _, user := range []string{"ann", "bob"} {
					r.LLM.Use(turns())
					if got := post(t, r, body, row.header+": token-of-"+user); parse(t, got.body).text() != "Done." {
						t.Fatalf("%s: status %d, body %s", user, got.status, got.body)
					}
					requests := r.LLM.Requests()
					last := string(requests[len(requests)-1].Body)
					other := map[string]string{"ann": "bob", "bob": "ann"}[user]
					if !strings.Contains(last, "you are ") || !strings.Contains(last, user) || strings.Contains(last, other) {
						t.Errorf("%s: the LLM got %s", user, last)
					}
					if got := requests[0].Header.Get(row.header); got != "" {
						t.Errorf("the LLM got the user's credential %q", got)
					}
				}
			}
			// Nobody: no tools, and no request on behalf of nobody where each needs a token.
			r.LLM.Use(llm.Always(llm.Text("Done.")))
			if ext := parse(t, post(t, r, ask(false, "hi")).body).extension(t); !slices.Equal(ext.ServersUnavailable, []string{"work"}) {
				t.Errorf("%+v", ext)
			}
			ownersOf(t, g, row.header == "X-Pat")
			if got := p.requests(); row.server == exchange && (len(got) != 2 || got[0]["subject"] != "token-of-ann" || got[0]["audience"] != "work" || got[1]["subject"] != "token-of-bob") {
				t.Errorf("token requests %v", got)
			}
		})
	}
}

// ownersOf counts at the server: two callers, each with sessions and connections of its own.
func ownersOf(t *testing.T, g *guarded, anonymous bool) {
	t.Helper()
	owner, callers := map[string]string{}, map[string]bool{}
	for _, a := range g.arrivals() {
		who := a.header.Get("Authorization") + a.header.Get("X-Pat")
		if who == "" && anonymous {
			continue // refused
		}
		callers[who] = true
		for _, id := range []string{a.from, a.session} {
			if first, known := owner[id]; id != "" && known && first != who {
				t.Errorf("%s was used by %q and %q", id, first, who)
			}
			owner[id] = who
		}
		if strings.Contains(fmt.Sprint(a.header), "X-User-Token") || strings.Contains(fmt.Sprint(a.header), "test-key") {
			t.Errorf("the server got %v", a.header)
		}
	}
	if len(callers) != 2 {
		t.Errorf("callers %v", callers)
	}
}

// fromClient is what a client sends along and no MCP server may see.
var fromClient = []string{
	"Authorization: Bearer sk-client-demo", "X-Api-Key: k-demo-1", "Api-Key: k-demo-2", "X-Goog-Api-Key: k-demo-3", "Cookie: s=k-demo-4",
	"X-Request-Id: k-demo-5", "Openai-Organization: k-demo-6", "X-Forwarded-For: 192.0.2.7", "Mcp-Session-Id: k-demo-7",
	"Mcp-Protocol-Version: k-demo-8", "Last-Event-Id: k-demo-9", "Baggage: user=k-demo-10", "X-Mcp-Session: k-demo-11", "Forwarded: for=k-demo-12",
}

// ours are the headers that the service itself may send to an MCP server.
var ours = []string{"Accept", "Accept-Encoding", "Content-Length", "Content-Type", "User-Agent", "Mcp-Session-Id", "Mcp-Protocol-Version",
	"Mcp-Method", "Mcp-Name", "Last-Event-Id", "Traceparent", "Tracestate"}

// TestNothingLeaks asserts that MCP servers get nothing of the client's request but what the configuration names, and
// that neither the client nor the LLM gets anything of the connections to them.
func TestNothingLeaks(t *testing.T) {
	on(t, current(), func(t *testing.T, v variant) {
		p := newIDP(t)
		anybody := func(http.Header) bool { return true }
		servers := map[string]*guarded{
			"open": newGuarded(t, anybody), "static": newGuarded(t, bearer("tok-static")), "work": newGuarded(t, bearer("m2m-")),
			"named": newGuarded(t, anybody), "exchanged": newGuarded(t, bearer("for-ann")), "refused": newGuarded(t, bearer("another")),
		}
		servers["work"].idp = p.URL
		r := start(t, v, setup{config: fmt.Sprintf(`
servers:
  open: {url: "%s/mcp?key=in-query", optional: false}
  static: {url: "%s/mcp", optional: false, auth: {token: tok-static}}
  work: {url: "%s/mcp", optional: false, auth: {oauth: {client_id: gateway, client_secret: s3cret}}}
  named: {url: "%s/mcp", optional: false, forward_headers: [x-pat]}
  exchanged: {url: "%s/mcp", auth: {token_exchange: {subject_header: x-user-token, token_url: "%s/token"}}}
  refused: {url: "%s/mcp", auth: {token: tok-static}}
`, servers["open"].URL, servers["static"].URL, servers["work"].URL, servers["named"].URL, servers["exchanged"].URL, p.URL, servers["refused"].URL)})
		var calls []llm.ToolCall
		for _, name := range []string{"open", "static", "work", "named", "exchanged", "refused"} {
			calls = append(calls, llm.Call("call_"+name, name+"__whoami", `{}`))
		}
		const trace = "0af7651916cd43dd8448eb211c80319c"
		client := append([]string{"X-User-Token: token-of-ann", "X-Pat: pat-ann", "Traceparent: 00-" + trace + "-b7ad6b7169203331-01"}, fromClient...)
		for _, stream := range []bool{false, true} {
			r.LLM.Use(llm.Sequence(llm.Calls(calls...), llm.Text("Done.")))
			got := post(t, r, ask(stream, "who am I?"), client...)
			if got.status != 200 || !strings.Contains(got.body, "Done.") {
				t.Fatalf("status %d, body %s", got.status, got.body)
			}
			outward := fmt.Sprint(got.header, got.body)
			for _, request := range r.LLM.Requests() {
				outward += strings.ReplaceAll(string(request.Body), "you are ", "") + fmt.Sprint(request.Header["X-User-Token"], request.Header["X-Pat"])
			}
			secrets := []string{"s3cret", "in-query", "token-of-ann", "resource_metadata", "Mcp-Session-Id"}
			for _, g := range servers {
				secrets = append(secrets, strings.TrimPrefix(g.URL, "http://"))
				for _, a := range g.arrivals() {
					secrets = append(secrets, a.session)
				}
			}
			for _, secret := range secrets {
				if secret != "" && strings.Contains(outward, secret) {
					t.Errorf("%q is in what the client or the LLM got:\n%s", secret, outward)
				}
			}
		}
		for name, g := range servers {
			onlyOurs(t, name, g)
		}
		inTrace := func(a arrival) bool { return strings.Contains(a.header.Get("Traceparent"), trace) }
		if !slices.ContainsFunc(servers["open"].arrivals(), inTrace) {
			t.Error("the call is not part of the client's trace")
		}
		noSecretsAnywhere(t, r)
	})
}

func onlyOurs(t *testing.T, name string, g *guarded) {
	t.Helper()
	may := map[string][]string{"static": {"Authorization"}, "refused": {"Authorization"}, "work": {"Authorization"}, "exchanged": {"Authorization"}, "named": {"X-Pat"}}
	if len(g.arrivals()) == 0 {
		t.Errorf("%s was not asked", name)
	}
	for _, a := range g.arrivals() {
		for header, values := range a.header {
			if !slices.Contains(ours, textproto.CanonicalMIMEHeaderKey(header)) && !slices.Contains(may[name], header) {
				t.Errorf("%s got %s: %q", name, header, values)
			}
		}
		all := fmt.Sprint(a.header, a.target)
		for _, secret := range []string{"sk-client", "k-demo", "192.0.2.7", "token-of-ann"} {
			if strings.Contains(all, secret) {
				t.Errorf("%s got %s", name, all)
			}
		}
	}
}

// noSecretsAnywhere looks into the log and what the admin listener shows.
func noSecretsAnywhere(t *testing.T, r *rig.Rig) {
	t.Helper()
	shown := r.Service.Log()
	for _, path := range []string{"/debug/servers", "/debug/turns", "/metrics"} {
		shown += rig.Get(t, r.Admin+path)
	}
	for _, secret := range []string{"s3cret", "tok-static", "m2m-", "for-ann", "token-of-ann", "pat-ann", "sk-client", "k-demo-1", "in-query"} {
		if at := strings.Index(shown, secret); at >= 0 {
			t.Errorf("%q is in the log or on the admin listener: …%s", secret, shown[max(0, at-200):min(len(shown), at+100)])
		}
	}
}
