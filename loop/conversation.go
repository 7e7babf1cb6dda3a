package loop

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"

	"github.com/mcp-via-llm/mcp-via-llm/chat"
)

// conversation is what a client sends of it, hashed message by message. A chat
// completions client sends everything it has seen with every request, so a piece
// of hidden history is found by what was visible when it came about, and by
// nothing else: branches, edits and parallel conversations need no bookkeeping.
//
// Instructions (system and developer messages) do not count: they may change
// with every turn.
type conversation struct {
	messages []chat.Message
	sums     []sum // of the messages
	links    []sum // links[i] stands for the scope and messages 0 … i
	root     sum
	buf      []byte
}

// sum is a hash; that of an instruction is zero, as none counts.
type sum [sha256.Size]byte

func newConversation(scope string, messages []chat.Message) *conversation {
	all := make([]sum, 2*len(messages))
	c := &conversation{messages: messages, root: sha256.Sum256([]byte(scope)), sums: all[:len(messages)], links: all[len(messages):]}
	longest := 0
	for _, m := range messages {
		longest = max(longest, len(m.Raw))
	}
	c.buf = make([]byte, 0, longest)
	for i, m := range messages {
		c.sums[i] = c.sum(m)
	}
	c.chain(0, c.root)
	return c
}

func (c *conversation) sum(m chat.Message) sum {
	if m.System() {
		return sum{}
	}
	c.buf = m.AppendCanonical(c.buf[:0])
	return sha256.Sum256(c.buf)
}

// chain computes the links of messages from place i on.
func (c *conversation) chain(i int, last sum) {
	for ; i < len(c.messages); i++ {
		last = link(last, c.sums[i])
		c.links[i] = last
	}
}

func link(before, message sum) sum {
	if message == (sum{}) {
		return before
	}
	var both [2 * sha256.Size]byte
	copy(both[copy(both[:], before[:]):], message[:])
	return sha256.Sum256(both[:])
}

// local names message i by the turn alone that it ended: the messages from the
// user's on. A client that has cut off older messages is recognised by it. It is
// "" if the turn's beginning was cut off too.
func (c *conversation) local(i int) string { return c.turnEnding(i, c.sums[i]) }

// nextLocal is local for a reply to the request.
func (c *conversation) nextLocal(reply sum) string {
	return c.turnEnding(len(c.messages), reply)
}

// turnEnding names the turn that ends in last, before which the client has sent
// its first n messages.
func (c *conversation) turnEnding(n int, last sum) string {
	for begin := n - 1; begin >= 0; begin-- {
		if c.messages[begin].Role != "user" {
			continue
		}
		var room [2 * sha256.Size]byte
		all := sum(sha256.Sum256(append(append(room[:0], c.root[:]...), "one turn"...)))
		for _, s := range c.sums[begin:n] {
			all = link(all, s)
		}
		all = link(all, last)
		return inHex(all[:])
	}
	return ""
}

// rebase takes message i for the one with the given anchor in a longer
// conversation, of which the client has cut off the beginning.
func (c *conversation) rebase(i int, anchor string) error {
	raw, err := hex.DecodeString(anchor)
	if err != nil || len(raw) != sha256.Size {
		return fmt.Errorf("not an anchor: %q", anchor)
	}
	c.links[i] = sum(raw)
	c.chain(i+1, c.links[i])
	return nil
}

// anchor names the record of message i and all that was visible before it.
func (c *conversation) anchor(i int) string { return inHex(c.links[i][:]) }

// whole names the request as it stands.
func (c *conversation) whole() string {
	if len(c.links) == 0 {
		return inHex(c.root[:])
	}
	return c.anchor(len(c.links) - 1)
}

// next names the record of a reply to the request, as the client will see it.
func (c *conversation) next(reply chat.Message) string { return c.nextTo(c.sum(reply)) }

// nextTo is next for the sum of the reply.
func (c *conversation) nextTo(reply sum) string {
	last := c.root
	if len(c.links) > 0 {
		last = c.links[len(c.links)-1]
	}
	all := link(last, reply)
	return inHex(all[:])
}

// replies gives the places of the assistant's messages.
func (c *conversation) replies() (at []int) {
	for i, m := range c.messages {
		if m.Role == "assistant" {
			at = append(at, i)
		}
	}
	return at
}

// results gives the places of what the client sends as results of the calls in message
// i: the tool messages that directly follow it, and those further down that answer one
// of the calls. A user who speaks while the application is at work, or a note of the
// application's, may come between.
func (c *conversation) results(i int) (at []int) {
	next := i + 1
	for ; next < len(c.messages) && c.messages[next].Role == "tool"; next++ {
		at = append(at, next)
	}
	open := slices.Clone(c.messages[i].CallIDs)
	for ; next < len(c.messages) && len(open) > 0; next++ {
		switch m := c.messages[next]; {
		case m.Role == "tool" && slices.Contains(open, m.CallID):
			at = append(at, next)
		case len(m.CallIDs) > 0: // some models count their calls afresh in every message
			open = slices.DeleteFunc(open, func(id string) bool { return slices.Contains(m.CallIDs, id) })
		}
	}
	return at
}

// brings says whether the request ends with a result of message i's calls.
func (c *conversation) brings(i int) bool {
	return slices.Contains(c.results(i), len(c.messages)-1)
}

// answer gives the place of the user's message that follows message i, instructions
// aside, if that is what follows.
func (c *conversation) answer(i int) (at int, ok bool) {
	for at = i + 1; at < len(c.messages); at++ {
		if m := c.messages[at]; !m.System() {
			return at, m.Role == "user"
		}
	}
	return 0, false
}

// last says whether nothing but words of the user's and instructions follow message
// i and the results that it brought.
func (c *conversation) last(i int) bool {
	results := c.results(i)
	for at := i + 1; at < len(c.messages); at++ {
		if m := c.messages[at]; m.Role != "user" && !m.System() && !slices.Contains(results, at) {
			return false
		}
	}
	return true
}

// speaksOn says whether the user's message at is followed by another one of theirs.
func (c *conversation) speaksOn(at int) bool {
	_, ok := c.answer(at)
	return ok
}

// answersQuestion says whether the request seems to bring the user's answer to a
// question of the gateway's.
func (c *conversation) answersQuestion() bool {
	replies := c.replies()
	if len(replies) == 0 {
		return false
	}
	q := replies[len(replies)-1]
	_, ok := c.answer(q)
	return ok && questionTag.MatchString(c.messages[q].Text())
}

// endsInResult says whether the request ends with the result of a client call.
func (c *conversation) endsInResult() bool {
	return len(c.messages) > 0 && c.messages[len(c.messages)-1].Role == "tool"
}

// scopeID names whom a conversation is with. Nothing is ever found across scopes.
func scopeID(parts ...string) string {
	var room [256]byte
	b := room[:0]
	for _, p := range parts {
		b = append(append(strconv.AppendInt(b, int64(len(p)), 10), ':'), p...)
	}
	sum := sha256.Sum256(b)
	return inHex(sum[:16])
}

// inHex is hex.EncodeToString of at most a sum, without a copy.
func inHex(b []byte) string {
	var out [2 * sha256.Size]byte
	return string(out[:hex.Encode(out[:], b)])
}
