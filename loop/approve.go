package loop

import (
	"context"
	"crypto/rand"
	"slices"
	"time"

	"github.com/mcp-via-llm/mcp-via-llm/sessions"
	"google.golang.org/protobuf/proto"
)

// decision is what the user's answer meant for the calls of a record that ask. It
// is made once, whatever else is answered in other branches of the conversation.
type decision struct {
	by       string // tells it from the decision of another request
	approved []int  // places of the calls that may run
	late     bool   // the answer came too late
}

// allows says whether the user has agreed to the call at a place.
func (d *decision) allows(place int) bool { return d != nil && slices.Contains(d.approved, place) }

// verdict is the user's answer in a request.
type verdict struct {
	approved []int // places of calls
	late     bool
	started  []int // places of the calls that run because of it: those of the first request that brings it
	declined []int // places of the calls that therefore do not
}

// given reads the user's answer to a question whose text is message q, if the
// request brings one: the next message is the user's, and nothing but further
// words of the user's follow. With those it is no consent: they may take it back. What stands further up in the history was answered
// long ago, or never.
func (t *turn) given(q int, r *record, openUntil time.Time) *verdict {
	at, ok := t.conv.answer(q)
	if !ok || !t.conv.last(q) {
		return nil
	}
	v := &verdict{}
	if t.conv.speaksOn(at) {
		return v
	}
	asking := r.asking()
	for _, n := range readAnswer(t.conv.messages[at].Text(), len(asking)).approved {
		v.approved = append(v.approved, asking[n])
	}
	if len(v.approved) > 0 && time.Now().After(openUntil) {
		v.approved, v.late = nil, true
	}
	return v
}

// decide makes the user's answer count, once, and starts the calls that it allows.
// It does nothing while another request does the same.
func (h *held) decide(ctx, calls context.Context, given *verdict) error {
	owner := rand.Text()
	got, err := h.s.store.Acquire(ctx, h.s.scope, leaseName(h.attempt, true), owner, leaseTTL)
	if err != nil || !got {
		return err
	}
	raw, err := encodeDecision(&decision{by: owner, approved: given.approved, late: given.late})
	if err == nil {
		raw, err = h.s.store.Settle(ctx, h.s.scope, turnKey(h.anchor), decisionField(h.attempt), raw, h.s.ttl)
	}
	if err == nil {
		h.decision, err = decodeDecision(raw)
	}
	if err == nil && h.decision.by == owner {
		given.declined = slices.DeleteFunc(h.asking(), h.decision.allows)
	}
	if err != nil || h.decision.by != owner || len(h.decision.approved) == 0 {
		h.release(ctx, owner, true)
		if err == nil && h.decision.by == owner {
			h.s.event(EventDenied)
		}
		return err
	}
	h.s.event(EventApproved)
	given.started = h.decision.approved
	h.start(calls, owner, true, h.decision.approved)
	return nil
}

func encodeDecision(d *decision) ([]byte, error) {
	out := &sessions.Decision{By: d.by, Late: d.late}
	for _, place := range d.approved {
		out.Approved = append(out.Approved, uint32(place))
	}
	return proto.Marshal(out)
}

func decodeDecision(raw []byte) (*decision, error) {
	in := &sessions.Decision{}
	err := proto.Unmarshal(raw, in)
	d := &decision{by: in.By, late: in.Late}
	for _, place := range in.Approved {
		d.approved = append(d.approved, int(place))
	}
	return d, err
}
