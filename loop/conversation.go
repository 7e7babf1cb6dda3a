package loop

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

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
	links    [][sha256.Size]byte // links[i] stands for the scope and messages 0 … i
	root     [sha256.Size]byte
}

func newConversation(scope string, messages []chat.Message) *conversation {
	c := &conversation{messages: messages, root: sha256.Sum256([]byte(scope))}
	last := c.root
	for _, m := range messages {
		if !m.System() {
			last = link(last, m)
		}
		c.links = append(c.links, last)
	}
	return c
}

func link(before [sha256.Size]byte, m chat.Message) [sha256.Size]byte {
	return sha256.Sum256(append(before[:], m.Canonical()...))
}

// anchor names the record of message i and all that was visible before it.
func (c *conversation) anchor(i int) string { return hex.EncodeToString(c.links[i][:]) }

// whole names the request as it stands.
func (c *conversation) whole() string {
	if len(c.links) == 0 {
		return hex.EncodeToString(c.root[:])
	}
	return c.anchor(len(c.links) - 1)
}

// next names the record of a reply to the request, as the client will see it.
func (c *conversation) next(reply chat.Message) string {
	last := c.root
	if len(c.links) > 0 {
		last = c.links[len(c.links)-1]
	}
	sum := link(last, reply)
	return hex.EncodeToString(sum[:])
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

// results gives the tool messages that directly follow message i.
func (c *conversation) results(i int) []chat.Message {
	end := i + 1
	for end < len(c.messages) && c.messages[end].Role == "tool" {
		end++
	}
	return c.messages[i+1 : end]
}

// endsInResult says whether the request ends with the result of a client call.
func (c *conversation) endsInResult() bool {
	return len(c.messages) > 0 && c.messages[len(c.messages)-1].Role == "tool"
}

// scopeID names whom a conversation is with. Nothing is ever found across scopes.
func scopeID(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d:%s", len(p), p)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}
