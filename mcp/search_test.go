package mcp

import (
	"slices"
	"strings"
	"testing"

	"github.com/mcp-via-llm/mcp-via-llm/schema"
	"pgregory.net/rapid"
)

func indexed(pairs ...string) *searchIndex {
	var entries []entry
	for i := 0; i < len(pairs); i += 2 {
		t := &tool{name: pairs[i]}
		entries = append(entries, entry{tool: t, as: &schema.Function{}, Tool: Tool{Server: "s", Original: t.name, Description: pairs[i+1]}})
	}
	return newSearchIndex(entries)
}

func TestSearch(t *testing.T) {
	x := indexed(
		"create_issue", "Opens an issue in a repository",
		"listIssues", "Lists the issues of a repository",
		"send_mail", "Sends a mail to somebody; not for issues, issues have a function of their own, see the issues",
		"天气", "查询城市的天气预报",
		"getHTTPStatus", "The status of a URL",
		"sql-query", "Runs SQL",
	)
	for query, want := range map[string]string{
		"create issue": "create_issue",
		"list issues":  "listIssues",
		"mail":         "send_mail",
		"e-mail":       "send_mail",
		"天气预报":         "天气",
		"http status":  "getHTTPStatus",
		"SQL":          "sql-query",
		"repo":         "create_issue listIssues", // begins like repository
		"unheard":      "",
		"":             "",
	} {
		var got []string
		for _, t := range x.find(query) {
			got = append(got, t.name)
		}
		wanted := strings.Fields(want)
		if len(wanted) == 0 && len(got) > 0 {
			t.Errorf("%q: %q", query, got)
		}
		slices.Sort(got[:min(len(got), len(wanted))])
		if len(got) < len(wanted) || !slices.Equal(got[:len(wanted)], wanted) {
			t.Errorf("%q: %q, want %q first", query, got, wanted)
		}
	}
}

func TestWords(t *testing.T) {
	for text, want := range map[string]string{
		"create_issue-now":   "create issue now",
		"listPullRequests":   "list pull request",
		"getHTTPStatus v2":   "get httpstatu v2",
		"class glass gas":    "class glass gas",
		"Größe ÄNDERN":       "größe ändern",
		"日本 lang":            "日 本 lang",
		"  ":                 "",
		"a.b/c:d":            "a b c d",
		"Bücher\u0301 x\x00": "bücher\u0301 x",
	} {
		if got := strings.Join(words(text), " "); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// Whatever is asked, the same is found in the same order, and nothing twice.
func TestSearchProperty(t *testing.T) {
	x := indexed("create_issue", "Opens an issue", "list_issues", "Lists issues", "mail", "Sends mail", "mail2", "Sends mail", "天气", "天气")
	rapid.Check(t, func(t *rapid.T) {
		query := rapid.OneOf(rapid.String(), rapid.StringMatching(`((issues?|mail|send|list|天) ?){0,4}`)).Draw(t, "query")
		first, again := x.find(query), x.find(query)
		if !slices.Equal(first, again) {
			t.Fatal("another order")
		}
		seen := map[*tool]bool{}
		for _, t2 := range first {
			if seen[t2] {
				t.Fatalf("%s twice", t2.name)
			}
			seen[t2] = true
		}
	})
}
