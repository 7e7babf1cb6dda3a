package policy

import (
	"testing"

	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func compiled(t testing.TB, s Settings) *Profile {
	t.Helper()
	p, err := NewProfile(s)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

var (
	read   = Tool{Names: []string{"files__read"}, Server: "files", Original: "read", ReadOnly: true}
	write  = Tool{Names: []string{"files__write"}, Server: "files", Original: "write"}
	search = Tool{Names: []string{"web__search"}, Server: "web", Original: "search"}
	note   = Tool{Names: []string{"mcp_resource__files__note"}, Server: "files", Original: "note", ReadOnly: true}
	hashed = Tool{Names: []string{"kb__find_1a2b3c4d", "kb__find"}, Server: "kb", Original: "fi.nd"}
)

func TestKeep(t *testing.T) {
	all := []Tool{read, write, search, note, hashed}
	for _, row := range []struct {
		name  string
		rules Settings
		want  []Tool
	}{
		{"no rules", Settings{}, all},
		{"an empty allow", Settings{Allow: []string{}}, nil},
		{"one server", Settings{Allow: []string{"files__*"}}, []Tool{read, write}},
		{"several", Settings{Allow: []string{"web__*", "mcp_resource__*"}}, []Tool{search, note}},
		{"deny wins", Settings{Allow: []string{"files__*"}, Deny: []string{"*__write"}}, []Tool{read}},
		{"deny alone", Settings{Deny: []string{"files__*", "kb__*"}}, []Tool{search, note}},
		{"read-only", Settings{ReadOnly: true}, []Tool{read, note}},
		{"read-only and allowed", Settings{ReadOnly: true, Allow: []string{"files__*"}}, []Tool{read}},
		{"classes and single characters", Settings{Allow: []string{"[f-g]iles__rea?"}}, []Tool{read}},
		{"deny by the name before another tool wanted it", Settings{Deny: []string{"kb__find"}}, []Tool{read, write, search, note}},
		{"allow by the shown name only", Settings{Allow: []string{"kb__find"}}, nil},
		{"allow by the shown name", Settings{Allow: []string{"kb__find_1a2b3c4d"}}, []Tool{hashed}},
		{"a broken glob matches nothing", Settings{Allow: []string{"["}}, nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			p := compiled(t, row.rules)
			want := map[string]bool{}
			for _, tool := range row.want {
				want[tool.Original] = true
			}
			for _, tool := range all {
				if got := p.Keep(tool); got != want[tool.Original] {
					t.Errorf("%s: %v", tool.Names[0], got)
				}
			}
		})
	}
}

var anyGlobs = rapid.SliceOfN(rapid.SampledFrom([]string{"*", "files__*", "*__read", "a,b", `"`, "null", "web__search"}), 0, 3)

func anySettings(t *rapid.T) Settings {
	s := Settings{Deny: anyGlobs.Draw(t, "deny"), ReadOnly: rapid.Bool().Draw(t, "read-only")}
	if rapid.Bool().Draw(t, "has allow") {
		s.Allow = anyGlobs.Draw(t, "allow")
	}
	return s
}

// Profiles with one key keep the same, so toolsets may be shared by key.
func TestKeyTellsProfilesApart(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		a, b := compiled(t, anySettings(rt)), compiled(t, anySettings(rt))
		if a.Key() != b.Key() {
			return
		}
		for _, tool := range []Tool{read, write, search, note, hashed} {
			if a.Keep(tool) != b.Keep(tool) {
				rt.Fatalf("%s: %v and %v", a.Key(), a.Settings, b.Settings)
			}
		}
	})
}

// More rules never keep more.
func TestRulesOnlyRestrict(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := anySettings(rt)
		wide := compiled(t, s)
		s.Deny = append(s.Deny, rapid.SampledFrom([]string{"*__read", "web__*", "kb__find"}).Draw(rt, "more"))
		s.ReadOnly = s.ReadOnly || rapid.Bool().Draw(rt, "read-only too")
		for _, tool := range []Tool{read, write, search, note, hashed} {
			if narrow := compiled(t, s); narrow.Keep(tool) && !wide.Keep(tool) {
				rt.Fatalf("%+v keeps %v", s, tool)
			}
		}
	})
}

func TestAsks(t *testing.T) {
	p := compiled(t, Settings{Approve: []Approve{{Tool: "files__*", UnlessReadOnly: true}, {Tool: "web__search"}, {Tool: "kb__find"}, {Tool: "mcp_resource__*"}}})
	for _, row := range []struct {
		tool Tool
		want bool
	}{{read, false}, {write, true}, {search, true}, {hashed, true}, {note, true}, {Tool{Names: []string{"x__y"}, Server: "x"}, false}} {
		if got := p.asks(row.tool); got != row.want {
			t.Errorf("%v: %v", row.tool.Names, got)
		}
	}
}
