package mcp

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

func user(token string) http.Header {
	h := http.Header{"Authorization": {"Bearer llm-key"}}
	if token != "" {
		h.Set("X-User-Token", token)
	}
	return h
}

// A caller's own connections to several slow servers are waited for together.
func TestForwardedAtOnce(t *testing.T) {
	t.Parallel()
	const timeout = 3 * time.Second
	var servers []Server
	var names []string
	for _, name := range []string{"a", "b", "c"} {
		f := newToolbox().serve(t, stateful)
		f.on(func(_ http.ResponseWriter, r *http.Request, _ []byte) bool {
			<-r.Context().Done()
			return true
		})
		cfg := config(name, stateful, f)
		cfg.ForwardHeaders, cfg.ConnectTimeout = []string{"x-user-token"}, timeout
		servers, names = append(servers, cfg), append(names, name)
	}
	h := newTestHost(t, servers...)
	begin := time.Now()
	got := h.Toolset(t.Context(), Query{Servers: names, Header: user("ann")}).Unavailable()
	if took := time.Since(begin); len(got) != 3 || took < timeout/2 || took >= 3*timeout {
		t.Errorf("unavailable %q after %v", got, took)
	}
}

// Each set of forwarded values has a session of its own: no request, no list and
// no call of one user ever goes out with another's.
func TestForwardedCredentials(t *testing.T) {
	for _, kind := range []string{stateful, stateless, plainSSE} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			var boxes sync.Map // token to toolbox: what a user sees is private
			boxOf := func(r *http.Request) *toolbox {
				fresh := newToolbox()
				fresh.add("for_"+r.Header.Get("X-User-Token"), "", "{}")
				box, _ := boxes.LoadOrStore(r.Header.Get("X-User-Token"), fresh)
				return box.(*toolbox)
			}
			get := func(r *http.Request) *sdk.Server { return boxOf(r).server }
			var handler http.Handler = sdk.NewStreamableHTTPHandler(get, &sdk.StreamableHTTPOptions{Stateless: kind == stateless})
			if kind == plainSSE {
				handler = sdk.NewSSEHandler(get, nil)
			}
			t.Cleanup(func() { boxes.Range(func(_, box any) bool { box.(*toolbox).endSessions(); return true }) })
			f := serve(t, handler)
			cfg := config("box", kind, f)
			cfg.ForwardHeaders = []string{"x-user-token"}
			cfg.Headers = map[string]string{"X-Static": "all"}
			h := newTestHost(t, cfg)

			sets := map[string]*Toolset{}
			for _, token := range []string{"ann", "bob", ""} {
				ts := toolsFor(t, h, user(token))
				if !ts.Bind(nil).Has("box__for_" + token) {
					t.Fatalf("%q sees %q, %+v", token, injected(ts.Bind(nil)), h.Status())
				}
				if again := h.Toolset(t.Context(), Query{Servers: []string{"box"}, Header: user(token)}); again != ts {
					t.Error("another toolset for the same values")
				}
				sets[token] = ts
			}
			var group sync.WaitGroup
			for _, ts := range sets {
				for range 20 {
					group.Go(func() { ts.Bind(nil).Call(t.Context(), "box__echo", `{"z":1}`) })
				}
			}
			group.Wait()
			for token := range sets {
				box, _ := boxes.Load(token)
				if n, _ := box.(*toolbox).called("echo"); n != 20 {
					t.Errorf("%d calls as %q, want 20", n, token)
				}
			}
			if st := h.Status()[0]; st.Forwarded != 2 {
				t.Errorf("%+v", st)
			}
			oneOwner(t, f)
		})
	}
}

// oneOwner checks that no session was used with two tokens, and that only the
// headers that are meant for the server reach it.
func oneOwner(t *testing.T, f *front) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	owners := map[string]string{}
	for _, r := range f.seen {
		token := r.Header.Get("X-User-Token")
		if r.Header.Get("Authorization") != "" {
			t.Error("the caller's LLM credential reached an MCP server")
		}
		if r.Header.Get("X-Static") != "all" {
			t.Error("a request without the configured header")
		}
		if id := r.Header.Get(headerSession) + r.URL.Query().Get("sessionid"); id != "" {
			if owner, known := owners[id]; known && owner != token {
				t.Errorf("session used by %q and %q", owner, token)
			}
			owners[id] = token
		}
	}
}

