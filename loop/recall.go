package loop

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/mcp-via-llm/mcp-via-llm/chat"
	"github.com/mcp-via-llm/mcp-via-llm/sessions"
	"github.com/tidwall/sjson"
)

var storeAway = &chat.Error{Status: http.StatusServiceUnavailable, Type: "server_error", Code: "store_unavailable",
	Message: "The gateway cannot reach its session store, and this request may go on from tool calls that are kept there. Send it again in a moment."}

// openSession says whose memory a request has: the profile, the proven identity,
// and whom the application speaks for.
func (h *handler) openSession(c *Client, identity string, r *http.Request, req *chat.Request) *session {
	return &session{Memory: h.Memory, ttl: c.SessionTTL,
		scope: sessions.Scope{Client: c.Name + "/" + identity, ID: scopeID(c.Name, identity, req.User, r.Header.Get(HeaderSession))}}
}

// remember finds what the model has seen of the conversation and the client has
// not. Without a store a turn goes on with what the client sent, unless it brings
// results of calls or the user's answer to a question: those may belong to an
// earlier turn's calls.
func (t *turn) remember(ctx context.Context) error {
	t.conv = newConversation(t.session.scope.ID, t.req.Messages())
	request := t.conv.whole()
	if t.whole.Seed = request; t.relay != nil {
		t.relay.Seed = request
	}
	t.journal = newJournal(t.session, scopeID(request, t.req.Model, strconv.FormatBool(t.req.Stream)))
	ctx, cancel := t.session.inTime(ctx)
	defer cancel()
	records, attempts, err := t.session.recall(ctx, t.conv, t.journal.bag)
	t.records, t.journal.listed = records, attempts
	if err == nil {
		return nil
	}
	if t.r.Context().Err() != nil {
		return nil // the client is gone; the turn will notice
	}
	if (t.conv.endsInResult() || t.conv.answersQuestion()) && !t.h.Degrade {
		t.h.Log.ErrorContext(ctx, "the session store is away, a turn that brings results or an answer is refused", "err", err)
		return fmt.Errorf("%w: %w", sessions.ErrUnavailable, err)
	}
	t.h.Log.WarnContext(ctx, "the session store is away, a turn goes on without hidden history", "err", err)
	t.session.event(EventDegraded)
	t.records = nil
	return nil
}

// ownSilence begins the answer before the provider does: from here on the silence
// is ours, and keep-alives break it.
func (t *turn) ownSilence() {
	if !t.req.Stream {
		return
	}
	t.answer.open(http.Header{})
	if t.client.KeepaliveStyle == "chunk" {
		t.relay.Name()
		t.answer.setIdle(t.relay.Idle())
	}
}

// sign lets the turn be found in a history that its client has cut off. The client
// has its answer by then, and may be gone. The anchor is "" if nobody needed it yet.
func (t *turn) sign(ctx context.Context, seen chat.Message, anchor string) {
	sum := t.conv.sum(seen)
	local := t.conv.nextLocal(sum)
	if local == "" {
		return
	}
	if anchor == "" {
		anchor = t.conv.nextTo(sum)
	}
	t.session.sign(context.WithoutCancel(ctx), local, anchor)
}

// keep stores what the model saw in a turn that ends, and the client did not.
func (t *turn) keep(ctx context.Context, reply *chat.Reply, anchor string) {
	r := &record{before: t.keepable(), visible: hashText(t.text), message: reply.Only(func(c chat.Call) bool { return !t.hidden(c.Name) })}
	if err := t.session.keep(ctx, anchor, r); err != nil {
		t.forgot(ctx, err)
	}
}

// pend starts the hidden calls of a mixed turn in the background, and keeps what
// its resume needs. If that cannot be kept nothing is started: the model will
// ask again.
func (t *turn) pend(ctx context.Context, reply *chat.Reply, asks map[int]bool, anchor string) {
	h := t.hold(reply, asks)
	h.anchor, h.visible = anchor, hashText(t.text)
	if t.journal.isLost() { // sent again, this request would start them again
		t.session.event(EventDegraded)
		return
	}
	if err := h.pend(ctx); err != nil {
		t.forgot(ctx, err)
		return
	}
	t.begun(h.record)
}

func (t *turn) forgot(ctx context.Context, err error) {
	t.h.Log.WarnContext(ctx, "the session store is away, a turn leaves no hidden history", "err", err)
	t.session.event(EventDegraded)
}

// runHeld runs a hidden call of a record.
func (t *turn) runHeld(ctx context.Context, h *held, place int) Result {
	c := h.calls[place]
	entry := t.rec.call(CallReport{Name: cmp.Or(t.tools.Runs(c.name, c.arguments), c.name), Background: true})
	defer t.take()()
	t.rec.began(entry)
	if c.asks {
		ctx = withConsent(ctx)
	}
	call := chat.Call{ID: c.id, Name: c.name, Arguments: c.arguments}
	ctx, span := t.startCall(ctx, call, h.mixedTurn()...)
	result := t.runCall(h.askable(ctx, t, place), &call, c.target)
	t.endCall(span, result)
	t.rec.ended(entry, result, true)
	result.open = &openSpan{span, time.Now()}
	return result
}

