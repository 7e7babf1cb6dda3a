package extproc

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
)

var errBody = errors.New("broken body")

func withBody(r *http.Request, body io.Reader, length int64) *http.Request {
	out := r.Clone(r.Context())
	out.Body, out.ContentLength = io.NopCloser(body), length
	return out
}

// TestBrokenBodyReleasesNothing: a short body that fails, or is not as long as
// declared, fails the round trip and leaves the route to the next one.
func TestBrokenBodyReleasesNothing(t *testing.T) {
	f := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		for _, body := range []io.Reader{
			io.MultiReader(strings.NewReader("ab"), errReader{}),
			strings.NewReader("ab"),
			strings.NewReader("abcd"),
		} {
			if _, err := Transport().RoundTrip(withBody(r, body, 3)); err == nil {
				t.Error("no error")
			}
		}
		_, _ = Transport().RoundTrip(withBody(r, strings.NewReader("abc"), 3))
	})
	e := f.open(t)
	e.send(requestHeaders(ModeStatic, false), requestBody("x", true))
	e.want("request headers content-length=3", `request body "abc" end`)
}

type errReader struct{}

func (errReader) Read([]byte) (int, error) { return 0, errBody }

// TestBodyBreaksAfterRelease: the round trip fails, and the answer goes on.
func TestBodyBreaksAfterRelease(t *testing.T) {
	for name, body := range map[string]io.Reader{
		"broken":   io.MultiReader(bytes.NewReader(make([]byte, chunkSize)), errReader{}),
		"short":    bytes.NewReader(make([]byte, chunkSize)),
		"panicked": io.MultiReader(bytes.NewReader(make([]byte, chunkSize)), panicReader{}),
	} {
		t.Run(name, func(t *testing.T) {
			f := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if _, err := Transport().RoundTrip(withBody(r, body, 100_000)); err == nil {
					t.Error("no error")
				}
				w.WriteHeader(http.StatusBadGateway)
			})
			e := f.open(t)
			e.send(requestHeaders(ModeStatic, false), requestBody("x", true))
			e.want("request headers content-length=100000", "request body 31744 bytes", `immediate 502 ""`)
		})
	}
}

type panicReader struct{}

func (panicReader) Read([]byte) (int, error) { panic("read") }

// TestConcurrentRoundTrips: one of them gets Envoy's route, the others the
// loop listener.
func TestConcurrentRoundTrips(t *testing.T) {
	var mu sync.Mutex
	var looped []*http.Request
	loop := roundTripper(func(r *http.Request) (*http.Response, error) {
		mu.Lock()
		defer mu.Unlock()
		looped = append(looped, r)
		return &http.Response{StatusCode: 200, Body: http.NoBody}, nil
	})
	f := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() {
				resp, err := Transport().RoundTrip(withBody(r, strings.NewReader("abc"), 3))
				if err != nil {
					t.Error(err)
					return
				}
				_ = resp.Body.Close()
			})
		}
		wg.Wait()
	}, func(o *Options) {
		o.Loop = loop
		o.Secret = []byte("s")
		o.LoopURL = func() *url.URL { return &url.URL{Scheme: "http", Host: "loop:1"} }
	})
	e := f.open(t)
	e.send(requestHeaders(ModeStatic, false, "x-secret", "s", "x-envoy-x", "1", "x-kept", "k"), requestBody("x", true))
	e.want("request headers content-length=3 -x-secret", `request body "abc" end`)
	e.send(responseHeaders(false, ":status", "200", "content-length", "0"), responseBody("", true))
	e.want("response headers", `response body "" end`)
	if len(looped) != 4 {
		t.Fatalf("%d looped", len(looped))
	}
	for _, r := range looped {
		present, valid := takeMarker(r.Header, []byte("s"))
		if r.URL.String() != "http://loop:1/v1/x?q=1" || r.Host != "llm.example" || r.Method != "POST" || !present || !valid ||
			len(r.Header) != 2 || r.Header.Get("X-Kept") != "k" || r.Header["User-Agent"] != nil {
			t.Errorf("%s %s %s %v", r.Method, r.URL, r.Host, r.Header)
		}
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestNoLoopListener(t *testing.T) {
	f := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		if _, err := Transport().RoundTrip(r); !errors.Is(err, errNoLoop) {
			t.Error(err)
		}
	})
	e := f.open(t)
	e.send(requestHeaders(ModeStatic, true))
	e.want("streamed head :status=200", `streamed body "" end`)
}

// TestLoopTransport: the default transport is made for the loop listener:
// no proxy, no compression of its own, the client's path as it is.
func TestLoopTransport(t *testing.T) {
	t.Setenv("HTTP_PROXY", "http://192.0.2.1:1")
	got := make(chan *http.Request, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got <- r
		w.WriteHeader(http.StatusTeapot)
	}))
	defer server.Close()
	base, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	f := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		resp, err := Transport().RoundTrip(withBody(r, strings.NewReader("abc"), 3))
		if err != nil || resp.StatusCode != http.StatusTeapot {
			t.Error(resp, err)
			return
		}
		_ = resp.Body.Close()
	}, func(o *Options) { o.LoopURL = func() *url.URL { return base } })
	e := f.open(t)
	e.send(requestHeaders(ModeStatic, true, "connection", "x-hop", "x-hop", "1"))
	e.want("streamed head :status=200", `streamed body "" end`)
	r := <-got
	if r.RequestURI != "/v1/x?q=1" || r.Host != "llm.example" || r.ContentLength != 3 || r.Header.Get("X-Hop") != "" ||
		r.Header.Get("Accept-Encoding") != "" || r.Header.Get("User-Agent") != "" {
		t.Errorf("%s %s %v", r.Host, r.RequestURI, r.Header)
	}
	f.opts.Loop.(*http.Transport).CloseIdleConnections()
}

