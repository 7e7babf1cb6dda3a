package policy

import (
	"context"
	"encoding/json"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/log"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
)

// What records are of.
const (
	EventCall     = "mcp_call"     // a call that a model asked for
	EventQuestion = "mcp_question" // the user is asked whether such a call may run
)

// OutcomeAsked is that of a question: who answers it decides what becomes of the call,
// and of one that nobody answers there is no other record.
const OutcomeAsked = "asked"

// Record is one line of the audit log: who called what, on whose behalf, and what
// came of it. It has nothing of any result.
type Record struct {
	Time     time.Time     // when the call was asked for
	Event    string        // one of the Event constants
	Request  string        // the request's id
	Trace    string        // of OpenTelemetry; "" if there is none
	Client   string        // the profile
	Identity string        // who sent the request
	Server   string        // "" if no tool has the name
	Tool     string        // the server's own name
	Name     string        // that the model used
	Outcome  string        // of the call
	Reason   string        // why it was not made
	Decision string        // of the user, if one was needed
	Duration time.Duration // with the time that the call waited for others

	ApprovedBy string // who agreed for the user

	arguments json.RawMessage
}

// line is the form of a record in the file.
type line struct {
	Time       string          `json:"time"`
	Event      string          `json:"event"`
	Request    string          `json:"request_id"`
	Trace      string          `json:"trace_id,omitempty"`
	Client     string          `json:"client"`
	Identity   string          `json:"identity"`
	Server     string          `json:"server"`
	Tool       string          `json:"tool"`
	Name       string          `json:"name"`
	Digest     string          `json:"arguments_sha256"`
	Arguments  json.RawMessage `json:"arguments,omitempty"`
	Outcome    string          `json:"outcome"`
	Reason     string          `json:"reason,omitempty"`
	Decision   string          `json:"decision,omitempty"`
	ApprovedBy string          `json:"approved_by,omitempty"`
	Duration   float64         `json:"duration_ms"`
}

// line gives the record as JSON with a line's end; with the arguments if full.
func (r Record) line(digest string, full bool) []byte {
	out := line{
		Time: r.Time.UTC().Format(time.RFC3339Nano), Event: r.Event, Request: r.Request, Trace: r.Trace, Client: r.Client, Identity: r.Identity,
		Server: r.Server, Tool: r.Tool, Name: r.Name, Digest: digest, Outcome: r.Outcome, Reason: r.Reason, Decision: r.Decision, ApprovedBy: r.ApprovedBy,
		Duration: float64(r.Duration.Microseconds()) / 1000,
	}
	if full {
		out.Arguments = r.written()
	}
	b, err := json.Marshal(out)
	if err != nil {
		panic(err) // texts, a number, and JSON that is valid
	}
	return append(b, '\n')
}

// written is the arguments as JSON: as a text, where they are none.
func (r Record) written() json.RawMessage {
	if json.Valid(r.arguments) {
		return r.arguments
	}
	text, err := json.Marshal(string(r.arguments))
	if err != nil {
		panic(err) // a string always encodes
	}
	return text
}

// emit gives the record to OpenTelemetry. The trace is that of ctx. Names are those
// of its conventions for generative AI, where they have any.
func (r Record) emit(ctx context.Context, to log.Logger, digest string, full bool) {
	var out log.Record
	out.SetTimestamp(r.Time)
	out.SetObservedTimestamp(r.Time.Add(r.Duration))
	out.SetEventName("mcp_via_llm.audit." + r.Event)
	out.SetSeverity(log.SeverityInfo)
	out.SetSeverityText("INFO")
	out.SetBody(attribute.StringValue(r.Event + " " + r.Name + " " + r.Outcome))
	attrs := []attribute.KeyValue{
		semconv.GenAIOperationNameExecuteTool,
		attribute.String("mcp_via_llm.request_id", r.Request),
		attribute.String("mcp_via_llm.client", r.Client),
		attribute.String("mcp_via_llm.identity", r.Identity),
		attribute.String("mcp_via_llm.server", r.Server),
		attribute.String("mcp_via_llm.tool", r.Tool),
		semconv.GenAIToolName(r.Name),
		attribute.String("mcp_via_llm.arguments.sha256", digest),
		attribute.String("mcp_via_llm.outcome", r.Outcome),
		attribute.Float64("mcp_via_llm.duration_ms", float64(r.Duration.Microseconds())/1000),
	}
	for key, value := range map[string]string{"reason": r.Reason, "decision": r.Decision, "approved_by": r.ApprovedBy} {
		if value != "" {
			attrs = append(attrs, attribute.String("mcp_via_llm."+key, value))
		}
	}
	if full {
		attrs = append(attrs, semconv.GenAIToolCallArgumentsKey.String(string(r.arguments)))
	}
	out.AddAttributes(attrs...)
	to.Emit(ctx, out)
}
