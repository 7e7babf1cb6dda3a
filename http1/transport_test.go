package http1

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// listener is a server that counts connections.
func listener(t *testing.T, handler http.HandlerFunc) (server *httptest.Server, conns *atomic.Int32) {
	t.Helper()
	conns = new(atomic.Int32)
	server = httptest.NewUnstartedServer(handler)
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			conns.Add(1)
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	return server, conns
}

func standard() *Transport {
	return Over(&http.Transport{DialContext: new(net.Dialer).DialContext, MaxIdleConnsPerHost: 64, MaxConnsPerHost: 64, IdleConnTimeout: time.Minute})
}

func request(t *testing.T, ctx context.Context, url string, body io.Reader) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, body)
	if err != nil {
		t.Fatal(err)
	}
	r.GetBody = nil // net/http must not send it again either
	return r
}

// Whatever the server answers, it comes as from net/http, and as many connections are
// made for it.
func TestIsLikeNetHTTP(t *testing.T) {
	large := strings.Repeat("x", 1<<20)
	for name, row := range map[string]struct {
		handler http.HandlerFunc
		body    func() io.Reader
	}{
		"length":  {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "short") }, nil},
		"no body": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }, nil},
		"chunks":  {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, large) }, nil},
		"close": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Connection", "close")
			_, _ = io.WriteString(w, "x")
		}, nil},
		"echo":           {echo, func() io.Reader { return strings.NewReader("abc") }},
		"large echo":     {echo, func() io.Reader { return strings.NewReader(large) }},
		"unknown length": {echo, func() io.Reader { return io.MultiReader(strings.NewReader("abc")) }},
		"zipped": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Encoding", r.Header.Get("Accept-Encoding"))
			z := gzip.NewWriter(w)
			_, _ = io.WriteString(z, large)
			_ = z.Close()
		}, nil},
		"large header": {func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X-Large", large[:600<<10]) }, nil},
		"interim": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusEarlyHints)
			w.WriteHeader(http.StatusProcessing)
			w.WriteHeader(http.StatusTeapot)
		}, nil},
		"trailer": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Trailer", "X-End")
			_, _ = io.WriteString(w, large)
			w.Header().Set("X-End", "1")
		}, nil},
		"broken off": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "10")
			_, _ = io.WriteString(w, "abc")
		}, nil},
		"no answer": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, nil},
		"refused early": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Connection", "close")
			w.WriteHeader(http.StatusRequestEntityTooLarge)
		}, func() io.Reader { return strings.NewReader(strings.Repeat(large, 20)) }},
	} {
		t.Run(name, func(t *testing.T) {
			var got [2]string
			for i, transport := range []interface {
				http.RoundTripper
				CloseIdleConnections()
			}{standard(), &http.Transport{}} {
				server, conns := listener(t, row.handler)
				for range 3 {
					var body io.Reader
					if row.body != nil {
						body = row.body()
					}
					got[i] += outcome(transport.RoundTrip(request(t, t.Context(), server.URL+"/v1/x", body))) + "\n"
				}
				got[i] += fmt.Sprint(conns.Load(), " connections")
				transport.CloseIdleConnections()
			}
			if got[0] != got[1] {
				t.Errorf("%.600s\nnet/http: %.600s", got[0], got[1])
			}
		})
	}
}

func echo(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	fmt.Fprintf(w, "%s %s %d %v %d %x", r.Method, r.RequestURI, r.ContentLength, r.TransferEncoding, len(body), body[:min(len(body), 9)])
}

// outcome tells what came of a round trip.
func outcome(resp *http.Response, err error) string {
	if err != nil {
		return "failed"
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	resp.Header.Del("Date")
	return fmt.Sprint(resp.Status, resp.ContentLength, resp.TransferEncoding, resp.Close, resp.Header, resp.Uncompressed, resp.Trailer, len(body), string(body[:min(len(body), 60)]), err)
}

// A connection that the server has closed meanwhile fails no request.
func TestServerCloses(t *testing.T) {
	server, conns := listener(t, echo)
	transport := standard()
	defer transport.CloseIdleConnections()
	for n := range 3 {
		if got := outcome(transport.RoundTrip(request(t, t.Context(), server.URL, strings.NewReader("abc")))); !strings.HasPrefix(got, "200") {
			t.Fatal(n, got)
		}
		server.CloseClientConnections()
	}
	if conns.Load() != 3 {
		t.Error(conns.Load(), "connections")
	}
}

// The end of a request's context ends it, whatever it waits for, and the connection with it.
func TestHeedsContexts(t *testing.T) {
	errEnough := errors.New("enough")
	reached := make(chan context.CancelCauseFunc, 1)
	begun := make(chan struct{}, 1)
	server, conns := listener(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/body" {
			w.WriteHeader(http.StatusOK)
			w.(http.Flusher).Flush()
		}
		begun <- struct{}{}
		<-r.Context().Done()
	})
	transport := standard()
	defer transport.CloseIdleConnections()
	for _, path := range []string{"/head", "/body"} {
		ctx, cancel := context.WithCancelCause(t.Context())
		reached <- cancel
		go func() {
			<-begun
			(<-reached)(errEnough)
		}()
		resp, err := transport.RoundTrip(request(t, ctx, server.URL+path, nil))
		if path == "/body" && err == nil {
			_, err = resp.Body.Read(make([]byte, 1))
			_ = resp.Body.Close()
		}
		if !errors.Is(err, errEnough) {
			t.Error(path, err)
		}
	}
	if conns.Load() != 2 {
		t.Error(conns.Load(), "connections")
	}
}

// A body that is not read to its end can be closed while a read waits, and its connection
// is not used again.
func TestBodyClosed(t *testing.T) {
	server, conns := listener(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "begun")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	transport := standard()
	defer transport.CloseIdleConnections()
	for range 2 {
		resp, err := transport.RoundTrip(request(t, t.Context(), server.URL, nil))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(resp.Body, make([]byte, 5)); err != nil {
			t.Fatal(err)
		}
		go resp.Body.Close()
		if _, err := resp.Body.Read(make([]byte, 1)); err == nil || errors.Is(err, io.EOF) {
			t.Error(err)
		}
	}
	if conns.Load() != 2 {
		t.Error(conns.Load(), "connections")
	}
}

// Many requests at once have a connection each, and those that are left serve the next.
func TestAtOnce(t *testing.T) {
	server, conns := listener(t, echo)
	transport := standard()
	defer transport.CloseIdleConnections()
	body := bytes.Repeat([]byte("x"), 3*inlineBody/2)
	for range 2 {
		var all sync.WaitGroup
		for n := range 8 {
			all.Go(func() {
				for range 20 {
					want := fmt.Sprintf("POST /%d", n)
					resp, err := transport.RoundTrip(request(t, t.Context(), fmt.Sprint(server.URL, "/", n), bytes.NewReader(body[:len(body)/(1+n%2)])))
					if err != nil {
						t.Error(err)
						return
					}
					got, err := io.ReadAll(resp.Body)
					if err != nil || !strings.HasPrefix(string(got), want) {
						t.Error(string(got), err)
					}
				}
			})
		}
		all.Wait()
	}
	if n := conns.Load(); n > 8 {
		t.Error(n, "connections")
	}
}
