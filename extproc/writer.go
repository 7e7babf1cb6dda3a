package extproc

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
)

// writerBuffer is what a handler may write before the head goes out by itself;
// an answer that fits and is never flushed gets its content-length.
const writerBuffer = 32 << 10

// responseWriter is the handler's http.ResponseWriter and http.Flusher. Write
// and Flush send the bytes themselves, so a handler cannot run ahead of gRPC's
// flow control.
type responseWriter struct {
	x  *exchange
	mu sync.Mutex

	header  http.Header
	head    *answerHead // set by WriteHeader
	sent    bool        // the head has gone out
	buf     []byte
	written int64
	length  int64 // the declared Content-Length, or -1
	whole   bool  // as much as was declared was sent
	over    bool  // the handler has returned
}

func newResponseWriter(x *exchange) *responseWriter {
	return &responseWriter{x: x, header: http.Header{}, length: -1}
}

// Header implements http.ResponseWriter.
func (w *responseWriter) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter. Informational statuses cannot be
// sent through Envoy's filter and are ignored.
func (w *responseWriter) WriteHeader(status int) {
	if status < 100 || status > 999 {
		panic(fmt.Sprintf("extproc: invalid WriteHeader code %d", status))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writeHeader(status)
}

func (w *responseWriter) writeHeader(status int) {
	if w.head != nil || status < 200 || w.over {
		return
	}
	w.head = &answerHead{status: status, header: maps.Clone(w.header)}
	w.length = contentLength(w.head.header)
}

// Write implements http.ResponseWriter.
func (w *responseWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over {
		return 0, errFinished
	}
	w.writeHeader(http.StatusOK)
	switch {
	case w.bodyless():
		return 0, http.ErrBodyNotAllowed
	case w.length >= 0 && w.written+int64(len(p)) > w.length && w.x.method != http.MethodHead:
		return 0, http.ErrContentLength
	}
	w.written += int64(len(p))
	if w.x.method == http.MethodHead {
		return len(p), nil
	}
	// An answer that is whole goes out now, whatever the handler still does.
	if w.whole = w.written == w.length && len(w.head.header["Trailer"]) == 0; w.whole {
		return len(p), w.emit(answerInput{body: append(w.buf, p...), last: true})
	}
	if len(w.buf)+len(p) <= writerBuffer {
		w.buf = append(w.buf, p...)
		return len(p), nil
	}
	if err := w.flush(); err != nil {
		return 0, err
	}
	return len(p), w.emit(answerInput{body: p})
}

// Flush implements http.Flusher.
func (w *responseWriter) Flush() { _ = w.FlushError() }

// FlushError is what http.ResponseController uses.
func (w *responseWriter) FlushError() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over {
		return errFinished
	}
	w.writeHeader(http.StatusOK)
	return w.flush()
}

func (w *responseWriter) flush() error {
	if w.whole || w.sent && len(w.buf) == 0 {
		return nil
	}
	err := w.emit(answerInput{body: w.buf})
	w.buf = w.buf[:0]
	return err
}

func (w *responseWriter) emit(in answerInput) error {
	if w.sent {
		return w.x.answer(in)
	}
	w.sent = true
	in.head = w.head
	return w.x.begin(in)
}

// bodyless: RFC 9110, section 6.4.1.
func (w *responseWriter) bodyless() bool {
	return w.head.status == http.StatusNoContent || w.head.status == http.StatusNotModified
}

// finish ends the answer when the handler has returned.
func (w *responseWriter) finish() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writeHeader(http.StatusOK)
	if w.over = true; w.whole {
		return nil
	}
	bodyless := w.bodyless() || w.x.method == http.MethodHead
	switch {
	case !w.sent && !bodyless:
		w.head.header.Set("Content-Length", strconv.Itoa(len(w.buf)))
	case w.sent && !bodyless && w.length > w.written:
		w.x.finish(OutcomeAborted, errAborted)
		return errAborted
	}
	return w.emit(answerInput{body: w.buf, last: true, trailer: w.trailer()})
}

// trailer collects the fields that were announced in Trailer, and those with
// http.TrailerPrefix.
func (w *responseWriter) trailer() http.Header {
	trailer := http.Header{}
	for _, list := range w.head.header["Trailer"] {
		for name := range strings.SplitSeq(list, ",") {
			key := http.CanonicalHeaderKey(strings.TrimSpace(name))
			if values := w.header[key]; len(values) > 0 && !protected(key) {
				trailer[key] = values
			}
		}
	}
	for key, values := range w.header {
		if name, ok := strings.CutPrefix(key, http.TrailerPrefix); ok {
			trailer[http.CanonicalHeaderKey(name)] = values
		}
	}
	return trailer
}

// serve runs the handler in the calling goroutine and ends the answer. A panic
// stays inside: it is a 500 if nothing was sent, else the answer is cut, which
// the client can see.
func (x *exchange) serve(h http.Handler, r *http.Request) {
	defer x.stop(errFinished)
	w := newResponseWriter(x)
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		if p != http.ErrAbortHandler {
			x.log.ErrorContext(r.Context(), "handler panicked", "panic", p, "stack", string(debug.Stack()))
			x.server.observe(r.Context(), Event{Kind: EventPanic, Err: fmt.Errorf("panic: %v", p)})
		}
		w.fail(p != http.ErrAbortHandler)
	}()
	h.ServeHTTP(w, r)
	if err := w.finish(); err != nil && !errors.Is(err, errFinished) {
		x.log.DebugContext(r.Context(), "answer not finished", "error", err)
	}
}

// fail ends the answer of a handler that did not return.
func (w *responseWriter) fail(explain bool) {
	w.mu.Lock()
	w.over = true
	sent := w.sent
	w.mu.Unlock()
	if sent || !explain {
		w.x.finish(OutcomeAborted, errAborted)
		return
	}
	text := []byte(http.StatusText(http.StatusInternalServerError) + "\n")
	_ = w.x.begin(answerInput{
		head: &answerHead{status: http.StatusInternalServerError, header: http.Header{
			"Content-Type":   {"text/plain; charset=utf-8"},
			"Content-Length": {strconv.Itoa(len(text))},
		}},
		body: text,
		last: true,
	})
}
