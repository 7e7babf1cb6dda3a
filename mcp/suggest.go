package mcp

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/mcp-via-llm/mcp-via-llm/spelling"

	"github.com/mcp-via-llm/mcp-via-llm/excerpt"
)

const maxSuggestions = 3

// Suggest returns up to three names of functions of [Binding.Has] that the model
// may have meant, nearest first; none if no name is near.
func (b *Binding) Suggest(name string) []string {
	type near struct {
		name     string
		distance int
	}
	name = excerpt.Head(name, maxName) // no name is longer
	var all []near
	for _, entries := range [][]entry{b.entries, b.omitted} {
		for _, e := range entries {
			if d, ok := nearness(name, e.Name); ok {
				all = append(all, near{e.Name, d})
			}
		}
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

// nearness is the distance of a name that the model used to an injected one, and
// whether it is small enough for a slip: at most half of the longer one differs.
// A server prefix that is right says nothing about the tool, so the rest counts
// alone; one that is missing is a slip of its own kind.
func nearness(name, injected string) (int, bool) {
	prefix, tool, _ := strings.Cut(injected, "__")
	if rest, same := strings.CutPrefix(name, prefix+"__"); same {
		return slip(rest, tool)
	}
	d, ok := slip(name, injected)
	if !strings.Contains(name, "__") {
		if bare, near := slip(name, tool); near && (!ok || bare < d) {
			return bare, true
		}
	}
	return d, ok
}

func slip(a, b string) (int, bool) {
	d := spelling.Distance(a, b)
	return d, 2*d <= max(len(a), len(b))
}

func (b *Binding) unknown(name string) Result {
	text := fmt.Sprintf("There is no function %q.", excerpt.Head(strings.ToValidUTF8(name, "\uFFFD"), maxName))
	if near := b.Suggest(name); len(near) > 0 {
		text += " The nearest names are: " + strings.Join(near, ", ") + "."
	}
	return failure(OutcomeUnknownTool, text)
}
