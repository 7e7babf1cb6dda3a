package extproc

import "time"

// EventKind names what happened; its text is fit for a metric's label.
type EventKind string

const (
	// EventExchange: a request of ours ended; Duration, Outcome and Err are set.
	EventExchange EventKind = "exchange"
	// EventPass: a request that is not ours was passed.
	EventPass EventKind = "pass"
	// EventLateBody: a body message came after the end of stream and was
	// ignored (Envoy may deliver the last chunk twice); Bytes is its size.
	EventLateBody EventKind = "late_body"
	// EventForgedMarker: a marker that does not verify was removed.
	EventForgedMarker EventKind = "forged_marker"
	// EventLooped: a request came back from the loop listener.
	EventLooped EventKind = "looped"
	// EventPanic: the handler panicked; Err says with what.
	EventPanic EventKind = "panic"
	// EventProtocol: Envoy sent what does not fit the phase; Err is a *StepError.
	EventProtocol EventKind = "protocol_error"
	// EventUnsupportedMode: the filter's processing mode is neither of the two
	// supported ones, so the request was passed.
	EventUnsupportedMode EventKind = "unsupported_mode"
	// EventRefused: a stream was refused while draining.
	EventRefused EventKind = "refused"
)

// Faults are the events that say that Envoy's side or ours is wrong.
var Faults = []EventKind{EventForgedMarker, EventLooped, EventPanic, EventProtocol, EventUnsupportedMode}

// Outcome is how an exchange ended.
type Outcome string

const (
	// OutcomeAnswered: the handler's whole answer was handed to Envoy.
	OutcomeAnswered Outcome = "answered"
	// OutcomeClientGone: Envoy ended the stream first: the client left, or the
	// upstream broke, or a time limit of Envoy's ran out.
	OutcomeClientGone Outcome = "client_gone"
	// OutcomeAborted: the answer was cut on purpose (panic, drain, protocol error).
	OutcomeAborted Outcome = "aborted"
	// OutcomeForeign: Envoy answered by itself while the request was held.
	OutcomeForeign Outcome = "envoy_answered"
)

// Event is one thing that an operator may want to count.
type Event struct {
	Kind     EventKind
	Mode     Mode
	Outcome  Outcome
	Duration time.Duration
	Bytes    int
	Err      error
}

// Mode is the filter configuration a stream was opened with.
type Mode string

const (
	// ModeOverride: the filter sends headers only; full duplex is switched on
	// per request (Envoy 1.40 and later).
	ModeOverride Mode = "override"
	// ModeStatic: the filter itself is FULL_DUPLEX_STREAMED.
	ModeStatic Mode = "static"
	// ModeUnsupported is any other.
	ModeUnsupported Mode = "unsupported"
)
