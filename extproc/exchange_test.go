package extproc

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
)

// TestClientLeaves: in every phase the end of the stream ends the request's
// context and whatever the handler waits in.
func TestClientLeaves(t *testing.T) {
	for name, wait := range map[string]func(http.ResponseWriter, *http.Request) error{
		"in its context": func(_ http.ResponseWriter, r *http.Request) error {
			<-r.Context().Done()
			return context.Cause(r.Context())
		},
		"in the request body": func(_ http.ResponseWriter, r *http.Request) error {
			_, err := io.ReadAll(r.Body)
			return err
		},
		"in the round trip": func(_ http.ResponseWriter, r *http.Request) error {
			_, err := Transport().RoundTrip(r)
			return err
		},
		"in the round trip of a known length": func(_ http.ResponseWriter, r *http.Request) error {
			r.ContentLength = 100
			_, err := Transport().RoundTrip(r)
			return err
		},
		"in Write": func(w http.ResponseWriter, _ *http.Request) error {
			for {
				if _, err := w.Write(make([]byte, 100<<10)); err != nil {
					return err
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			started, got := make(chan struct{}), make(chan error, 1)
			f := serve(t, func(w http.ResponseWriter, r *http.Request) {
				close(started)
				got <- wait(w, r)
			})
			e := f.open(t)
			e.send(requestHeaders(ModeStatic, false), requestBody("part", false))
			<-started
			e.cancel()
			if err := <-got; !errors.Is(err, ErrClientGone) {
				t.Error(err)
			}
		})
	}
}

// TestRequestBackPressure: a handler that does not read stops Envoy, bounded,
// and still notices that the client left.
func TestRequestBackPressure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var read atomic.Int64
		goOn, ended := make(chan struct{}), make(chan error, 1)
		f := serve(t, func(_ http.ResponseWriter, r *http.Request) {
			<-goOn
			n, _ := io.CopyN(io.Discard, r.Body, 3<<20)
			read.Add(n)
			<-r.Context().Done()
			ended <- context.Cause(r.Context())
		})
		e := f.open(t)
		e.send(requestHeaders(ModeStatic, false))
		var sent atomic.Int64
		chunk := strings.Repeat("x", 64<<10)
		go func() {
			for e.stream.Send(requestBody(chunk, false)) == nil {
				sent.Add(int64(len(chunk)))
			}
		}()
		synctest.Wait()
		first := sent.Load()
		if first < pipeLimit || first > 1<<20 {
			t.Errorf("%d bytes were taken from a handler that reads none", first)
		}
		close(goOn)
		synctest.Wait()
		if second := sent.Load(); read.Load() != 3<<20 || second < 3<<20 || second > 4<<20 {
			t.Errorf("%d bytes read, %d taken", read.Load(), second)
		}
		e.cancel()
		if err := <-ended; !errors.Is(err, ErrClientGone) {
			t.Error(err)
		}
		f.stop()
	})
}

// TestAnswerBackPressure: Write waits while gRPC cannot send.
func TestAnswerBackPressure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var written atomic.Int64
		f := serve(t, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			w.(http.Flusher).Flush()
			for range 100 {
				n, err := w.Write(make([]byte, 100<<10))
				if err != nil {
					t.Error(err)
				}
				written.Add(int64(n))
			}
		})
		e := f.open(t)
		e.send(requestHeaders(ModeStatic, true))
		synctest.Wait()
		if n := written.Load(); n > 1<<20 {
			t.Errorf("%d bytes were written to a client that reads none", n)
		}
		total := 0
		for {
			msg, err := e.stream.Recv()
			if err != nil {
				t.Fatal(err)
			}
			b := msg.GetStreamedImmediateResponse().GetBodyResponse()
			total += len(b.GetBody())
			if len(b.GetBody()) > chunkSize {
				t.Errorf("a message of %d bytes", len(b.GetBody()))
			}
			if b.GetEndOfStream() {
				break
			}
		}
		if total != 100*100<<10 {
			t.Errorf("%d bytes came", total)
		}
		e.cancel()
		f.stop()
	})
}