// replay goes on from the journal of a broken attempt at the same request. It
// says whether that was all: the attempt may have broken when all that was left
// was to hand the client its calls.
func (t *turn) replay(ctx context.Context) (ended bool, err error) {
	err = t.journal.claim(ctx, func() (over func()) {
		t.ownSilence()
		return t.rec.wait(WaitAttempt)
	})
	if err != nil {
		if ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
		if t.journal.patient && !t.h.Degrade { // begun afresh, it might do again what the broken attempt has done
			return false, fmt.Errorf("%w: %w", sessions.ErrUnavailable, err)
		}
		t.h.Log.WarnContext(ctx, "the session store is away, a turn begins without looking for a broken attempt", "err", err)
	}
	for place, round := range t.journal.rounds {
		reply, err := t.showAgain(round)
		if err != nil {
			return false, err
		}
		t.text = chat.JoinText(t.text, reply.Text)
		t.rec.usage = chat.AddUsage(t.rec.usage, reply.Usage)
		t.rec.segment(SegmentReport{Replayed: true, Tools: len(reply.Calls), Finish: reply.Finish})
		t.bind(reply, &round)
		if own := t.own(reply.Calls); len(own) > 0 {
			return true, t.pendAgain(ctx, reply, round.asks, own)
		}
		asks := round.unanswered()
		if ended, err := t.pauseAgain(ctx, round); ended || err != nil {
			return ended, err
		}
		for i, call := range reply.Calls {
			if _, done := round.results[i]; !done && len(asks) == 0 {
				if _, repeatable := t.tools.Hints(call.Name, call.Arguments); !repeatable || t.moved(call.Name, call.Arguments, t.bound[i]) {
					round.results[i] = Result{Text: noticeUnknown, Outcome: "unknown"}
					t.journal.call(ctx, place, i, round.results[i])
				}
			}
		}
		if ended, err := t.step(ctx, place, reply, asks, round.results); ended || err != nil {
			return ended, err
		}
	}
	return false, nil
}

// bind holds the calls of a broken attempt to what they were of. Of those that
// would now reach another tool the user is not asked.
func (t *turn) bind(reply *chat.Reply, round *journalRound) {
	t.bound = t.targets(reply)
	for i, c := range reply.Calls {
		if i >= len(round.targets) || round.targets[i] == "" {
			continue // noted by a replica that knew no targets
		}
		if t.bound[i] = round.targets[i]; round.asks[i] && t.moved(c.Name, c.Arguments, t.bound[i]) {
			delete(round.asks, i)
			round.results[i] = Result{Text: noticeMoved, Outcome: "unknown_tool"}
		}
	}
}

// pendAgain ends a mixed turn whose answer the client never had. Its hidden calls
// are started only if the broken attempt did not come to that.
func (t *turn) pendAgain(ctx context.Context, reply *chat.Reply, asks map[int]bool, own []chat.Call) error {
	anchor := t.conv.next(chat.Visible(t.text, own))
	found, err := t.session.load(ctx, turnKey(anchor))
	if err != nil {
		return err
	}
	if found[0] == nil {
		t.pend(ctx, reply, asks, anchor)
	} else {
		t.begun(t.hold(reply, asks).record)
	}
	if err := t.opened(); err != nil {
		return err
	}
	return t.finish(reply, own, false)
}

// pauseAgain ends a turn with the question that the broken attempt was about to end
// with, if that one's record was kept. If not, nothing came of it.
func (t *turn) pauseAgain(ctx context.Context, round journalRound) (ended bool, err error) {
	if round.pause == nil || len(round.asks) > 0 && len(round.unanswered()) == 0 {
		return false, nil
	}
	found, err := t.session.load(ctx, turnKey(round.pause.anchor))
	if err != nil {
		return false, err
	}
	r, err := decodeRecord(found[0])
	if err != nil || r == nil {
		return false, err
	}
	t.begun(r)
	return true, t.show(ctx, round.pause)
}

// showAgain gives the client what a broken attempt had of a segment.
func (t *turn) showAgain(round journalRound) (*chat.Reply, error) {
	completion := t.completion(round.message, round.finish, round.usage)
	if !t.req.Stream {
		return t.whole.Add(completion)
	}
	t.relay.Begin()
	shown, err := t.relay.Chunk(chat.AsChunk(completion))
	if err != nil {
		return nil, err
	}
	if shown != "" {
		t.queued = append(t.queued, shown)
	}
	reply, last, err := t.relay.End()
	if last != "" {
		t.queued = append(t.queued, last)
	}
	return reply, err
}

// completion is one with a message that is not, or not now, the provider's. The
// stream has an id, a time and a model of its own.
func (t *turn) completion(message, finish, usage string) string {
	completion := chat.Replayed(message, finish, usage)
	if t.req.Stream {
		return completion
	}
	for name, value := range map[string]any{"id": "chatcmpl-" + rand.Text(), "created": time.Now().Unix(), "model": t.req.Model} {
		completion, _ = sjson.Set(completion, name, value) // the paths are constants
	}
	return completion
}

// showQueued sends what showAgain has kept until the answer begins.
func (t *turn) showQueued() error {
	for _, data := range t.queued {
		if err := t.answer.event(data); err != nil {
			return err
		}
	}
	t.queued = nil
	return nil
}
