package extproc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func wantCode(t *testing.T, e *fakeEnvoy, want codes.Code) {
	t.Helper()
	for {
		_, err := e.stream.Recv()
		if err == nil {
			continue
		}
		if err == io.EOF {
			err = nil
		}
		if got := status.Code(err); got != want {
			t.Errorf("the stream ended with %v (%v), want %v", got, err, want)
		}
		return
	}
}

func TestOverrideComesFirst(t *testing.T) {
	release := make(chan struct{})
	e := serve(t, func(w http.ResponseWriter, r *http.Request) {
		<-release
		copyHandler(w, r)
	}).open(t)
	e.send(requestHeaders(ModeOverride, false, "content-length", "5"))
	e.want("override") // although the handler does nothing
	close(release)
	e.send(requestBody("he", false), requestBody("llo", true))
	e.want("request headers", `request body "hello" end`)
	e.send(responseHeaders(false, ":status", "200", "content-length", "2", "date", "now"), responseBody("ok", false), responseBody("", true))
	e.want("response headers", `response body "ok" end`)
}

func TestPassed(t *testing.T) {
	f := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("the handler ran") })
	strip := []string{"x-match", "no", "x-secret", "s", "x-mcp-via-llm-hop", "a.b"}
	e := f.open(t)
	e.send(requestHeaders(ModeOverride, false, strip...))
	e.want("request headers -x-mcp-via-llm-hop -x-secret")

	e = f.open(t)
	e.send(requestHeaders(ModeStatic, false, strip...), requestBody("a", false), requestBody("b", true), requestBody("b", true))
	e.want("request headers -x-mcp-via-llm-hop -x-secret", `request body "a"`, `request body "b" end`)
	e.send(responseHeaders(false, ":status", "200"), responseBody("c", false), responseTrailers("x", "y"), responseTrailers("x", "y"))
	e.want("response headers", `response body "c"`, "response trailers")
	e.send(requestHeaders(ModeStatic, false))
	wantCode(t, e, codes.InvalidArgument)

	e = f.open(t)
	e.send(requestHeaders(ModeStatic, false, "x-match", "no"), requestTrailers("a", "b"), responseHeaders(true, ":status", "204"))
	e.want("request headers", "request trailers", "response headers")
	if f.events.find(EventPass) == nil || f.events.find(EventLateBody) == nil {
		t.Error("no events")
	}
}

func TestUnsupportedModePasses(t *testing.T) {
	f := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("the handler ran") })
	e := f.open(t)
	e.send(requestHeaders(ModeUnsupported, false), requestBody("all", true))
	e.want("request headers", "request body")
	if f.events.find(EventUnsupportedMode) == nil {
		t.Error("no event")
	}
	e = f.open(t)
	first := requestHeaders(ModeStatic, false)
	first.ProtocolConfig = nil
	e.send(first)
	e.want("request headers")
}

func TestFirstMessageMustBeHeaders(t *testing.T) {
	f := serve(t, copyHandler)
	e := f.open(t)
	e.send(requestBody("x", true))
	wantCode(t, e, codes.InvalidArgument)
	e = f.open(t)
	if err := e.stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	wantCode(t, e, codes.OK)
}

// TestDuplicateEnd: Envoy may deliver the last chunk twice
// (https://github.com/envoyproxy/envoy/issues/46237).
func TestDuplicateEnd(t *testing.T) {
	trips := 0
	f := serve(t, func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if string(b) != "ab" || err != nil {
			t.Error(string(b), err)
		}
		trips++
		copyHandler(w, r)
	})
	e := f.open(t)
	e.send(requestHeaders(ModeStatic, false), requestBody("a", false), requestBody("b", true), requestBody("b", true), requestTrailers("x", "y"))
	e.want("request headers", `request body "" end`)
	e.send(requestBody("b", true), responseHeaders(false, ":status", "200"), responseBody("", true), responseBody("late", true))
	e.want("response headers content-length=0", `response body "" end`)
	e.cancel()
	f.stop()
	if late := f.events.find(EventLateBody); trips != 1 || late == nil || late.Bytes != 1 {
		t.Errorf("%d trips, %+v", trips, late)
	}
}

func TestEnvoyAnswersWhileHeld(t *testing.T) {
	ended := make(chan error, 1)
	f := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, err := io.ReadAll(r.Body)
		ended <- err
		if _, err := Transport().RoundTrip(r); err == nil {
			t.Error("a round trip after the end")
		}
	})
	e := f.open(t)
	e.send(requestHeaders(ModeStatic, false), requestBody("a", false),
		responseHeaders(false, ":status", "504"), responseBody("timeout", true))
	e.want("response headers", `response body "timeout" end`)
	if err := <-ended; !errors.Is(err, ErrEnvoyAnswered) {
		t.Error(err)
	}
}