// TestAnswerWaitsForTheRequest: a streamed answer to a request that the client
// still sends is kept, bounded, until its end.
func TestAnswerWaitsForTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var written atomic.Int64
		f := serve(t, func(w http.ResponseWriter, r *http.Request) {
			for range 50 {
				n, _ := w.Write(make([]byte, 100<<10))
				written.Add(int64(n))
			}
			if _, err := r.Body.Read(make([]byte, 1)); !errors.Is(err, http.ErrBodyReadAfterClose) {
				t.Error(err)
			}
		})
		e := f.open(t)
		e.send(requestHeaders(ModeStatic, false))
		for range 40 { // the handler reads none of it, and it must not stay in the way
			e.send(requestBody(strings.Repeat("x", 64<<10), false))
		}
		synctest.Wait()
		if n := written.Load(); n > 2*collectLimit {
			t.Errorf("%d bytes were kept", n)
		}
		e.send(requestBody("", true))
		e.want("streamed head :status=200")
		total := 0
		for total < 50*100<<10 {
			msg, err := e.stream.Recv()
			if err != nil {
				t.Fatal(err)
			}
			total += len(msg.GetStreamedImmediateResponse().GetBodyResponse().GetBody())
		}
		e.cancel()
		f.stop()
	})
}

// TestAnswerTooLargeToKeep: what Envoy would only take whole is bounded.
func TestAnswerTooLargeToKeep(t *testing.T) {
	f := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if _, err := Transport().RoundTrip(r); err != nil {
			t.Error(err)
		}
		var err error
		for n := 0; err == nil && n <= wholeLimit; n += 1 << 20 {
			_, err = w.Write(make([]byte, 1<<20))
		}
		if !errors.Is(err, errTooLarge) {
			t.Error(err)
		}
	})
	e := f.open(t)
	e.send(requestHeaders(ModeStatic, true))
	e.want("request headers")
	e.send(responseHeaders(true, ":status", "200"))
	wantCode(t, e, codes.Aborted)
}

// TestUnreadRequestDoesNotBlockTheResponse: once the outbound body is out, the
// rest of the inbound one is dropped.
func TestUnreadRequestDoesNotBlockTheResponse(t *testing.T) {
	f := serve(t, func(w http.ResponseWriter, r *http.Request) {
		out := r.Clone(r.Context())
		out.Body, out.ContentLength = io.NopCloser(strings.NewReader("own")), 3
		resp, err := Transport().RoundTrip(out)
		if err != nil {
			t.Error(err)
			return
		}
		copyResponse(w, resp)
	})
	e := f.open(t)
	e.send(requestHeaders(ModeStatic, false))
	for range 40 {
		e.send(requestBody(strings.Repeat("x", 64<<10), false))
	}
	e.want("request headers content-length=3", `request body "own" end`)
	e.send(responseHeaders(false, ":status", "200", "content-length", "2"), responseBody("ok", true))
	e.want("response headers", `response body "ok" end`)
}

// TestResponseClosedEarly: the rest of the upstream's answer is dropped and
// stands in nobody's way.
func TestResponseClosedEarly(t *testing.T) {
	allSent := make(chan struct{})
	f := serve(t, func(w http.ResponseWriter, r *http.Request) {
		resp, err := Transport().RoundTrip(r)
		if err != nil {
			t.Error(err)
			return
		}
		_ = resp.Body.Close()
		if _, err := resp.Body.Read(make([]byte, 1)); !errors.Is(err, http.ErrBodyReadAfterClose) {
			t.Error(err)
		}
		<-allSent
		_, _ = io.WriteString(w, "own")
	})
	e := f.open(t)
	e.send(requestHeaders(ModeStatic, true))
	e.want("request headers")
	e.send(responseHeaders(false, ":status", "200", "x-up", "1"))
	for range 40 {
		e.send(responseBody(strings.Repeat("x", 64<<10), false))
	}
	close(allSent)
	e.want("response headers content-length=3 -x-up", `response body "own" end`)
}

// TestSegmentTimeout: the context of a round trip ends its response body too.
func TestSegmentTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := serve(t, func(w http.ResponseWriter, r *http.Request) {
			ctx, cancel := context.WithTimeout(r.Context(), time.Minute)
			defer cancel()
			resp, err := Transport().RoundTrip(r.WithContext(ctx))
			if err != nil {
				t.Error(err)
				return
			}
			if _, err := io.ReadAll(resp.Body); !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
			http.Error(w, "timeout", http.StatusGatewayTimeout)
		})
		e := f.open(t)
		e.send(requestHeaders(ModeStatic, true))
		e.want("request headers")
		e.send(responseHeaders(false, ":status", "200"), responseBody("half", false))
		e.want("response headers :status=504 content-length=8 content-type=text/plain; charset=utf-8 x-content-type-options=nosniff",
			`response body "timeout\n" end`)
		e.cancel()
		f.stop()
	})
}