func TestForwardedKey(t *testing.T) {
	names := []string{"X-A", "x-b"}
	cfg := &Server{ForwardHeaders: names}
	key := func(h http.Header) string { return callerOf(cfg, h).key() }
	headers := []http.Header{
		{"X-A": {"1"}}, {"X-A": {"2"}}, {"X-B": {"1"}}, {"X-A": {"1"}, "X-B": {"1"}}, {"X-A": {"1", "1"}},
		{"X-A": {"11"}}, {"X-A": {""}}, {"X-A": {"", "X-B", "1"}}, {"X-A": {"", ""}, "X-B": {"1"}}, {"X-A": {""}, "X-B": {"1"}},
	}
	seen := map[string]int{}
	for i, h := range headers {
		if j, twice := seen[key(h)]; twice {
			t.Errorf("%v and %v have one key", h, headers[j])
		}
		seen[key(h)] = i
	}
	if key(http.Header{"Authorization": {"x"}}) != "" {
		t.Error("something was forwarded")
	}
	if key(http.Header{"X-A": {"1"}, "Other": {"2"}}) != key(http.Header{"X-A": {"1"}}) {
		t.Error("a header that is not forwarded changed the key")
	}
}

// A connection that nobody uses is ended; a turn that still holds its toolset
// gets a new one.
func TestForwardedIdle(t *testing.T) {
	t.Parallel()
	f := newToolbox().serve(t, stateful)
	cfg := config("box", stateful, f)
	cfg.ForwardHeaders = []string{"x-user-token"}
	cfg.Headers = map[string]string{"X-Static": "all"}
	h := newTestHost(t, cfg)
	b := h.Toolset(t.Context(), Query{Servers: []string{"box"}, Header: user("ann")}).Bind(nil)
	h.dropIdle(time.Now().Add(-time.Hour))
	if h.Status()[0].Forwarded != 1 {
		t.Error("ended although it was just used")
	}
	h.dropIdle(time.Now())
	if h.Status()[0].Forwarded != 0 {
		t.Error("kept")
	}
	if res := b.Call(t.Context(), "box__add_numbers", `{"a":1,"b":2}`); res.Text != "3" {
		t.Errorf("%+v", res)
	}
	if h.Status()[0].Forwarded != 1 {
		t.Error("the call went out with another credential")
	}
	oneOwner(t, f)
}

// The oldest connection without a running call makes room for a new credential.
func TestForwardedRoom(t *testing.T) {
	t.Parallel()
	box := newToolbox()
	cfg := config("box", stateful, box.serve(t, stateful))
	cfg.ForwardHeaders = []string{"x-user-token"}
	h := newTestHost(t, cfg)
	first := h.connFor("box", user("ann"))
	second := h.connFor("box", user("bob"))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	b := h.Toolset(ctx, Query{Servers: []string{"box"}, Header: user("ann")}).Bind(nil)
	done := make(chan Result, 1)
	go func() { done <- b.Call(ctx, "box__hang", "") }()
	await(t, "start of the call", box.started)
	h.mu.Lock()
	first.used.Store(0) // the oldest, but busy
	dropped := h.servers["box"].dropOldest()
	h.mu.Unlock()
	if !dropped || first.ctx.Err() != nil || second.ctx.Err() == nil {
		t.Error("the wrong connection was ended")
	}
	h.mu.Lock()
	dropped = h.servers["box"].dropOldest()
	h.mu.Unlock()
	if dropped {
		t.Error("a busy connection was ended")
	}
	close(box.release)
	if res := await(t, "result", done); !strings.Contains(res.Text, "released") {
		t.Errorf("%+v", res)
	}
}

// A server that lets in nobody without a credential does not keep the host from
// being ready.
func TestForwardedReady(t *testing.T) {
	t.Parallel()
	box := newToolbox()
	f := box.serve(t, stateful)
	f.on(func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
		if r.Header.Get("X-User-Token") != "" {
			return false
		}
		http.Error(w, "who are you?", http.StatusForbidden)
		return true
	})
	cfg := config("box", stateful, f)
	cfg.Required, cfg.ForwardHeaders = true, []string{"x-user-token"}
	h := newTestHost(t, cfg)
	eventually(t, "ready", h.Ready)
	if got := toolsOf(t, h, "box").Unavailable(); len(got) != 1 {
		t.Error("nobody got in")
	}
	if got := h.Toolset(t.Context(), Query{Servers: []string{"box"}, Header: user("ann")}).Unavailable(); len(got) != 0 {
		t.Error("ann did not get in")
	}
}
