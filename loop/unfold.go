package loop

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/mcp-via-llm/mcp-via-llm/chat"
)

// recalled is a record in its conversation.
type recalled struct {
	*held
	at   int   // its visible message
	more []int // visible messages that ask about its calls
}

// recall gives the records of the conversation, in order, with the messages that
// ask about each. A question whose record is gone stays as the client has it.
func (t *turn) recall() (all []*recalled) {
	if len(t.records) == 0 {
		return nil
	}
	byAnchor := map[string]*recalled{}
	for _, at := range slices.Sorted(maps.Keys(t.records)) {
		r := t.records[at]
		if r.about == "" {
			k := &recalled{held: t.held(t.conv.anchor(at), r), at: at}
			byAnchor[k.anchor] = k
			all = append(all, k)
			continue
		}
		anchor, _, _ := strings.Cut(r.about, "/")
		if k := byAnchor[anchor]; k != nil {
			k.more = append(k.more, at)
		}
	}
	return all
}

// ends gives the last of the messages that the record is behind.
func (k *recalled) ends() int { return slices.Max(append([]int{k.at}, k.more...)) }

// question gives the message that asks the user about the record's calls; -1 if
// there is none. Of several the last one counts. One about the calls of a turn that
// another with the same words has taken the place of asks for nothing any more.
func (k *recalled) question(records map[int]*record) int {
	for _, at := range slices.Backward(append([]int{k.at}, k.more...)) {
		r := records[at]
		if !r.openUntil.IsZero() && (r.about == "" || r.about == k.anchor+"/"+k.attempt) {
			return at
		}
	}
	return -1
}

// unfold puts what the model has seen in the place of what the client sent. It
// waits for the calls of earlier turns that are still running, and makes the
// client's answers count. It ends the turn if the user must be asked first.
func (t *turn) unfold(ctx context.Context) (ended bool, err error) {
	all := t.recall()
	for _, k := range all {
		if ended, err := t.goOn(ctx, k); ended || err != nil {
			return ended, err
		}
	}
	var old [][]piece
	var fresh []piece
	for i, k := range all {
		u := unfolded{from: k.at, to: k.at + 1}
		var results []chat.Message
		for _, at := range t.conv.results(k.at) {
			results = append(results, t.conv.messages[at])
			if at == u.to {
				u.to++
			} else {
				u.moved = append(u.moved, at)
			}
		}
		pieces := k.unfold(results, t.newBlock())
		if i == len(all)-1 && (t.conv.brings(k.at) || len(k.calls) > 0 && t.conv.last(k.ends())) {
			fresh, u.fresh = pieces, true
			for i := range k.calls {
				t.rec.usage = chat.AddUsage(t.rec.usage, k.results[i].usage)
			}
		} else {
			old = append(old, pieces)
		}
		t.history = append(t.history, u)
	}
	trim(old, fresh, t.client.HistoryMaxBytes)
	if fresh != nil {
		old = append(old, fresh)
		t.linkBack(all[len(all)-1].record)
	}
	for i, k := range all {
		t.history[i].pieces = old[i]
		t.leaveOut(k)
	}
	t.asides = append(t.asides, t.notices...)
	t.rec.note(func(r *Report) { r.Recalled = len(all) })
	return false, nil
}

// goOn brings a record's calls to their end, as far as the request can.
func (t *turn) goOn(ctx context.Context, k *recalled) (ended bool, err error) {
	if k.buried {
		return false, nil
	}
	if err := t.settleQuestions(ctx, k); err != nil {
		return false, err
	}
	q := k.question(t.records)
	if q < 0 && k.undecided() && t.conv.brings(k.at) {
		return true, t.askLater(ctx, k.held)
	}
	var given *verdict
	if q >= 0 && k.undecided() {
		given = t.given(q, k.record, t.records[q].openUntil)
	}
	if len(k.missing()) == 0 && given == nil {
		return false, nil
	}
	if len(k.missing()) > 0 || len(given.approved) > 0 {
		t.ownSilence()
	}
	waiting, span := t.awaits(ctx, k.held)
	waited := t.rec.wait(WaitCalls)
	asked, err := k.await(waiting, t.callContext(), given)
	waited()
	t.endAwait(ctx, span, err)
	if given != nil {
		for _, i := range given.started {
			if c := k.calls[i]; !t.moved(c.name, c.arguments, c.target) {
				t.called(c.name, c.arguments)
			}
		}
		for _, i := range given.declined {
			why := DeclinedByUser
			if given.late {
				why = DeclinedLate
			}
			t.tools.Declined(ctx, k.calls[i].name, k.calls[i].arguments, why)
		}
	}
	if err != nil || len(asked) == 0 {
		return false, err
	}
	return true, t.passOn(ctx, k.held, &pause{questions: asked}, time.Time{})
}

// leaveOut takes what only served the asking out of the history: the questions,
// answers that say nothing but what became of the calls, and the application's
// answers to the questions of servers.
func (t *turn) leaveOut(k *recalled) {
	if n := k.ends(); t.conv.brings(n) && slices.ContainsFunc(t.conv.messages[n].CallIDs, isQuestion) {
		t.midway = true
	}
	for _, at := range k.more {
		t.asides = append(t.asides, chat.Replacement{From: at, To: at + 1})
		for _, at := range t.conv.results(at) {
			if isQuestion(t.conv.messages[at].CallID) {
				t.asides = append(t.asides, chat.Replacement{From: at, To: at + 1})
			}
		}
	}
	q := k.question(t.records)
	if q < 0 || k.decision == nil || k.decision.late {
		return
	}
	at, ok := t.conv.answer(q)
	if !ok {
		return
	}
	asking := k.asking()
	said := readAnswer(t.conv.messages[at].Text(), len(asking))
	var places []int
	for _, n := range said.approved {
		places = append(places, asking[n])
	}
	if said.bare && slices.Equal(places, k.decision.approved) && (len(places) > 0 || !t.conv.speaksOn(at)) {
		t.asides = append(t.asides, chat.Replacement{From: at, To: at + 1})
		t.midway = t.midway || at == len(t.conv.messages)-1
	}
}
