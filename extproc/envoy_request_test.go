package extproc

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/net/http2"
)

func newReader(s string) *bufio.Reader { return bufio.NewReader(strings.NewReader(s)) }

// testStreamedRequest: the upstream gets the first part while the client still
// waits to send the second.
func testStreamedRequest(t *testing.T, r *rig) {
	first := make(chan string)
	r.on(func(w http.ResponseWriter, req *http.Request) {
		out := req.Clone(req.Context())
		out.ContentLength = -1
		resp, err := Transport().RoundTrip(out)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer resp.Body.Close()
		copyResponse(w, resp)
	}, func(w http.ResponseWriter, req *http.Request) {
		buf := make([]byte, 16)
		n, _ := req.Body.Read(buf)
		first <- string(buf[:n])
		rest, err := io.ReadAll(req.Body)
		if err != nil || req.ContentLength != -1 {
			t.Error(err, req.ContentLength)
		}
		_, _ = w.Write(rest)
	})
	pr, pw := io.Pipe()
	go func() {
		_, _ = io.WriteString(pw, "one")
		if got := <-first; got != "one" {
			t.Errorf("the upstream's first read: %q", got)
		}
		_, _ = io.WriteString(pw, "two")
		_ = pw.Close()
	}()
	if _, b := r.do(t, "POST", "/s", pr, nil); string(b) != "two" {
		t.Errorf("got %q", b)
	}
}

func h2Client() *http.Client {
	return &http.Client{Transport: &http2.Transport{
		AllowHTTP: true,
		DialTLSContext: func(ctx context.Context, network, addr string, _ *tls.Config) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, addr)
		},
	}}
}

// testRequestTrailers: the end of the body is taken from trailers, and they go
// on to the upstream.
func testRequestTrailers(t *testing.T, r *rig) {
	client := h2Client()
	defer client.CloseIdleConnections()
	for _, match := range []string{"yes", "no"} {
		r.on(copyHandler, echoSeen)
		req, err := http.NewRequestWithContext(withTimeout(t), "POST", r.url("/t"), io.NopCloser(strings.NewReader("hello")))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Match", match)
		req.Trailer = http.Header{"X-Sum": {"5"}}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		s := decodeSeen(t, b)
		if s.Sum != sum([]byte("hello")) || s.Trailer.Get("X-Sum") != "5" {
			t.Errorf("match %s: upstream saw %+v", match, s)
		}
	}
}

func testResponseTrailers(t *testing.T, r *rig) {
	upstream := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Trailer", "X-Sum, X-Other")
		_, _ = io.WriteString(w, "text")
		w.(http.Flusher).Flush()
		w.Header().Set("X-Sum", "4")
		w.Header().Set("X-Other", "o")
	}
	for name, test := range map[string]struct {
		handler http.HandlerFunc
		want    http.Header
	}{
		"copied": {copyHandler, http.Header{"X-Sum": {"4"}, "X-Other": {"o"}}},
		"changed": {func(w http.ResponseWriter, req *http.Request) {
			resp, err := Transport().RoundTrip(req)
			if err != nil {
				t.Error(err)
				return
			}
			resp.Header["Trailer"] = []string{"X-Sum"}
			if _, err := io.ReadAll(resp.Body); err != nil || resp.Trailer.Get("X-Other") != "o" {
				t.Error(err, resp.Trailer)
			}
			resp.Body = io.NopCloser(strings.NewReader("text"))
			resp.Trailer = http.Header{"X-Sum": {"5"}}
			copyResponse(w, resp)
		}, http.Header{"X-Sum": {"5"}}},
		"dropped": {func(w http.ResponseWriter, req *http.Request) {
			if resp, err := Transport().RoundTrip(req); err == nil {
				_, _ = io.Copy(w, resp.Body)
			}
		}, http.Header{}},
	} {
		r.on(test.handler, upstream)
		resp, b := r.do(t, "GET", "/t", nil, nil)
		got := http.Header{}
		for key, values := range resp.Trailer {
			if len(values) > 0 {
				got[key] = values
			}
		}
		if string(b) != "text" || !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: %q with trailers %v", name, b, got)
		}
	}
}

// testBareRequest: Envoy takes no body messages for a request without a body,
// yet the handler may send one.
func testBareRequest(t *testing.T, r *rig) {
	for _, body := range []string{"", "added"} {
		r.on(func(w http.ResponseWriter, req *http.Request) {
			out := req.Clone(req.Context())
			if body != "" {
				out.Body, out.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
			}
			resp, err := Transport().RoundTrip(out)
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadGateway)
				return
			}
			copyResponse(w, resp)
		}, echoSeen)
		if _, b := r.do(t, "GET", "/bare", nil, nil); decodeSeen(t, b).Sum != sum([]byte(body)) {
			t.Errorf("upstream saw %s", b)
		}
	}
	r.on(copyHandler, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Length", "7") })
	resp, _ := r.do(t, "HEAD", "/bare", nil, nil)
	if r.contentLength() && resp.ContentLength != 7 {
		t.Errorf("HEAD: content-length %d", resp.ContentLength)
	}
}

// testEarlyUpstream: an upstream may refuse before it has read the body.
func testEarlyUpstream(t *testing.T, r *rig) {
	got := make(chan struct{})
	r.on(copyHandler, func(w http.ResponseWriter, _ *http.Request) {
		conn, buf, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = buf.WriteString("HTTP/1.1 413 Too Large\r\nContent-Length: 5\r\n\r\nearly")
		_ = buf.Flush()
		<-got
		_ = conn.Close()
	})
	pr, pw := io.Pipe()
	go func() {
		_, _ = pw.Write(make([]byte, 100_000))
		<-got
		_ = pw.Close()
	}()
	resp, b := r.do(t, "POST", "/early", pr, nil)
	close(got)
	if resp.StatusCode != http.StatusRequestEntityTooLarge || string(b) != "early" {
		t.Errorf("%s %q", resp.Status, b)
	}
}

// testRoutingHeaders: a handler cannot steer Envoy's route, on any segment.
func testRoutingHeaders(t *testing.T, r *rig) {
	r.on(func(w http.ResponseWriter, req *http.Request) {
		for i := range 2 {
			out := req.Clone(req.Context())
			out.Method, out.Host, out.URL.Path = "PUT", "other.example", "/other"
			out.Header.Set("X-Envoy-Upstream-Rq-Timeout-Ms", "1")
			out.Header.Set("X-Secret", "s")
			out.Header.Set("Connection", "x-hop")
			out.Header.Set("X-Hop", "1")
			out.Header.Set("X-Kept", "k")
			out.Body, out.ContentLength = io.NopCloser(strings.NewReader("b")), 1
			resp, err := Transport().RoundTrip(out)
			if err != nil {
				t.Error(err)
				return
			}
			b, _ := io.ReadAll(resp.Body)
			s := decodeSeen(t, b)
			if s.Method != "POST" || s.Path != "/route?q=1" || s.Host != "llm.example" || s.Header.Get("X-Kept") != "k" ||
				len(s.Header["X-Secret"])+len(s.Header["X-Envoy-Upstream-Rq-Timeout-Ms"]) > 0 {
				t.Errorf("segment %d: upstream saw %+v", i+1, s)
			}
			if i == 1 && (s.Header.Get("X-Hop") != "" || s.Header.Get(MarkerHeader) == "") {
				t.Errorf("loop: upstream saw %+v", s)
			}
		}
	}, echoSeen)
	rawRequest(t, r.addr("main"), "POST /route?q=1 HTTP/1.1\r\nHost: llm.example\r\nContent-Length: 2\r\nConnection: close\r\n\r\nab")
}
