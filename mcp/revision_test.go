package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// noPost is a server of 2024-11-05: it takes no POST where its stream is.
func noPost(status int, inner http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && r.URL.RawQuery == "" { // else it is to a session
			http.Error(w, "no", status)
			return
		}
		inner.ServeHTTP(w, r)
	})
}

// An older server is found by how it refuses initialize, and spoken to over HTTP
// and SSE.
func TestFallbackToSSE(t *testing.T) {
	for _, status := range []int{400, 404, 405} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			t.Parallel()
			box := newToolbox()
			t.Cleanup(box.endSessions)
			f := serve(t, noPost(status, box.handler(plainSSE)))
			h := newTestHost(t, Server{Name: "box", URL: f.URL + "/sse", ConnectTimeout: soon})
			b := toolsOf(t, h, "box").Bind(nil)
			if res := b.Call(t.Context(), "box__add_numbers", `{"a":1,"b":2}`); res.Text != "3" {
				t.Fatalf("%+v, %+v", res, h.Status())
			}
			// What worked is tried first when the session is lost.
			tried := f.count(methodDiscover)
			box.endSessions()
			eventually(t, "a new session", func() bool { return b.Call(t.Context(), "box__add_numbers", `{"a":1,"b":2}`).Text == "3" })
			if n := f.count(methodDiscover); n != tried {
				t.Errorf("asked %d times more whether it is a newer server", n-tried)
			}
		})
	}
}

// Any other failure is reported as it is, and nothing else is tried.
func TestNoFallback(t *testing.T) {
	for name, test := range map[string]struct {
		status    int
		body      string
		transport string
		says      string
	}{
		"500":                    {500, "oops", "", "HTTP 500"},
		"502":                    {502, "oops", "", "HTTP 502"},
		"503":                    {503, "oops", "", "HTTP 503 Service Unavailable"},
		"401":                    {401, "oops", "", "HTTP 401"},
		"403":                    {403, "oops", "", "HTTP 403"},
		"429":                    {429, "oops", "", "HTTP 429"},
		"405, transport is set":  {405, "oops", "streamable-http", "HTTP 405 Method Not Allowed"},
		"404, transport is set":  {404, "oops", "streamable-http", "HTTP 404 Not Found"},
		"400, of a newer server": {400, `{"jsonrpc":"2.0","id":1,"error":{"code":-32022,"message":"Unsupported protocol version","data":{"supported":["2027-01-01"]}}}`, "", `speaks no MCP revision that is known here (it offers ["2027-01-01"])`},
		"200, of a newer server": {200, `{"jsonrpc":"2.0","id":1,"error":{"code":-32022,"message":"Unsupported protocol version","data":{"supported":["2027-01-01"]}}}`, "", `it offers ["2027-01-01"]`},
		"an unknown choice":      {200, `{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2023-01-01","capabilities":{},"serverInfo":{"name":"o","version":"1"}}}`, "", "speaks MCP revision \"2023-01-01\", which is not known here"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScript(t)
			refuse := func(w http.ResponseWriter, _ *http.Request, m heard) {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(test.status)
				fmt.Fprint(w, strings.Replace(test.body, `"id":1`, `"id":`+m.id, 1))
			}
			s.answer("POST initialize", refuse)
			if test.status != 200 {
				s.answer("POST server/discover", refuse)
			}
			cfg := config("box", stateful, s.front)
			cfg.Transport = test.transport
			h := newTestHost(t, cfg)
			h.Settle(t.Context())
			if st := h.Status()[0]; !strings.Contains(st.Error, test.says) {
				t.Errorf("%+v", st)
			}
			if n := len(s.all("GET")); n > 0 {
				t.Errorf("HTTP+SSE was tried")
			}
		})
	}
}

// Where both transports fail, both failures are told, unless the second says only
// that there is no such transport.
func TestFallbackFails(t *testing.T) {
	for name, test := range map[string]struct {
		get  func(w http.ResponseWriter, r *http.Request)
		want string
	}{
		"no such transport": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(405) }, "HTTP 405 Method Not Allowed"},
		"nothing there":     {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(404) }, "HTTP 405 Method Not Allowed"},
		"refused":           {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(401) }, "HTTP 405 Method Not Allowed; over HTTP+SSE: HTTP 401 Unauthorized"},
		"down":              {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) }, "HTTP 405 Method Not Allowed; over HTTP+SSE: HTTP 503 Service Unavailable"},
		"another origin": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, "event: endpoint\ndata: http://127.0.0.1:1/messages?sid=1\n\n")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}, "HTTP 405 Method Not Allowed; over HTTP+SSE: refused to leave the configured server"},
		"no endpoint": {func(w http.ResponseWriter, _ *http.Request) { event(w, "{}") }, "HTTP 405 Method Not Allowed; over HTTP+SSE: the server does not speak MCP as expected"},
		"a page":      {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<p>") }, "HTTP 405 Method Not Allowed; over HTTP+SSE: the server does not speak MCP as expected"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodPost {
					w.WriteHeader(http.StatusMethodNotAllowed)
					return
				}
				test.get(w, r)
			}))
			h := newTestHost(t, config("box", stateful, f))
			h.Settle(t.Context())
			if st := h.Status()[0]; st.Error != test.want {
				t.Errorf("%q, want %q", st.Error, test.want)
			}
		})
	}
}

