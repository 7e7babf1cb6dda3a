package loop

import (
	"context"

	"github.com/mcp-via-llm/mcp-via-llm/sessions"
)

// A client that sends only its last messages has cut off what its conversation is
// known by. It is recognised by two replies in a row whose turns it sends from
// their beginning: where each turn stands in its conversation is noted as it
// ends, and only what stands in one place counts. One such turn would not do:
// another conversation may begin with the same words.

const (
	anchorField    = "anchor"
	ambiguousField = "ambiguous"
)

func localKey(local string) string { return "l:" + local }

// find loads the records of the replies. If there are none it looks whether the
// request is the end of a longer conversation, and goes by that one's anchors. It lists
// the bag with that.
func (s *session) find(ctx context.Context, c *conversation, replies []int, bag string) (_ []sessions.Fields, members []string, _ error) {
	keys := turnKeys(c, replies)
	whole := wholeTurns(c, replies)
	if len(whole) == 2 {
		keys = append(keys, localKey(c.local(whole[0])), localKey(c.local(whole[1])))
	}
	found, members, err := s.store.LoadWith(ctx, s.scope, s.ttl, bag, keys...)
	if err == nil {
		members = append([]string{}, members...) // not nil
		err = complete(found, keys)
	}
	if err != nil || len(whole) < 2 {
		return found, members, err
	}
	first, second := uniqueAnchor(found[len(replies)]), uniqueAnchor(found[len(replies)+1])
	if found = found[:len(replies)]; !noneOf(found) || first == "" || first == c.anchor(whole[0]) {
		return found, members, nil
	}
	if err := c.rebase(whole[0], first); err != nil {
		return nil, nil, err
	}
	if c.anchor(whole[1]) != second { // they do not follow each other
		c.chain(0, c.root)
		return found, members, nil
	}
	found, err = s.load(ctx, turnKeys(c, replies)...)
	return found, members, err
}

func turnKeys(c *conversation, replies []int) []string {
	keys := make([]string, len(replies), len(replies)+2)
	for i, at := range replies {
		keys[i] = turnKey(c.anchor(at))
	}
	return keys
}

// wholeTurns gives the places of the first two replies in a row whose turns are in
// the request from their beginning.
func wholeTurns(c *conversation, replies []int) []int {
	for i := range len(replies) - 1 {
		if c.local(replies[i]) != "" {
			return replies[i : i+2]
		}
	}
	return nil
}

func noneOf(found []sessions.Fields) bool {
	for _, fields := range found {
		if fields != nil {
			return false
		}
	}
	return true
}

// sign notes where in its conversation a turn stands. Where the same turn stands
// in two places none is known by it.
func (s *session) sign(ctx context.Context, local, anchor string) {
	ctx, cancel := s.inTime(ctx)
	defer cancel()
	actual, err := s.store.Settle(ctx, s.scope, localKey(local), anchorField, []byte(anchor), s.ttl)
	if err == nil && string(actual) != anchor {
		err = s.store.Put(ctx, s.scope, localKey(local), sessions.Fields{ambiguousField: []byte("1")}, s.ttl)
	}
	if err != nil {
		s.log.DebugContext(ctx, "a turn will not be found in a history that is cut off", "err", err)
	}
}

// uniqueAnchor reads what sign has noted; "" if that is nothing or not unique.
func uniqueAnchor(fields sessions.Fields) string {
	if fields[ambiguousField] != nil {
		return ""
	}
	return string(fields[anchorField])
}