func TestUnexpectedMessage(t *testing.T) {
	f := serve(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	e := f.open(t)
	e.send(requestHeaders(ModeStatic, false), responseBody("x", true))
	wantCode(t, e, codes.InvalidArgument)
	var illegal *StepError
	if event := f.events.find(EventProtocol); event == nil || !errors.As(event.Err, &illegal) ||
		illegal.Phase != "held/none" || illegal.Input != "response_body" {
		t.Errorf("%+v", event)
	}
}

// TestContextOfRequests asserts that handler, log and events have the context that
// the options give.
func TestContextOfRequests(t *testing.T) {
	type key struct{}
	var logged, observed atomic.Value
	f := serve(t, func(w http.ResponseWriter, r *http.Request) { panic(r.Context().Value(key{})) }, func(o *Options) {
		o.Context = func(r *http.Request) context.Context {
			return context.WithValue(r.Context(), key{}, r.Header.Get("X-Request-Id"))
		}
		o.Log = slog.New(seeing{slog.DiscardHandler, func(ctx context.Context) { logged.Store(ctx.Value(key{})) }})
		o.Observe = func(ctx context.Context, e Event) {
			if e.Kind == EventPanic {
				observed.Store(fmt.Sprint(ctx.Value(key{}), e.Err))
			}
		}
	})
	e := f.open(t)
	e.send(requestHeaders(ModeStatic, true, "x-request-id", "r-1"))
	if _, err := e.stream.Recv(); err != nil { // its 500
		t.Fatal(err)
	}
	if logged.Load() != "r-1" || observed.Load() != "r-1panic: r-1" {
		t.Errorf("logged %v, observed %v", logged.Load(), observed.Load())
	}
}

// seeing is a log that shows its lines' contexts.
type seeing struct {
	slog.Handler
	see func(context.Context)
}

func (s seeing) Enabled(context.Context, slog.Level) bool { return true }

func (s seeing) Handle(ctx context.Context, _ slog.Record) error { s.see(ctx); return nil }

func TestPanicInMatch(t *testing.T) {
	f := serve(t, copyHandler, func(o *Options) { o.Match = func(*http.Request) bool { panic("match") } })
	e := f.open(t)
	e.send(requestHeaders(ModeStatic, false))
	wantCode(t, e, codes.Internal)
}

// TestPanicInObserve: what a panic of the handler's is told to may panic, too.
func TestPanicInObserve(t *testing.T) {
	f := serve(t, func(http.ResponseWriter, *http.Request) { panic("handler") }, func(o *Options) {
		o.Observe = func(_ context.Context, e Event) {
			if e.Kind == EventPanic && e.Err.Error() == "panic: handler" {
				panic("observe")
			}
		}
	})
	e := f.open(t)
	e.send(requestHeaders(ModeStatic, true))
	wantCode(t, e, codes.Internal)
}

func TestShutdownWaitsAndRefuses(t *testing.T) {
	started, release := make(chan struct{}), make(chan struct{})
	f := serve(t, func(w http.ResponseWriter, r *http.Request) {
		close(started)
		<-release
	})
	e := f.open(t)
	e.send(requestHeaders(ModeStatic, true))
	<-started // else it might be refused, too
	e2 := f.open(t)
	e2.send(requestHeaders(ModeStatic, false, "x-match", "no"))
	e2.want("request headers")
	e2.cancel()
	down := make(chan error)
	go func() { down <- f.Shutdown(context.Background()) }()
	<-f.draining
	e3 := f.open(t)
	wantCode(t, e3, codes.Unavailable)
	close(release)
	if err := <-down; err != nil {
		t.Error(err)
	}
	// The answered stream did not wait for its client.
	e.want(`immediate 200 ""`)
	wantCode(t, e, codes.OK)
	if f.events.find(EventRefused) == nil {
		t.Error("no event")
	}
}

// TestShutdownGrace: handlers get one second after their cancellation, no more.
// The gRPC server cuts the stream of one that does not heed it.
func TestShutdownGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		f := serve(t, func(w http.ResponseWriter, r *http.Request) {
			w.(http.Flusher).Flush()
			<-r.Context().Done()
			if context.Cause(r.Context()) != ErrDraining {
				t.Error(context.Cause(r.Context()))
			}
			_, _ = io.WriteString(w, "in band")
			w.(http.Flusher).Flush()
			<-release // stubborn
		})
		e := f.open(t)
		e.send(requestHeaders(ModeStatic, true))
		e.want("streamed head :status=200")
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if err := f.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if took := time.Since(start); took != 11*time.Second {
			t.Errorf("took %v", took)
		}
		e.want(`streamed body "in band"`)
		f.grpc.Stop()
		wantCode(t, e, codes.Unavailable)
		close(release)
		f.stop()
	})
}

// TestShutdownWithoutTheRequest: a client that has not sent its whole request hears of
// a shutdown, too.
func TestShutdownWithoutTheRequest(t *testing.T) {
	matched := make(chan struct{})
	f := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadAll(r.Body); !errors.Is(err, ErrDraining) {
			t.Error(err)
		}
		w.WriteHeader(http.StatusServiceUnavailable)
	}, func(o *Options) { o.Match = func(*http.Request) bool { close(matched); return true } })
	e := f.open(t)
	e.send(requestHeaders(ModeStatic, false, "content-length", "10"))
	e.send(requestBody("half", false))
	<-matched
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	down := make(chan error)
	go func() { down <- f.Shutdown(ctx) }()
	e.want(`immediate 503 ""`)
	if err := e.stream.CloseSend(); err != nil { // as Envoy does
		t.Error(err)
	}
	if err := <-down; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	wantCode(t, e, codes.OK)
}

func TestTransportOutsideAnExchange(t *testing.T) {
	r := httptest.NewRequest("POST", "/", strings.NewReader("x"))
	if _, err := Transport().RoundTrip(r); !errors.Is(err, errNoExchange) {
		t.Error(err)
	}
	if _, ok := InfoFrom(context.Background()); ok {
		t.Error("info from nowhere")
	}
}
