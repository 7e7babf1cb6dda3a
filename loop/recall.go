package loop

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/mcp-via-llm/mcp-via-llm/chat"
	"github.com/mcp-via-llm/mcp-via-llm/sessions"
	"github.com/tidwall/sjson"
)

var storeAway = &chat.Error{Status: http.StatusServiceUnavailable, Type: "server_error", Code: "store_unavailable",
	Message: "The gateway cannot reach its session store, and this request may go on from tool calls that are kept there. Send it again in a moment."}

// openSession says whose memory a request has: the profile, the proven identity,
// and whom the application speaks for.
func (h *handler) openSession(c *Client, r *http.Request, req *chat.Request) *session {
	identity := h.Identity(r)
	return &session{Memory: h.Memory, ttl: c.SessionTTL,
		scope: sessions.Scope{Client: c.Name + "/" + identity, ID: scopeID(c.Name, identity, req.User, r.Header.Get(HeaderSession))}}
}

// remember finds what the model has seen of the conversation and the client has
// not. Without a store a turn goes on with what the client sent, unless it brings
// results of calls: those may belong to a mixed turn.
func (t *turn) remember(ctx context.Context) *chat.Error {
	t.conv = newConversation(t.session.scope.ID, t.req.Messages())
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	records, err := t.session.recall(ctx, t.conv)
	t.records = records
	if err == nil {
		return nil
	}
	if t.r.Context().Err() != nil {
		return nil // the client is gone; the turn will notice
	}
	if t.conv.endsInResult() && !t.h.Degrade {
		t.h.Log.Error("the session store is away, a turn that brings results is refused", "err", err)
		return storeAway
	}
	t.h.Log.Warn("the session store is away, a turn goes on without hidden history", "err", err)
	t.session.event(EventDegraded)
	t.records = nil
	return nil
}

