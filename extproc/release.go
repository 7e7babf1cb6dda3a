package extproc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strconv"
	"sync"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
)

// inlineLimit is how large a body of known length the round trip sends in its own
// goroutine: Envoy takes so much whatever the upstream does.
const inlineLimit = 256 << 10

// release lets the held request go, changed as the outbound request is. Until
// then nothing has happened, so a body that cannot be read leaves the route to
// the next round trip. What fails later comes through the channel.
func (x *exchange) release(r *http.Request) (<-chan error, error) {
	body := &outboundBody{r: r, declared: r.ContentLength}
	// A Read that waits must not outlast the round trip's context.
	body.stop = context.AfterFunc(r.Context(), func() { closeBody(r) })
	buf := chunkBuffers.Get().(*[chunkSize]byte)
	defer chunkBuffers.Put(buf)
	first, last, err := body.first(x.bare, buf[:])
	if err != nil {
		body.stop()
		return nil, causeOr(r.Context(), err)
	}
	err = x.ask(releaseInput{
		mut:     x.requestMutation(r, body.declared),
		body:    first,
		last:    last,
		trailer: x.trailerMutation(r, last),
	})
	if err != nil {
		body.stop()
		return nil, err
	}
	failed := make(chan error, 1)
	if last {
		body.stop()
		closeBody(r)
	} else if body.declared >= 0 && body.declared <= inlineLimit {
		x.sendBody(body, failed)
	} else {
		go x.sendBody(body, failed)
	}
	return failed, nil
}

// causeOr is why a round trip's context ended, or else err.
func causeOr(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

func (x *exchange) awaitResponse(r *http.Request, failed <-chan error) (*http.Response, error) {
	ctx := r.Context()
	select {
	case <-x.responded:
	case err := <-failed:
		err = causeOr(ctx, err)
		x.responsePipe.fail(err)
		return nil, err
	case <-ctx.Done():
		x.responsePipe.fail(context.Cause(ctx))
		return nil, context.Cause(ctx)
	case <-x.done:
		return nil, x.why
	}
	resp := x.response
	x.response = nil
	resp.Request = r
	resp.Body = newTripBody(ctx, &x.responsePipe)
	return resp, nil
}

// sendBody sends the rest of the outbound body, that of a large or an endless one
// in its own goroutine: as in net/http, the upstream may answer before it has read
// everything.
func (x *exchange) sendBody(body *outboundBody, failed chan<- error) {
	r := body.r
	defer body.stop()
	defer closeBody(r)
	defer func() {
		if p := recover(); p != nil {
			failed <- fmt.Errorf("extproc: reading the outbound body: panic: %v", p)
		}
	}()
	buf := chunkBuffers.Get().(*[chunkSize]byte)
	defer chunkBuffers.Put(buf)
	for {
		n, last, err := body.next(buf[:])
		if err == nil && (n > 0 || last) {
			err = x.ask(requestInput{body: buf[:n], last: last, trailer: x.trailerMutation(r, last)})
		}
		if err != nil {
			failed <- err
			return
		}
		if last {
			return
		}
	}
}

// chunkBuffers are for parts of outbound bodies on their way to Envoy. Nothing
// keeps one after the wish that carried it was granted: gRPC has encoded it.
var chunkBuffers = sync.Pool{New: func() any { return new([chunkSize]byte) }}

// outboundBody reads a round trip's body and holds it to its declared length.
type outboundBody struct {
	r        *http.Request
	declared int64 // -1: not known
	read     int64
	stop     func() bool
}

// first returns what the release can carry. Of a body of known length that is
// all of it, or the first chunk, so that a short body that breaks is never
// released; of an unknown length nothing, so that it streams at once. Where
// Envoy takes no body messages (bare: the client's request had no body), it
// must be all.
func (b *outboundBody) first(bare bool, buf []byte) (data []byte, last bool, err error) {
	if b.r.Body == nil || b.r.Body == http.NoBody {
		b.declared = 0
		return nil, true, nil
	}
	if bare {
		data, err = io.ReadAll(io.LimitReader(b.r.Body, collectLimit+1))
		if b.declared = -1; err == nil && len(data) > collectLimit {
			err = fmt.Errorf("extproc: a body of over %d bytes for a request that came without one", collectLimit)
		}
		return data, true, err
	}
	if b.declared <= 0 {
		b.declared = -1
		return nil, false, nil
	}
	data = buf[:min(b.declared+1, chunkSize)]
	n, err := io.ReadFull(b.r.Body, data)
	b.read = int64(n)
	switch {
	case err == nil && b.read <= b.declared:
		return data, false, nil
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		if b.read == b.declared {
			return data[:n], true, nil
		}
		return nil, false, b.mismatch()
	case err == nil:
		return nil, false, b.mismatch()
	}
	return nil, false, err
}

func (b *outboundBody) next(buf []byte) (n int, last bool, err error) {
	n, err = b.r.Body.Read(buf)
	b.read += int64(n)
	last = err == io.EOF
	if last {
		err = nil
	}
	if b.declared >= 0 && (b.read > b.declared || last && b.read < b.declared) {
		return 0, false, b.mismatch()
	}
	return n, last, err
}

func (b *outboundBody) mismatch() error {
	return fmt.Errorf("extproc: ContentLength=%d with a body of another length (%d or more read)", b.declared, b.read)
}

// requestMutation turns the client's request head into the outbound one's.
func (x *exchange) requestMutation(r *http.Request, length int64) *pb.HeaderMutation {
	to := maps.Clone(r.Header)
	if to == nil {
		to = http.Header{}
	}
	x.server.strip(to)
	delete(to, "Content-Length")
	switch {
	case length > 0, length == 0 && len(x.inbound["Content-Length"]) > 0:
		to["Content-Length"] = []string{strconv.FormatInt(length, 10)}
	}
	return diff(x.inbound, to, func(key string) bool { return protected(key) || key == "Expect" })
}

// trailerMutation says how the client's trailers go on: as they are, unless
// the outbound request has values of its own.
func (x *exchange) trailerMutation(r *http.Request, last bool) *pb.HeaderMutation {
	if !last || r.Trailer == nil {
		return nil
	}
	from := x.requestPipe.trailers()
	for _, values := range r.Trailer {
		if len(values) > 0 {
			return diff(from, r.Trailer, protected)
		}
	}
	if len(r.Trailer) == 0 {
		return diff(from, nil, protected)
	}
	return nil
}
