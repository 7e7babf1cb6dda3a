package llm

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// Sequence answers the first request with the first step, and so on. A request beyond the last gets status 500, which
// a test sees as a failure of its own.
func Sequence(steps ...Step) Brain {
	return func(r *Request) Step {
		if r.Number > len(steps) {
			return Raw(http.StatusInternalServerError, nil, fmt.Sprintf(`{"error":{"message":"no step %d in this script"}}`, r.Number))
		}
		return steps[r.Number-1]
	}
}

// Always answers every request with one step.
func Always(step Step) Brain { return func(*Request) Step { return step } }

// Raw answers with exactly this status, these headers (application/json where none are given) and this body.
func Raw(status int, header http.Header, body string) Step {
	return func(w http.ResponseWriter, _ *Request) {
		w.Header().Set("Content-Type", "application/json")
		for name, values := range header {
			w.Header()[http.CanonicalHeaderKey(name)] = values
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		w.WriteHeader(status)
		w.Write([]byte(body))
	}
}

// Chunk is a piece of a streamed answer: these bytes in one write, after this delay.
type Chunk struct {
	After time.Duration
	Bytes string
}

// SSE answers with status 200, text/event-stream and exactly these chunks, each flushed on its own. The headers go out
// at once, before the first chunk's delay, as those of many providers do.
func SSE(chunks ...Chunk) Step {
	return func(w http.ResponseWriter, r *Request) {
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		w.WriteHeader(http.StatusOK)
		http.NewResponseController(w).Flush()
		send(w, r, chunks)
	}
}

// send reports whether all chunks went out before the caller left.
func send(w http.ResponseWriter, r *Request, chunks []Chunk) bool {
	flusher := http.NewResponseController(w)
	for _, chunk := range chunks {
		if !wait(r, chunk.After) {
			return false
		}
		if _, err := w.Write([]byte(chunk.Bytes)); err != nil {
			return false
		}
		flusher.Flush()
	}
	return true
}

func wait(r *Request, d time.Duration) bool {
	if d <= 0 {
		return r.ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-r.ctx.Done():
		return false
	}
}

// After waits before it plays step: a model that takes its time to the first byte.
func After(d time.Duration, step Step) Step {
	return func(w http.ResponseWriter, r *Request) {
		if wait(r, d) {
			step(w, r)
		}
	}
}

// Hang sends these chunks and then nothing more until the caller goes away. Without chunks not even the headers are sent.
func Hang(chunks ...Chunk) Step {
	return func(w http.ResponseWriter, r *Request) {
		if len(chunks) > 0 {
			w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
			w.WriteHeader(http.StatusOK)
			send(w, r, chunks)
		}
		<-r.ctx.Done()
	}
}

// Cut sends these chunks and then drops the connection without ending the body.
func Cut(chunks ...Chunk) Step {
	return func(w http.ResponseWriter, r *Request) {
		SSE(chunks...)(w, r)
		panic(http.ErrAbortHandler)
	}
}

// Gzip plays step and sends its body compressed, whatever the request accepts: some providers do.
func Gzip(step Step) Step {
	return func(w http.ResponseWriter, r *Request) {
		buffer := &bufferedResponse{header: http.Header{}, status: http.StatusOK}
		step(buffer, r)
		var packed bytes.Buffer
		writer := gzip.NewWriter(&packed)
		writer.Write(buffer.body.Bytes()) // a bytes.Buffer takes every write
		writer.Close()
		for name, values := range buffer.header {
			w.Header()[name] = values
		}
		w.Header().Set("Content-Encoding", "gzip")
		w.Header().Set("Content-Length", strconv.Itoa(packed.Len()))
		w.WriteHeader(buffer.status)
		w.Write(packed.Bytes())
	}
}

type bufferedResponse struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (b *bufferedResponse) Header() http.Header         { return b.header }
func (b *bufferedResponse) WriteHeader(status int)      { b.status = status }
func (b *bufferedResponse) Write(p []byte) (int, error) { return b.body.Write(p) }
func (b *bufferedResponse) Flush()                      {}
