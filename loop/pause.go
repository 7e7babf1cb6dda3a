package loop

import (
	"context"
	"crypto/rand"
	"net/http"
	"strings"
	"time"

	"github.com/mcp-via-llm/mcp-via-llm/chat"
	"github.com/mcp-via-llm/mcp-via-llm/sessions"
	"google.golang.org/protobuf/proto"
)

// pause is how a turn ends that needs the user before it can go on: what the
// client is shown after the model's words. The next request brings the answer.
type pause struct {
	anchor    string        // of the record that is behind the client's view of this turn
	text      string        // whether calls may run
	questions []elicitation // of MCP servers
}

func (p *pause) calls() (all []chat.Call) {
	for _, q := range p.questions {
		all = append(all, q.call())
	}
	return all
}

// seen is the message that the client sends back for a turn that pauses.
func (t *turn) seen(p *pause) chat.Message {
	return chat.Visible(chat.JoinText(t.text, p.text), p.calls())
}

// asks gives the places of the calls of a reply that run only when the user has
// agreed. Those whose arguments nobody could judge cannot run.
func (t *turn) asks(reply *chat.Reply) map[int]bool {
	asks := map[int]bool{}
	for i := range reply.Calls {
		c := &reply.Calls[i]
		if !t.tools.Has(c.Name) || c.Bad != "" || !t.tools.Approval(c.Name, c.Arguments) {
			continue
		}
		if _, ok := readable(c.Arguments); !ok {
			c.Bad = badUnshowable
			t.tools.Declined(t.r.Context(), c.Name, c.Arguments, DeclinedUnaskable)
			continue
		}
		asks[i] = true
	}
	return asks
}

// hold makes the record of a turn whose last reply has calls that outlive it.
func (t *turn) hold(reply *chat.Reply, asks map[int]bool) *held {
	r := &record{before: t.keepable(), message: []byte(reply.Message), results: map[int]Result{}, span: at(t.r.Context()), segment: t.segmentSpan}
	for i, c := range reply.Calls {
		call := heldCall{id: c.ID, name: c.Name, arguments: c.Arguments, hidden: t.hidden(c.Name)}
		if call.hidden {
			_, call.repeatable = t.tools.Hints(c.Name, c.Arguments)
			call.asks, call.target = asks[i], t.bound[i]
			if c.Bad != "" {
				r.results[i] = t.refuse(t.callContext(), &c, badArguments(&c))
			}
		}
		r.calls = append(r.calls, call)
	}
	return t.held("", r)
}

func (t *turn) held(anchor string, r *record) *held {
	return &held{record: r, s: t.session, anchor: anchor, run: t.runHeld}
}

// askFirst ends the turn with the question whether calls of its last reply may run;
// the other calls start at once. If the question cannot be kept, it is not put: the
// model is told so, and the turn goes on.
func (t *turn) askFirst(ctx context.Context, place int, reply *chat.Reply, asks map[int]bool) (ended bool, err error) {
	h := t.hold(reply, asks)
	p := t.question(h.record)
	h.anchor, h.visible = p.anchor, hashText(t.seen(p).Text())
	if t.journal.pause(ctx, place, p); !t.journal.isLost() {
		err = h.pend(ctx)
	}
	if err != nil || t.journal.isLost() {
		t.forgot(ctx, err)
		known := map[int]Result{}
		for i := range asks {
			known[i] = Result{Text: noticeUnaskable, Outcome: DeclinedUnaskable}
			t.tools.Declined(ctx, reply.Calls[i].Name, reply.Calls[i].Arguments, DeclinedUnaskable)
			t.journal.call(ctx, place, i, known[i])
		}
		return t.round(ctx, place, reply, known)
	}
	t.begun(h.record)
	t.tellAsked(ctx, h.record)
	return true, t.show(ctx, p)
}

// tellAsked tells the tools which calls the user is asked about.
func (t *turn) tellAsked(ctx context.Context, r *record) {
	for _, i := range r.asking() {
		t.tools.Asked(ctx, r.calls[i].name, r.calls[i].arguments)
	}
}