// unfold puts what the model has seen in the place of what the client sent. It
// waits for the calls of mixed turns that are still running.
func (t *turn) unfold(ctx context.Context) error {
	places := slices.Sorted(maps.Keys(t.records))
	for _, at := range places {
		r := t.records[at]
		if len(r.missing()) == 0 || r.buried {
			continue
		}
		t.ownSilence()
		if err := t.session.await(ctx, t.conv.anchor(at), r, t.runHeld); err != nil {
			return err
		}
	}
	var pieces [][]piece
	for _, at := range places {
		results := t.conv.results(at)
		pieces = append(pieces, t.records[at].unfold(results))
		t.replaced = append(t.replaced, chat.Replacement{From: at, To: at + 1 + len(results)})
	}
	old, fresh := pieces, []piece(nil)
	if n := len(places); n > 0 && t.conv.brings(places[n-1]) {
		old, fresh = pieces[:n-1], pieces[n-1]
	}
	trim(old, fresh, t.client.HistoryMaxBytes)
	for i, all := range pieces {
		for _, p := range all {
			t.replaced[i].With = append(t.replaced[i].With, p.raw)
		}
	}
	t.rec.report.Recalled = len(places)
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

// sign lets the turn be found in a history that its client has cut off. That is
// done while the end of the answer goes out; wait for it before the turn is over.
func (t *turn) sign(ctx context.Context, seen chat.Message, anchor string) (wait func()) {
	local := t.conv.nextLocal(seen)
	if local == "" {
		return func() {}
	}
	var wg sync.WaitGroup
	wg.Go(func() { t.session.sign(ctx, local, anchor) })
	return wg.Wait
}

// keep stores what the model saw in a turn that ends, if that is more than the
// client sees.
func (t *turn) keep(ctx context.Context, reply *chat.Reply, anchor string) {
	if len(t.added) == 0 {
		return
	}
	r := &record{before: t.added, visible: hashText(t.text), message: reply.Only(func(c chat.Call) bool { return !t.hidden(c.Name) })}
	if err := t.session.keep(ctx, anchor, r); err != nil {
		t.forgot(err)
	}
}

// pend starts the hidden calls of a mixed turn in the background, and keeps what
// its resume needs. If that cannot be kept nothing is started: the model will
// ask again.
func (t *turn) pend(ctx context.Context, reply *chat.Reply, anchor string) {
	r := &record{before: t.added, visible: hashText(t.text), message: []byte(reply.Message), results: map[int]Result{}}
	var names []string
	for i, c := range reply.Calls {
		held := heldCall{id: c.ID, name: c.Name, arguments: c.Arguments, hidden: t.hidden(c.Name)}
		if held.hidden {
			_, held.repeatable = t.tools.Hints(c.Name, c.Arguments)
			if t.tools.Has(c.Name) {
				names = append(names, c.Name)
			}
			if c.Bad != "" {
				r.results[i] = badArguments(c)
			}
		}
		r.calls = append(r.calls, held)
	}
	if t.journal.isLost() { // sent again, this request would start them again
		t.session.event(EventDegraded)
		return
	}
	if err := t.session.pend(ctx, anchor, r, t.runHeld); err != nil {
		t.forgot(err)
		return
	}
	t.rec.called = append(t.rec.called, names...)
	t.rec.report.Background = len(r.missing())
}

func (t *turn) forgot(err error) {
	t.h.Log.Warn("the session store is away, a turn leaves no hidden history", "err", err)
	t.session.event(EventDegraded)
}

// runHeld runs a hidden call of a mixed turn.
func (t *turn) runHeld(ctx context.Context, c heldCall) Result {
	defer t.take()()
	return t.runCall(ctx, chat.Call{ID: c.id, Name: c.name, Arguments: c.arguments})
}

// replay goes on from the journal of a broken attempt at the same request. It
// says whether that was all: the attempt may have broken when all that was left
// was to hand the client its calls.
func (t *turn) replay(ctx context.Context) (ended bool, err error) {
	t.journal.waits = t.ownSilence
	if err := t.journal.claim(ctx); err != nil {
		if ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
		if t.journal.patient && !t.h.Degrade { // begun afresh, it might do again what the broken attempt has done
			return false, fmt.Errorf("%w: %w", sessions.ErrUnavailable, err)
		}
		t.h.Log.Warn("the session store is away, a turn begins without looking for a broken attempt", "err", err)
	}
	for place, round := range t.journal.rounds {
		reply, err := t.showAgain(round)
		if err != nil {
			return false, err
		}
		t.text = chat.JoinText(t.text, reply.Text)
		t.rec.usage = chat.AddUsage(t.rec.usage, reply.Usage)
		t.rec.report.Segments = append(t.rec.report.Segments, SegmentReport{Replayed: true, Tools: len(reply.Calls), Finish: reply.Finish})
		if own := t.own(reply.Calls); len(own) > 0 {
			return true, t.pendAgain(ctx, reply, own)
		}
		for i, call := range reply.Calls {
			if _, done := round.results[i]; !done {
				if _, repeatable := t.tools.Hints(call.Name, call.Arguments); !repeatable {
					round.results[i] = Result{Text: noticeUnknown, Outcome: "unknown"}
					t.journal.call(ctx, place, i, round.results[i])
				}
			}
		}
		if err := t.round(ctx, place, reply, round.results); err != nil {
			return false, err
		}
	}
	return false, nil
}

// pendAgain ends a mixed turn whose answer the client never had. Its hidden calls
// are started only if the broken attempt did not come to that.
func (t *turn) pendAgain(ctx context.Context, reply *chat.Reply, own []chat.Call) error {
	anchor := t.conv.next(chat.Visible(t.text, own))
	found, err := t.session.load(ctx, turnKey(anchor))
	if err != nil {
		return err
	}
	if found[0] == nil {
		t.pend(ctx, reply, anchor)
	} else {
		for _, c := range reply.Calls {
			if t.tools.Has(c.Name) {
				t.rec.called = append(t.rec.called, c.Name)
			}
		}
	}
	if t.req.Stream {
		t.answer.open(http.Header{})
		if err := t.showQueued(); err != nil {
			return err
		}
	}
	t.status = http.StatusOK
	return t.finish(reply, own, false)
}

// showAgain gives the client what a broken attempt had of a segment.
func (t *turn) showAgain(round journalRound) (*chat.Reply, error) {
	completion := chat.Replayed(round.message, round.finish, round.usage)
	if !t.req.Stream {
		for name, value := range map[string]any{"id": "chatcmpl-" + rand.Text(), "created": time.Now().Unix(), "model": t.req.Model} {
			completion, _ = sjson.Set(completion, name, value) // the journal has none, and a client wants them
		}
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
