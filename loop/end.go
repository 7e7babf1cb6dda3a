package loop

import (
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/mcp-via-llm/mcp-via-llm/chat"
)

var errCrashed = errors.New("the gateway failed")

// crashed closes the report of a turn that panicked: its client gets a 500, or an
// answer that breaks off.
func (t *turn) crashed() {
	if !t.rec.Ended() {
		t.failure = "internal_error"
		t.end(StopError, http.StatusInternalServerError, errCrashed)
	}
}

// end closes the report, and tells of it.
func (t *turn) end(stop string, status int, err error) {
	t.ends(stop, status, err)
	t.tell()
}

// tell tells of the turn that has ended.
func (t *turn) tell() {
	t.tellSegment()
	t.h.OnTurn(t.r.Context(), &t.rec.report)
}

// tokens reads a usage object; that of a turn's only segment is the turn's, too.
func (t *turn) tokens(usage string) chat.Tokens {
	if usage != t.counted {
		t.counted, t.count = usage, chat.ReadTokens(usage)
	}
	return t.count
}

// ends closes the report.
func (t *turn) ends(stop string, status int, err error) {
	t.rec.note(func(r *Report) {
		r.Duration, r.Status, r.StopReason = time.Since(t.start), status, stop
		r.Sampled = int(t.sampled.Load())
		r.FirstByte, r.Silence = t.answer.times(t.start)
		if r.FirstByte == 0 && status != 0 {
			r.FirstByte = r.Duration // it came whole, at the end
		}
		if t.rec.usage != "" {
			r.Usage = json.RawMessage(t.rec.usage)
		}
		if err != nil {
			r.Error = err.Error()
		}
	})
	t.endTurn(err)
	t.over()
}
