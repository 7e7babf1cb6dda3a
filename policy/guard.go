package policy

import (
	"context"
	"encoding/json"
	"time"

	"go.opentelemetry.io/otel/trace"
)

// Decisions of the user, and what came in their place, as the audit log has them.
const (
	DecisionApproved  = "approved"
	DecisionDenied    = "denied"
	DecisionLate      = "late"      // approved when the question was open no more
	DecisionUnaskable = "unaskable" // the question could not be put
)

// Refusal is a call that was not made.
type Refusal struct {
	Outcome string // one of the Outcome constants
	Message string // for the model
	Reason  string // for the operator; nothing of the arguments is in it
}

// Call is a call that the model asks for.
type Call struct {
	Name      string          // injected, of what it runs; else as the model wrote it
	Tool      Tool            // that it runs; the zero value for a name that is nobody's
	Arguments json.RawMessage // that the server would get, or what the model wrote where that cannot be used
	// Unfit says that the call will be refused anyway, because there is no such tool
	// or the arguments do not fit it.
	Unfit bool
	// Approved says that the user has agreed to it.
	Approved bool
}

// Guard stands in front of the tools of one request. All fields save Observe must
// be set.
type Guard struct {
	Profile  *Profile
	Limits   *Limits
	Audit    *Audit
	Identity string // who sent the request
	Request  string // the request's id
	// Observe is told of calls that are not made, and how long they waited.
	Observe func(c Call, why *Refusal, waited time.Duration)
}

// Call has run make the call, if the rules and the limits let it. run gives the
// call's outcome. Without a refusal it ran. The frame is small, as it is held while the
// call runs.
func (g *Guard) Call(ctx context.Context, c *Call, run func(context.Context) (outcome string)) *Refusal {
	record := g.open(ctx, c)
	defer g.close(ctx, record)
	leave, refused := g.pass(ctx, c)
	if refused != nil {
		g.refuse(c, record, refused)
		return refused
	}
	defer leave()
	record.Outcome = run(ctx)
	return nil
}

//go:noinline // or its copies were in the frame of Call
func (g *Guard) open(ctx context.Context, c *Call) *Record {
	r := g.record(ctx, *c, time.Now())
	r.Outcome = outcomeFailed // should it panic
	return &r
}

//go:noinline // as open
func (g *Guard) refuse(c *Call, r *Record, why *Refusal) {
	r.Outcome, r.Reason = why.Outcome, why.Reason
	if g.Observe != nil {
		g.Observe(*c, why, time.Since(r.Time))
	}
}

func (g *Guard) close(ctx context.Context, r *Record) {
	r.Duration = time.Since(r.Time)
	g.Audit.Write(ctx, *r)
}

const outcomeFailed = "failed"

// Declined records a call that waited for the user and is not made; decision is one
// of the Decision constants.
func (g *Guard) Declined(ctx context.Context, c Call, decision string) {
	record := g.record(ctx, c, time.Now())
	record.Outcome, record.Decision = OutcomeDenied, decision
	if g.Observe != nil {
		g.Observe(c, &Refusal{Outcome: OutcomeDenied, Reason: "approve: " + decision}, 0)
	}
	g.Audit.Write(ctx, record)
}

// Asked records that the user is asked about a call.
func (g *Guard) Asked(ctx context.Context, c Call) {
	record := g.record(ctx, c, time.Now())
	record.Event, record.Outcome = EventQuestion, OutcomeAsked
	g.Audit.Write(ctx, record)
}

// Refused records a call that is not made, for a reason of no rule's: outcome says why.
func (g *Guard) Refused(ctx context.Context, c Call, outcome string) {
	record := g.record(ctx, c, time.Now())
	record.Outcome = outcome
	if g.Observe != nil {
		g.Observe(c, &Refusal{Outcome: outcome, Reason: outcome}, 0)
	}
	g.Audit.Write(ctx, record)
}

// pass lets a call begin; leave must follow when it has ended.
func (g *Guard) pass(ctx context.Context, c *Call) (leave func(), refused *Refusal) {
	if c.Unfit || c.Tool.Server == "" {
		return func() {}, nil
	}
	if refused := g.check(c); refused != nil {
		return nil, refused
	}
	if g.Profile.asks(c.Tool) && !c.Approved { // such as a call that began before the rule was there
		return nil, &Refusal{Outcome: OutcomeDenied, Reason: "approve", Message: "The call was not made: it needs the user's approval, and there is none."}
	}
	return g.Limits.Enter(ctx, c.Tool, g.Profile.Client+"/"+g.Identity)
}

// check is what the rules say of a call, whenever it is made.
func (g *Guard) check(c *Call) *Refusal {
	if !g.Profile.Keep(c.Tool) { // such a tool is not offered at all
		return &Refusal{Outcome: OutcomeDenied, Reason: "tools", Message: "The call was not made: this tool, or what it would read, is not allowed here."}
	}
	broken, reason := g.Profile.against(c.Tool, canonical(c.Arguments), g.Identity)
	if broken == nil {
		return nil
	}
	message := "The call was not made: a rule of the operator does not allow these arguments."
	if broken.Message != "" {
		message = "The call was not made: " + broken.Message
	}
	return &Refusal{Outcome: OutcomeDenied, Reason: reason, Message: message}
}

// Approval says whether the user must approve the call before it is made. Of a
// call that would be refused anyway nobody is asked.
func (g *Guard) Approval(c Call) bool {
	return !c.Unfit && c.Tool.Server != "" && g.Profile.asks(c.Tool) && g.check(&c) == nil
}

func (g *Guard) record(ctx context.Context, c Call, start time.Time) Record {
	r := Record{Time: start, Event: EventCall, Request: g.Request, Client: g.Profile.Client, Identity: g.Identity,
		Server: c.Tool.Server, Tool: c.Tool.Original, Name: c.Name, arguments: c.Arguments}
	if c.Approved {
		r.Decision, r.ApprovedBy = DecisionApproved, g.Identity
	}
	if span := trace.SpanContextFromContext(ctx); span.HasTraceID() {
		r.Trace = span.TraceID().String()
	}
	return r
}