// TestAside: a request beside the exchange goes to the loop listener, whether it is
// the first or comes when the exchange is over.
func TestAside(t *testing.T) {
	var asked []string
	var late func() error
	f := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		late = func() error {
			out := withBody(r, strings.NewReader("aside"), 5)
			_, err := Aside().RoundTrip(out.WithContext(context.WithoutCancel(r.Context())))
			return err
		}
		if err := late(); err != nil {
			t.Error(err)
		}
		resp, err := Transport().RoundTrip(withBody(r, strings.NewReader("abc"), 3))
		if err != nil {
			t.Error(err)
			return
		}
		// An answer that is whole before the upstream's body is there goes out at once, as
		// an immediate one.
		_, _ = io.Copy(io.Discard, resp.Body)
	}, func(o *Options) {
		o.Loop = roundTripper(func(r *http.Request) (*http.Response, error) {
			body, err := io.ReadAll(r.Body)
			asked = append(asked, r.URL.String()+" "+string(body))
			return &http.Response{StatusCode: 200, Body: http.NoBody}, err
		})
		o.LoopURL = func() *url.URL { return &url.URL{Scheme: "http", Host: "loop:1"} }
	})
	e := f.open(t)
	e.send(requestHeaders(ModeStatic, false), requestBody("x", true))
	e.want("request headers content-length=3", `request body "abc" end`)
	e.send(responseHeaders(false, ":status", "200", "content-length", "0"), responseBody("", true))
	e.want("response headers", `response body "" end`)
	if err := late(); err != nil || len(asked) != 2 || asked[0] != "http://loop:1/v1/x?q=1 aside" || asked[1] != asked[0] {
		t.Errorf("%v, %q", err, asked)
	}
	if _, err := Aside().RoundTrip(httptest.NewRequest("POST", "/", nil)); !errors.Is(err, errNoExchange) {
		t.Errorf("without an exchange: %v", err)
	}
}

// TestRequestTrailerChanges: the client's trailers go on, unless the outbound
// request has its own.
func TestRequestTrailerChanges(t *testing.T) {
	for name, test := range map[string]struct {
		trailer http.Header
		want    string
	}{
		"kept":    {nil, "request trailers"},
		"named":   {http.Header{"A": nil}, "request trailers"},
		"changed": {http.Header{"A": {"2"}, "C": {"3"}}, "request trailers a=2 c=3 -b"},
		"removed": {http.Header{}, "request trailers -a -b"},
	} {
		t.Run(name, func(t *testing.T) {
			f := serve(t, func(_ http.ResponseWriter, r *http.Request) {
				if _, err := io.ReadAll(r.Body); err != nil || r.Trailer.Get("A") != "1" {
					t.Error(err, r.Trailer)
				}
				out := withBody(r, strings.NewReader("abc"), 3)
				out.Trailer = test.trailer
				_, _ = Transport().RoundTrip(out)
			})
			e := f.open(t)
			e.send(requestHeaders(ModeStatic, false, "trailer", "A"), requestBody("x", false), requestTrailers("a", "1", "b", "1"))
			e.want("request headers content-length=3", `request body "abc"`, test.want)
		})
	}
}

// TestRoundTripContext: wherever a round trip waits, its context ends it, and
// one whose context has ended sends nothing.
func TestRoundTripContext(t *testing.T) {
	errStop := errors.New("stop")
	for name, test := range map[string]struct {
		prefix int   // bytes of the body before it stalls
		length int64 // declared
		want   []string
	}{
		"before it starts":          {-1, 3, nil},
		"reading the first part":    {2, 3, nil},
		"reading a later part":      {chunkSize, 100_000, []string{"request headers content-length=100000", "request body 31744 bytes"}},
		"reading, length not known": {0, -1, []string{"request headers"}},
		"waiting for the answer":    {3, 3, []string{"request headers content-length=3", `request body "aaa" end`}},
	} {
		t.Run(name, func(t *testing.T) {
			reading := make(chan struct{})
			f := serve(t, func(w http.ResponseWriter, r *http.Request) {
				ctx, stop := context.WithCancelCause(r.Context())
				body, writer := io.Pipe()
				go func() {
					defer close(reading)
					if test.prefix > 0 {
						_, _ = writer.Write(bytes.Repeat([]byte("a"), test.prefix))
					}
					if int64(test.prefix) == test.length {
						_ = writer.Close()
					}
					stop(errStop)
				}()
				if test.prefix < 0 {
					<-reading
				}
				out := r.Clone(ctx)
				out.Body, out.ContentLength = body, test.length // a body whose Close ends its Read
				_, err := Transport().RoundTrip(out)
				if !errors.Is(err, errStop) {
					t.Error(err)
				}
				w.WriteHeader(http.StatusGatewayTimeout)
			})
			e := f.open(t)
			e.send(requestHeaders(ModeStatic, false), requestBody("x", true))
			for _, text := range test.want {
				// The stop may come before the release does.
				msg, err := e.stream.Recv()
				if err != nil {
					t.Fatal(err)
				}
				if got := describe(msg); got == `immediate 504 ""` {
					return
				} else if got != text {
					t.Errorf("got %s, want %s", got, text)
				}
			}
			e.want(`immediate 504 ""`)
			<-reading
		})
	}
}
