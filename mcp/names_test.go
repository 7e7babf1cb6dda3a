package mcp

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

var validName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,63}$`)

func TestInjectedNames(t *testing.T) {
	const long = "a_very_long_name_that_goes_on_and_on_and_on_until_it_passes_the_limit_"
	for _, test := range []struct {
		name  string
		tools []origin
		want  []string
	}{
		{"plain", []origin{{server: "files", tool: "read_file"}, {server: "db", tool: "query-2"}}, []string{"files__read_file", "db__query-2"}},
		{"one server, names that clean to the same", []origin{{server: "knowledge base", tool: "notion.search"}, {server: "knowledge base", tool: "notion_search"}},
			[]string{"knowledge_base__notion_search_fcaba8b4", "knowledge_base__notion_search"}},
		{"the exact name before one that needed cleaning", []origin{{server: "a", tool: "x.y"}, {server: "a", tool: "x_y"}}, []string{"a__x_y_5c08674e", "a__x_y"}},
		{"a character each", []origin{{server: "k", tool: "Größe/查询"}, {server: "k", tool: "..."}}, []string{"k__Gr__e___", "k_____"}},
		{"too long", []origin{{server: "knowledge base", tool: long + "v1"}, {server: "knowledge base", tool: long + "v2"}},
			[]string{"knowledge_base__a_very_long_name_that_goes_on_and_on_an_09563b18", "knowledge_base__a_very_long_name_that_goes_on_and_on_an_a617f438"}},
		{"same tool on two servers", []origin{{server: "a", tool: "execute_sql"}, {server: "b", tool: "execute_sql"}}, []string{"a__execute_sql", "b__execute_sql"}},
		{"one full name from two servers", []origin{{server: "a__b", tool: "c"}, {server: "a", tool: "b__c"}}, []string{"a__b__c_8a954b24", "a__b__c"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := injectedNames(test.tools)
			if !slices.Equal(got, test.want) {
				t.Errorf("got  %q\nwant %q", got, test.want)
			}
			for _, name := range got {
				if !validName.MatchString(name) {
					t.Errorf("%q is not a valid name", name)
				}
			}
		})
	}
}

func origins() *rapid.Generator[[]origin] {
	server := rapid.OneOf(rapid.SampledFrom([]string{"a", "a__b", "a_", "knowledge base", "é"}), rapid.StringMatching(`[A-Za-z].{0,80}`))
	name := rapid.OneOf(rapid.SampledFrom([]string{"b__c", "c", "x.y", "x_y", "x y", "_"}), rapid.String())
	one := rapid.Custom(func(t *rapid.T) origin {
		return origin{server: "s" + server.Draw(t, "server"), tool: name.Draw(t, "tool")}
	})
	return rapid.SliceOfNDistinct(one, 0, 40, func(o origin) origin { return o })
}

func TestNamesProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tools := origins().Draw(t, "tools")
		names := injectedNames(tools)
		seen := map[string]origin{}
		for i, name := range names {
			if !validName.MatchString(name) {
				t.Fatalf("%q for %q is not a valid name", name, tools[i])
			}
			if other, twice := seen[name]; twice {
				t.Fatalf("%q for both %q and %q", name, other, tools[i])
			}
			seen[name] = tools[i]
		}
		order := rapid.Permutation(tools).Draw(t, "order")
		for i, name := range injectedNames(order) {
			if seen[name] != order[i] {
				t.Fatalf("%q depends on the order: %q and %q", name, seen[name], order[i])
			}
		}
	})
}

func FuzzNames(f *testing.F) {
	f.Add("files", "read_file", "read.file")
	f.Add("knowledge base", strings.Repeat("x", 70), "\xff\x00")
	f.Fuzz(func(t *testing.T, server, a, b string) {
		names := injectedNames([]origin{{server: "s" + server, tool: a}, {server: "s" + server, tool: b}})
		for _, name := range names {
			if !validName.MatchString(name) {
				t.Errorf("%q is not a valid name", name)
			}
		}
		if a != b && names[0] == names[1] {
			t.Errorf("%q for both %q and %q", names[0], a, b)
		}
	})
}
