package loop

import (
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/mcp-via-llm/mcp-via-llm/chat"
	"github.com/mcp-via-llm/mcp-via-llm/sse"
)

// answer is the stream that the client gets. It begins with the first event or
// keep-alive; until then an error can still have a status of its own.
type answer struct {
	w     http.ResponseWriter
	limit int64

	mu      sync.Mutex
	opened  bool // the provider has begun to answer, so keep-alives may go out
	begun   bool // the status line is out
	written int64
	last    time.Time
	idle    string        // keep-alive chunk; "" for a comment
	note    string        // what the comment tells besides
	first   time.Time     // when the client got its first byte
	news    time.Time     // when it last got an event, or the answer began
	silence time.Duration // the longest time between two such
	buf     []byte
	err     error
}

// open takes the headers of the provider's response for the client's, if nothing
// was sent yet, and lets keep-alives go out from now on.
func (a *answer) open(h http.Header) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.begun {
		return
	}
	if !a.opened {
		a.opened, a.last = true, time.Now()
	}
	copyHeader(a.w.Header(), h)
	for _, name := range chat.BodyHeaders {
		a.w.Header().Del(name)
	}
	a.w.Header().Set("Content-Type", "text/event-stream")
}

// event sends one event. It fails with errTooLarge once the turn's answer has
// passed its limit.
func (a *answer) event(data string) error {
	if data == "" {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.written+int64(len(data)) > a.limit {
		return errTooLarge
	}
	return a.tell(data)
}

// final sends an event whatever the limit: an error, or the end.
func (a *answer) final(data string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.tell(data)
}

// tell writes an event, which ends a silence. It needs mu.
func (a *answer) tell(data string) error {
	err := a.write(sse.Append(a.buf[:0], []byte(data)))
	if !a.news.IsZero() {
		a.silence = max(a.silence, a.last.Sub(a.news))
	}
	a.news = a.last
	return err
}

// times gives how long after start the client got its first byte, and the longest
// time in which it got nothing new since; both 0 for an answer that is no stream.
func (a *answer) times(start time.Time) (first, silence time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.first.IsZero() {
		return 0, 0
	}
	return a.first.Sub(start), a.silence
}

// write needs mu.
func (a *answer) write(b []byte) error {
	if a.err != nil {
		return a.err
	}
	if !a.begun {
		a.begun = true
		a.w.WriteHeader(http.StatusOK)
	}
	a.buf = b
	a.written += int64(len(b))
	a.last = time.Now()
	if a.first.IsZero() {
		a.first, a.news = a.last, a.last
	}
	if _, a.err = a.w.Write(b); a.err == nil {
		http.NewResponseController(a.w).Flush() //nolint:errcheck // a writer that cannot flush buffers
	}
	return a.err
}

// seize ends the keep-alives: what comes now ends the answer. It says whether
// anything was sent.
func (a *answer) seize() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.opened = false
	return a.begun
}

// setIdle gives the chunk that breaks a silence, for clients that choke on comments.
func (a *answer) setIdle(chunk string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.idle = chunk
}

// setNote gives what keep-alive comments tell of the work at hand; one line.
func (a *answer) setNote(note string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.note = note
}

// keepAlive breaks every silence of the given length, once the answer is open,
// until it is stopped.
func (a *answer) keepAlive(every time.Duration) (stop func()) {
	return repeat(every, func() time.Duration { return a.keepAliveAt(time.Now(), every) })
}

// keepAliveAt writes a keep-alive if one is due, and says when to look again.
func (a *answer) keepAliveAt(now time.Time, every time.Duration) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.opened {
		return every
	}
	if wait := every - now.Sub(a.last); wait > 0 {
		return wait
	}
	switch {
	case a.idle != "":
		a.write(sse.Append(a.buf[:0], []byte(a.idle))) //nolint:errcheck // kept in a.err
	case a.note != "":
		a.write(append(a.buf[:0], strings.TrimSuffix(sse.Comment, "\n")+" "+a.note+"\n"...)) //nolint:errcheck // kept in a.err
	default:
		a.write(append(a.buf[:0], sse.Comment...)) //nolint:errcheck // kept in a.err
	}
	return every
}
