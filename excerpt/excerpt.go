// Package excerpt shortens texts for a model: to so many bytes, in whole runes.
package excerpt

import (
	"fmt"
	"unicode/utf8"
)

// Least is the lowest limit: below it there is no room for a notice.
const Least = 100

// Of bounds a text to limit bytes, and to no fewer than [Least]. Beginning and end stay,
// with a notice in between: the end of an output often holds its outcome.
func Of(text string, limit int) string {
	if limit = max(limit, Least); len(text) <= limit {
		return text
	}
	notice := func(cut int) string { return fmt.Sprintf("\n[... %d bytes left out ...]\n", cut) }
	room := limit - len(notice(len(text)))
	head := Head(text, room*3/4)
	tail := text[len(text)-(room-len(head)):]
	for tail != "" && !utf8.RuneStart(tail[0]) {
		tail = tail[1:]
	}
	return head + notice(len(text)-len(head)-len(tail)) + tail
}

// Head is the longest beginning of a text of at most limit bytes that does not
// end within a rune.
func Head(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit]
}
