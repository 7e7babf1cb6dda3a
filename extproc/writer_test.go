package extproc

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
)

// TestWriter shows what Envoy is sent for what a handler writes, for a request
// that is held and has no body.
func TestWriter(t *testing.T) {
	flush := func(w http.ResponseWriter) { w.(http.Flusher).Flush() }
	for _, test := range []struct {
		name   string
		method string
		write  func(t *testing.T, w http.ResponseWriter)
		want   []string
	}{
		{"nothing", "POST", func(*testing.T, http.ResponseWriter) {}, []string{`immediate 200 ""`}},
		{"short", "POST", func(_ *testing.T, w http.ResponseWriter) {
			w.Header().Set("Content-Type", "text/plain")
			w.WriteHeader(http.StatusEarlyHints) // cannot be sent
			w.WriteHeader(http.StatusTeapot)
			w.Header().Set("X-Late", "1")
			w.WriteHeader(http.StatusOK)
			_, _ = io.WriteString(w, "short")
			_, _ = io.WriteString(w, "er")
		}, []string{`immediate 418 content-type=text/plain "shorter"`}},
		{"flushed", "POST", func(_ *testing.T, w http.ResponseWriter) {
			w.Header()["X-Many"] = []string{"a", "b"}
			w.Header()["Set-Cookie"] = []string{"a", "b"}
			w.Header().Set("Connection", "close")
			flush(w)
			flush(w)
			_, _ = io.WriteString(w, "a")
			flush(w)
			_, _ = io.WriteString(w, "b")
		}, []string{"streamed head :status=200 set-cookie=b x-many=a, b", `streamed body "a"`, `streamed body "b" end`}},
		{"too long to wait", "POST", func(_ *testing.T, w http.ResponseWriter) {
			_, _ = io.WriteString(w, "a")
			_, _ = w.Write(make([]byte, writerBuffer))
		}, []string{"streamed head :status=200", `streamed body "a"`, "streamed body 31744 bytes", "streamed body 1024 bytes", `streamed body "" end`}},
		{"declared length", "POST", func(t *testing.T, w http.ResponseWriter) {
			w.Header().Set("Content-Length", "3")
			flush(w)
			if _, err := io.WriteString(w, "abcd"); !errors.Is(err, http.ErrContentLength) {
				t.Error(err)
			}
			_, _ = io.WriteString(w, "abc")
		}, []string{"streamed head :status=200 content-length=3", `streamed body "abc" end`}},
		{"no body allowed", "POST", func(t *testing.T, w http.ResponseWriter) {
			w.WriteHeader(http.StatusNoContent)
			if _, err := io.WriteString(w, "a"); !errors.Is(err, http.ErrBodyNotAllowed) {
				t.Error(err)
			}
		}, []string{`immediate 204 ""`}},
		{"HEAD", "HEAD", func(_ *testing.T, w http.ResponseWriter) { _, _ = io.WriteString(w, "abc") }, []string{`immediate 200 ""`}},
	} {
		t.Run(test.name, func(t *testing.T) {
			kept := make(chan http.ResponseWriter, 1)
			f := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				test.write(t, w)
				kept <- w
			})
			e := f.open(t)
			first := requestHeaders(ModeStatic, true)
			first.GetRequestHeaders().Headers.Headers[0].RawValue = []byte(test.method)
			e.send(first)
			e.want(test.want...)
			w := <-kept
			if _, err := w.Write([]byte("x")); err == nil || w.(interface{ FlushError() error }).FlushError() == nil {
				t.Error("a write after the handler's return")
			}
		})
	}
}

// TestCutAnswers: what cannot be finished properly is visibly broken.
func TestCutAnswers(t *testing.T) {
	for name, handler := range map[string]http.HandlerFunc{
		"shorter than declared": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "3")
			w.(http.Flusher).Flush()
		},
		"aborted":             func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"panic after a flush": func(w http.ResponseWriter, _ *http.Request) { w.(http.Flusher).Flush(); panic("boom") },
	} {
		t.Run(name, func(t *testing.T) {
			e := serve(t, handler).open(t)
			e.send(requestHeaders(ModeStatic, true))
			wantCode(t, e, codes.Aborted)
		})
	}
	e := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(1) }).open(t)
	e.send(requestHeaders(ModeStatic, true))
	e.want(`immediate 500 content-type=text/plain; charset=utf-8 "Internal Server Error\n"`)
}

// TestAnnouncedTrailers: both of net/http's ways to set trailers.
func TestAnnouncedTrailers(t *testing.T) {
	f := serve(t, func(w http.ResponseWriter, r *http.Request) {
		resp, err := Transport().RoundTrip(r)
		if err != nil {
			t.Error(err)
			return
		}
		if _, announced := resp.Trailer["Up"]; !announced || resp.Header.Get("Trailer") != "" {
			t.Error(resp.Trailer, resp.Header)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		w.Header().Set("Trailer", "A, B")
		_, _ = io.WriteString(w, "x")
		w.Header().Set("A", "1")
		w.Header().Set(http.TrailerPrefix+"C", "3")
	})
	e := f.open(t)
	e.send(requestHeaders(ModeStatic, true))
	e.want("request headers")
	e.send(responseHeaders(false, ":status", "200", "trailer", "Up"), responseBody("x", false), responseTrailers("up", "1"))
	e.want("response headers content-length=1", `response body "x"`, "response trailers a=1 c=3 -up")
}

// TestRequestFields: what the handler sees of Envoy's message.
func TestRequestFields(t *testing.T) {
	f := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method != "POST" || r.Host != "llm.example" || r.URL.Path != "/v1/x" || r.URL.RawQuery != "q=1" || r.RequestURI != "/v1/x?q=1" ||
			r.ContentLength != 7 || strings.Join(r.Header["X-M"], ",") != "a,b" || r.Header.Get("X-Raw") != "\xe9" || len(r.TransferEncoding) > 0 {
			t.Errorf("%+v", r)
		}
		if n, err := r.Body.Read(nil); n != 0 || err != nil {
			t.Error(n, err)
		}
	})
	e := f.open(t)
	e.send(requestHeaders(ModeStatic, false, "content-length", "7", "x-m", "a", "x-m", "b", "x-raw", "\xe9"), requestBody("content", true))
	e.want(`immediate 200 ""`)
	// A request that net/http could not express is passed.
	e = f.open(t)
	first := requestHeaders(ModeStatic, false)
	first.GetRequestHeaders().Headers.Headers[1].RawValue = []byte("no path")
	e.send(first)
	e.want("request headers")
}