// question words the question about a record's calls, in the place of the turn's
// answer.
func (t *turn) question(r *record) *pause {
	var calls []heldCall
	for _, i := range r.asking() {
		calls = append(calls, r.calls[i])
	}
	p := &pause{text: questionText(calls, t.client.ApprovalTimeout)}
	p.anchor = t.conv.next(t.seen(p))
	r.openUntil = time.Now().Add(t.client.ApprovalTimeout)
	return p
}

// askLater ends a turn that brought the client's results for a record, with the
// question about the record's calls that ask.
func (t *turn) askLater(ctx context.Context, h *held) error {
	asking := &record{calls: h.calls}
	p := t.question(asking)
	t.rec.note(func(r *Report) { r.Asked = len(h.asking()) })
	t.tellAsked(ctx, h.record)
	return t.passOn(ctx, h, p, asking.openUntil)
}

// passOn ends a turn with a question about the calls of a record that an earlier
// turn has left.
func (t *turn) passOn(ctx context.Context, h *held, p *pause, openUntil time.Time) error {
	p.anchor = t.conv.next(t.seen(p))
	r := &record{about: h.anchor + "/" + h.attempt, openUntil: openUntil, visible: hashText(t.seen(p).Text()), attempt: rand.Text()}
	if err := t.session.keep(ctx, p.anchor, r); err != nil {
		return err
	}
	return t.show(ctx, p)
}

// show gives the client the end of a turn that pauses. The calls that run go on.
func (t *turn) show(ctx context.Context, p *pause) error {
	if t.calls != nil {
		t.untie()
	}
	calls := p.calls()
	defer t.sign(ctx, t.seen(p), p.anchor)
	if err := t.opened(); err != nil {
		return err
	}
	if p.text != "" {
		if err := t.say(p.text); err != nil {
			return err
		}
		return t.close(StopApproval, "stop")
	}
	t.rec.note(func(r *Report) { r.ClientCalls = len(calls) })
	t.whole.Give(calls)
	if t.req.Stream {
		if err := t.answer.event(t.relay.Give(calls)); err != nil {
			return err
		}
	}
	return t.close(StopClientCalls, "tool_calls")
}

// say puts text of the gateway's own after that of the model.
func (t *turn) say(text string) error {
	if !t.req.Stream {
		t.whole.Say(text)
		return nil
	}
	return t.answer.event(t.relay.Say(text))
}

// opened begins the client's answer, if the provider has not: a turn may pause
// before it asks the model anything.
func (t *turn) opened() error {
	t.status = max(t.status, http.StatusOK)
	first := len(t.rec.report.Segments) == 0
	if first {
		t.rec.usage = `{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}`
	}
	if t.req.Stream {
		t.answer.open(http.Header{})
		return t.showQueued()
	}
	if !first {
		return nil
	}
	_, err := t.whole.Add(t.completion(`{"role":"assistant","content":null}`, "stop", t.rec.usage))
	return err
}

// begun counts the calls of a record that this turn leaves.
func (t *turn) begun(r *record) {
	for _, c := range r.calls {
		if !c.asks {
			t.called(c.name, c.arguments)
		}
	}
	t.rec.note(func(report *Report) { report.Background, report.Asked = len(r.missing()), len(r.asking()) })
}

// called notes a call by the tool that it runs.
func (t *turn) called(name, arguments string) {
	if runs := t.tools.Runs(name, arguments); runs != "" {
		t.rec.called = append(t.rec.called, runs)
	}
}

func encodePause(segment int, p *pause) (sessions.Fields, error) {
	out := &sessions.Pause{Anchor: p.anchor, Text: strings.ToValidUTF8(p.text, "\ufffd")}
	for _, q := range p.questions {
		out.Questions = append(out.Questions, q.proto())
	}
	raw, err := proto.Marshal(out)
	return sessions.Fields{pauseField(segment): raw}, err
}

func decodePause(raw []byte) (*pause, error) {
	if raw == nil {
		return nil, nil
	}
	in := &sessions.Pause{}
	if err := proto.Unmarshal(raw, in); err != nil {
		return nil, err
	}
	p := &pause{anchor: in.Anchor, text: in.Text}
	for _, q := range in.Questions {
		p.questions = append(p.questions, readElicitation(q))
	}
	return p, nil
}