// A certificate that is not trusted, and a server that says nothing, are no older
// servers.
func TestConnectFailuresAreReported(t *testing.T) {
	t.Parallel()
	secure := httptest.NewUnstartedServer(noPost(405, http.NotFoundHandler()))
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	t.Cleanup(secure.Close)
	mute := serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	h := newTestHost(t, Server{Name: "secure", URL: secure.URL, ConnectTimeout: soon}, Server{Name: "mute", URL: mute.URL, ConnectTimeout: 500 * time.Millisecond})
	h.Settle(t.Context())
	for i, says := range []string{"certificate", "connect timeout"} {
		eventually(t, says, func() bool { return strings.Contains(h.Status()[i].Error, says) })
	}
}

// Every revision that the SDK knows is spoken, and named in every request after the
// handshake and in none before.
func TestNegotiatedDown(t *testing.T) {
	for _, version := range sdk.SupportedProtocolVersions() {
		if version > legacyVersion {
			continue
		}
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			s := newScript(t)
			s.version = version
			h := newTestHost(t, config("box", stateful, s.front))
			if res := toolsOf(t, h, "box").Bind(nil).Call(t.Context(), "box__run", ""); res.Text != "done" {
				t.Errorf("%+v, %+v", res, h.Status())
			}
			if st := h.Status()[0]; st.ProtocolVersion != version {
				t.Errorf("%+v", st)
			}
			if got := s.await(t, "POST initialize").header.Get(headerVersion); got != "" {
				t.Errorf("initialize has %s", got)
			}
			for _, key := range []string{"POST notifications/initialized", "POST tools/list", "POST tools/call"} {
				if m := s.await(t, key); m.header.Get(headerVersion) != version || m.header.Get(headerSession) != "s-1" {
					t.Errorf("%s: %v", key, m.header)
				}
			}
		})
	}
}

// On the transport of 2024-11-05 too.
func TestNegotiatedOverSSE(t *testing.T) {
	t.Parallel()
	f := newToolbox().serve(t, plainSSE)
	h := newTestHost(t, config("box", plainSSE, f))
	if res := toolsOf(t, h, "box").Bind(nil).Call(t.Context(), "box__add_numbers", `{"a":1,"b":2}`); res.Text != "3" {
		t.Errorf("%+v", res)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	last := f.seen[len(f.seen)-1]
	if got := last.Header.Get(headerVersion); got != legacyVersion {
		t.Errorf("the call has %q", got)
	}
}

// A server of 2026-07-28 that refuses initialize is used without it.
func TestWithoutHandshake(t *testing.T) {
	t.Parallel()
	s := newScript(t).modern()
	h := newTestHost(t, config("box", stateful, s.front))
	if res := toolsOf(t, h, "box").Bind(nil).Call(t.Context(), "box__run", ""); res.Text != "done" {
		t.Errorf("%+v, %+v", res, h.Status())
	}
	call := s.await(t, "POST tools/call")
	if call.header.Get(headerVersion) != "2026-07-28" || call.get(`params._meta.io\.modelcontextprotocol/protocolVersion`).String() != "2026-07-28" ||
		call.get(`params._meta.io\.modelcontextprotocol/clientCapabilities`).Raw != "{}" || !call.get("params._meta.progressToken").Exists() {
		t.Errorf("%v %s", call.header, call.body)
	}
	if n := len(s.all("POST initialize")); n != 0 {
		t.Errorf("initialize was sent %d times", n)
	}
}

// A server that was replaced by a newer one is found again, although the older
// handshake was kept for the next time.
func TestServerIsReplaced(t *testing.T) {
	t.Parallel()
	s := newScript(t)
	s.answer("POST server/discover", func(w http.ResponseWriter, _ *http.Request, _ heard) { w.WriteHeader(http.StatusBadRequest) })
	h := newTestHost(t, config("box", stateful, s.front))
	b := toolsOf(t, h, "box").Bind(nil)
	h.connFor("box", nil).way.version = legacyVersion // as after a server that said nothing to server/discover
	s.modern()
	s.answer("POST tools/call", func(w http.ResponseWriter, r *http.Request, m heard) {
		if m.header.Get(headerSession) != "" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		s.small(w, r, m)
	})
	eventually(t, "a call", func() bool { return b.Call(t.Context(), "box__run", "").Text == "done" })
	if st := h.Status()[0]; st.ProtocolVersion != "2026-07-28" {
		t.Errorf("%+v", st)
	}
}

// A server that comes up between the two first requests is not taken for an older one.
func TestServerComesUpMeanwhile(t *testing.T) {
	t.Parallel()
	w := &wire{origin: &url.URL{Scheme: "http", Host: "127.0.0.1:1"}, ctx: t.Context(), probe: soon, trace: func(context.Context, http.Header) {}}
	refused := &net.OpError{Op: "dial", Err: errors.New("refused")}
	sent := 0
	w.next = roundTripper(func(*http.Request) (*http.Response, error) {
		sent++
		return nil, refused
	})
	for _, method := range []string{methodDiscover, methodInitialize} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.origin.String(), strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"`+method+`"}`))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.RoundTrip(req); !errors.Is(err, refused) {
			t.Errorf("%s: %v", method, err)
		}
	}
	if sent != 1 {
		t.Errorf("%d requests", sent)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
