package loop

import (
	"encoding/json"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/mcp-via-llm/mcp-via-llm/chat"
)

// Why a turn ended, as the client and the operator read it.
const (
	StopAnswer        = "answer"
	StopClientCalls   = "client_tool_calls"
	StopMaxIterations = "max_iterations"
	StopTimeout       = "timeout"
	StopError         = "error"
	StopApproval      = "approval"  // the user is asked whether calls may run; the next request brings the answer
	StopCancelled     = "cancelled" // the client went away; nobody gets it but the operator
)

// StopReasons are all of them.
var StopReasons = []string{StopAnswer, StopClientCalls, StopMaxIterations, StopTimeout, StopError, StopApproval, StopCancelled}

// Report tells an operator what happened in a turn. It has names, times and
// counts, and nothing of what was said.
type Report struct {
	ID             string          `json:"id"` // the request's x-request-id
	TraceID        string          `json:"trace_id,omitempty"`
	Client         string          `json:"client"`
	Identity       string          `json:"identity"` // on whose behalf
	Model          string          `json:"model"`
	Stream         bool            `json:"stream"`
	Start          time.Time       `json:"start"`
	Duration       time.Duration   `json:"duration_ns"`
	FirstByte      time.Duration   `json:"first_byte_ns"`      // from the start to the first byte that the client got; 0 if none
	Silence        time.Duration   `json:"longest_silence_ns"` // of a streamed answer that had begun, keep-alives apart
	Status         int             `json:"status"`             // HTTP status that the client got; 0 if none
	Segments       []SegmentReport `json:"segments"`
	Calls          []CallReport    `json:"calls"`
	Waits          []WaitReport    `json:"waits,omitempty"`
	ClientCalls    int             `json:"client_calls"`
	Background     int             `json:"background_calls"` // MCP calls of a mixed turn that go on
	Asked          int             `json:"asked_calls"`      // MCP calls that the user is asked about
	Sampled        int             `json:"sampled"`          // requests of MCP servers to the model
	Injected       int             `json:"tools"`            // that the request got
	InjectedTokens int             `json:"tools_tokens"`     // an estimate of what they cost in each segment
	Omitted        int             `json:"tools_omitted"`    // for which there was no room
	Recalled       int             `json:"recalled"`         // messages in whose place the model got hidden history
	StopReason     string          `json:"stop_reason"`
	Error          string          `json:"error,omitempty"`
	Usage          json.RawMessage `json:"usage,omitempty"`
	Unavailable    []string        `json:"servers_unavailable,omitempty"`
}

// SegmentReport is one exchange with the model.
type SegmentReport struct {
	Offset    time.Duration `json:"offset_ns"`            // from the turn's start to the request
	First     time.Duration `json:"first_byte_ns"`        // from the request to the response's headers
	Chunk     time.Duration `json:"first_chunk_ns"`       // from the request to the first byte of a streamed response's body
	Duration  time.Duration `json:"duration_ns"`          // from the request to the end of the response
	Status    int           `json:"status"`               // HTTP status; 0 if there was no response
	Tools     int           `json:"tool_calls"`           // calls that the model made
	Finish    string        `json:"finish_reason"`        // as the provider sent it
	Model     string        `json:"model,omitempty"`      // as the provider names it
	Tokens    chat.Tokens   `json:"tokens"`               // as the provider counts them
	Bytes     int           `json:"request_bytes"`        // size of the request's body
	Error     string        `json:"error,omitempty"`      // why it broke off
	ErrorType string        `json:"error_type,omitempty"` // the same in one word, of few
	Replayed  bool          `json:"replayed,omitempty"`   // from the journal of a broken attempt
	Running   bool          `json:"running,omitempty"`    // it has not ended
}

// SegmentEvent tells of an exchange with the model that has ended.
type SegmentEvent struct {
	SegmentReport
	Requested string               // the model that the request names
	Provider  []attribute.KeyValue // as Options.Provider gives it
}

// CallReport is one MCP call.
type CallReport struct {
	Name     string        `json:"name"`
	Segment  int           `json:"segment"`   // the segment that asked for it, from 1
	Offset   time.Duration `json:"offset_ns"` // from the turn's start
	Waited   time.Duration `json:"waited_ns"` // before that, for other calls of the turn to end
	Duration time.Duration `json:"duration_ns"`
	Outcome  string        `json:"outcome"`
	Bytes    int           `json:"result_bytes"`

	Background bool `json:"background,omitempty"` // it goes on, or went on, when the turn has ended
	Running    bool `json:"running,omitempty"`    // it has not ended
}

// WaitReport is a time in which a turn waited for something that an earlier request
// had begun.
type WaitReport struct {
	For      string        `json:"for"`
	Offset   time.Duration `json:"offset_ns"` // from the turn's start
	Duration time.Duration `json:"duration_ns"`
	Running  bool          `json:"running,omitempty"` // it has not ended
}

// What a turn may wait for.
const (
	WaitCalls   = "background_calls" // MCP calls of an earlier turn
	WaitAttempt = "earlier_attempt"  // a broken attempt at the same request, or one that still runs
)

// LogValue is the turn as the attributes of one log line.
func (r *Report) LogValue() slog.Value {
	attrs := []slog.Attr{
		slog.String("id", r.ID), slog.String("client", r.Client), slog.String("identity", r.Identity), slog.String("model", r.Model), slog.Bool("stream", r.Stream),
		slog.Int("status", r.Status), slog.Float64("duration_ms", float64(r.Duration.Microseconds())/1000), slog.Int("segments", len(r.Segments)),
		slog.Int("mcp_calls", len(r.Calls)), slog.Int("client_calls", r.ClientCalls), slog.String("stop_reason", r.StopReason),
	}
	if r.Error != "" {
		attrs = append(attrs, slog.String("error", r.Error))
	}
	if len(r.Unavailable) > 0 {
		attrs = append(attrs, slog.Any("servers_unavailable", r.Unavailable))
	}
	if r.Omitted > 0 {
		attrs = append(attrs, slog.Int("tools_omitted", r.Omitted))
	}
	return slog.GroupValue(attrs...)
}
