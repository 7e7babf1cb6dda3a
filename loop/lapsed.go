package loop

import (
	"slices"

	"github.com/mcp-via-llm/mcp-via-llm/chat"
)

// What the model is told where the request answers a question that is not known.
const (
	noticeLapsed       = "[The question whether tools may run has expired, so this answer runs nothing. Call the tools again if they are still needed; the user is then asked again.]"
	noticeLapsedElicit = "Error: the answer reached nobody, because this question and the tool call behind it have expired. The outcome of that call is unknown. Find out before you call the tool again."
)

// lapsed gives the replacements by which the model learns that the request answers
// a question that has expired: it would take what the user says for consent, or for
// an answer that the tool has got. In later requests the answer stands as the
// client has it: whether the question had expired by then cannot be told.
func (t *turn) lapsed() (notices []chat.Replacement) {
	replies := t.conv.replies()
	if t.records == nil || len(replies) == 0 {
		return nil // without the store, nothing is known of any question
	}
	q := replies[len(replies)-1]
	for _, k := range t.recall() {
		if k.at == q || slices.Contains(k.more, q) {
			return nil
		}
	}
	if !t.conv.last(q) {
		return nil
	}
	for _, at := range t.conv.results(q) {
		if m := t.conv.messages[at]; isQuestion(m.CallID) && slices.Contains(t.conv.messages[q].CallIDs, m.CallID) {
			notices = append(notices, chat.Replacement{From: at, To: at + 1, With: [][]byte{chat.ToolMessage(m.CallID, noticeLapsedElicit)}})
		}
	}
	if t.conv.answersQuestion() {
		at := len(t.conv.messages) - 1
		for t.conv.messages[at].System() {
			at--
		}
		notices = append(notices, chat.Replacement{From: at, To: at + 1, With: [][]byte{t.conv.messages[at].With(noticeLapsed)}})
	}
	if len(notices) > 0 {
		t.session.event(EventExpired)
	}
	return notices
}
