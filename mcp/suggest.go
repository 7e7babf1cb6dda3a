package mcp

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

const maxSuggestions = 3

// Suggest returns up to three names of MCP tools of this request, nearest first.
func (b *Binding) Suggest(name string) []string {
	type near struct {
		name     string
		distance int
	}
	all := make([]near, len(b.entries))
	for i, e := range b.entries {
		all[i] = near{e.Name, distance(name, e.Name)}
	}
	slices.SortFunc(all, func(x, y near) int {
		return cmp.Or(cmp.Compare(x.distance, y.distance), strings.Compare(x.name, y.name))
	})
	var names []string
	for _, n := range all[:min(len(all), maxSuggestions)] {
		names = append(names, n.name)
	}
	return names
}

func (b *Binding) unknown(name string) Result {
	text := fmt.Sprintf("There is no function %q.", cutText(strings.ToValidUTF8(name, "\uFFFD"), maxName))
	if near := b.Suggest(name); len(near) > 0 {
		text += " The nearest names are: " + strings.Join(near, ", ") + "."
	}
	return failure(OutcomeUnknownTool, text)
}

// distance is the Levenshtein distance in bytes; what is over maxName of a does
// not count, as no name is longer.
func distance(a, b string) int {
	a = cutText(a, maxName)
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
