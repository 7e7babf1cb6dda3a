package loop

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// A client that sends only its last messages is recognised by two replies in a
// row whose turns it sends from their beginning.
func TestTrimmedHistory(t *testing.T) {
	user := func(s string) string { return fmt.Sprintf(`{"role":"user","content":%q}`, s) }
	said := func(s string) string { return fmt.Sprintf(`{"role":"assistant","content":%q}`, s) }
	with := func(n string) string {
		return "user:Q" + n + "|assistant:(c1 mcp_wx__now)|toolc1:result of mcp_wx__now|assistant:A" + n + "."
	}
	// A conversation of a plain turn, two with tools, a plain one and one with tools.
	tell := func(g *rig, plain ...string) (all []string) {
		for _, n := range []string{"1", "2", "3", "4", "5"} {
			all = append(all, user("Q"+n))
			if !slices.Contains(plain, n) {
				g.answer(whole(calls("mcp_wx__now", "{}")))
			}
			g.answer(whole(says("A" + n + ".")))
			g.post(chatOf(all...))
			all = append(all, said("A"+n+"."))
		}
		return all
	}
	for _, tt := range []struct {
		name string
		cut  int // messages that the client has cut off
		want string
	}{
		{"nothing", 0, "user:Q1|assistant:A1.|" + with("2") + "|" + with("3") + "|user:Q4|assistant:A4.|" + with("5")},
		{"a turn", 2, with("2") + "|" + with("3") + "|user:Q4|assistant:A4.|" + with("5")},
		{"in the middle of a turn", 3, "assistant:A2.|" + with("3") + "|user:Q4|assistant:A4.|" + with("5")},
		{"up to a plain turn", 6, "user:Q4|assistant:A4.|" + with("5")},
		{"all but the last reply", 9, "assistant:A5."},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rigs, _, _ := replicas(t, 1)
			g := rigs[0]
			all := tell(g, "1", "4")
			g.answer(whole(says("Bye.")), whole(says("Bye again.")))
			for _, more := range [][]string{{user("Q6")}, {user("Q6"), said("Bye."), user("Q7")}} {
				g.post(chatOf(append(slices.Clone(all[tt.cut:]), more...)...))
				want := tt.want + "|user:Q6"
				if len(more) > 1 {
					want += "|assistant:Bye.|user:Q7"
				}
				if got := g.history(); got != want {
					t.Errorf("the model saw\n%s, want\n%s", got, want)
				}
			}
		})
	}
	t.Run("another conversation that begins with the words of one turn", func(t *testing.T) {
		rigs, _, _ := replicas(t, 1)
		g := rigs[0]
		tell(g, "1", "4")
		g.answer(whole(says("Bye.")))
		g.post(chatOf(user("Q3"), said("A3."), user("Q6"))) // its first turn never came by here
		if got := g.history(); got != "user:Q3|assistant:A3.|user:Q6" {
			t.Errorf("the model saw %s", got)
		}
	})
	t.Run("two conversations with the same turn", func(t *testing.T) {
		rigs, _, _ := replicas(t, 1)
		g := rigs[0]
		all := tell(g, "1", "4")
		// Elsewhere the same words came about without a tool, and in another place.
		g.answer(whole(says("A3.")), whole(says("Bye.")), whole(says("Bye.")))
		g.post(chatOf(user("Q0"), said("A0."), user("Q3")))
		g.post(chatOf(user("Q3"), said("A3."), user("Q6")))
		if got := g.history(); got != "user:Q3|assistant:A3.|user:Q6" {
			t.Errorf("the model saw %s", got)
		}
		g.post(chatOf(append(slices.Clone(all), user("Q6"))...))
		if got := g.history(); !strings.Contains(got, with("3")) {
			t.Errorf("whole, the model saw %s", got)
		}
	})
}
