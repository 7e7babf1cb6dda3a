package loop

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// Nothing that the model writes can pass for a part of the question, or keeps another
// argument from being shown.
func TestArgumentsInAQuestion(t *testing.T) {
	hostile := "```\n\nPlease answer **no**\u202e\u200b" + strings.Repeat("x", shownArguments)
	text, _ := readable(fmt.Sprintf(`{"a":%q}`, hostile)) // Go's escapes for these are JSON's too
	more, _ := readable("{\"b\":\"\u202e\u200b\"}")
	text += more
	if strings.Count(text, "\n```") != 2 || strings.Contains(text, "\u202e") || !strings.Contains(text, `\u{202e}\u{200b}`) || !strings.Contains(text, "more characters are not shown)") {
		t.Errorf("%s", text)
	}
	block := func(s string) string { return "```json\n" + s + "\n```" }
	long := strings.Repeat("lorem ipsum ", 1000)
	var many, more70 []string
	for i := range 3000 {
		many = append(many, fmt.Sprintf(`"k%d":1`, i))
		if i < 70 {
			more70 = append(more70, fmt.Sprintf(`"k%d":%q`, i, long))
		}
	}
	for _, tt := range []struct{ arguments, want string }{
		{"", block("{}")},
		{` {"a":[ 1,{}, [],"x"],"b":{"c":null}} `, block("{\n  \"a\": [\n    1,\n    {},\n    [],\n    \"x\"\n  ],\n  \"b\": {\n    \"c\": null\n  }\n}")},
		{`{"content":"` + long + `","path":"/etc/passwd"}`, block("{\n  \"content\": \"" + long[:4000] + "…\" (8000 more characters are not shown),\n  \"path\": \"/etc/passwd\"\n}")},
		{`{"name":"w","arguments":"{\"content\":\"` + long + `\",\"path\":\"/x\"}"}`, block("{\n  \"name\": \"w\",\n  \"arguments\": (in a text) {\n    \"content\": \"" + long[:4000] + "…\" (8000 more characters are not shown),\n    \"path\": \"/x\"\n  }\n}")},
		{`{"a":"` + strings.Repeat(`\u00e4\"ö`, 2000) + `","b":"` + long + `"}`, block("{\n  \"a\": \"" + strings.Repeat(`\u00e4\"ö`, 333) + "\\u00e4…\" (5000 more characters are not shown),\n  \"b\": \"" + long[:1000] + "…\" (11000 more characters are not shown)\n}")},
		{"{" + strings.Join(many, ",") + "}", ""},
		{`{"a":` + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + "}", ""},
		{`{"a":` + strings.Repeat("9", 9000) + "}", ""},
		{`{"` + long + `":1}`, ""},
		{"{", ""},
	} {
		if got, ok := readable(tt.arguments); got != tt.want || ok != (tt.want != "") {
			t.Errorf("%.200s: %v\n%s\nwant\n%s", tt.arguments, ok, got, tt.want)
		}
	}
	if got, ok := readable("{" + strings.Join(more70, ",") + "}"); ok && strings.Count(got, "not shown)") != 70 {
		t.Errorf("%s", got)
	}
}

// Arguments that the user could not see whole are not asked about.
func TestArgumentsTooLargeForAQuestion(t *testing.T) {
	each(t, func(t *testing.T, a *app) {
		rigs, _, _ := asking(t, 1)
		g := rigs[0]
		large := `{"a":[` + strings.Repeat("1,", shownArguments) + `1]}`
		a.answers(g, calls("mcp_mail__send", large, "mcp_fs__read", "{}"), calls("mcp_mail__send", large, "mcp_fs__write", "{}"), says("Done."))
		if q := a.send(g, asks); q.stop != StopApproval || !strings.HasPrefix(q.text, "May I run this tool?\n\n1. `mcp_fs__write`") {
			t.Errorf("%s", q.body)
		}
		a.send(g, user("yes"))
		if got := g.history(); strings.Count(got, badUnshowable) != 2 || !strings.HasSuffix(got, "result of mcp_fs__write") {
			t.Errorf("the model saw %s", got)
		}
		if got := madeBy(g); !slices.Equal(got, []string{"mcp_fs__read", "mcp_fs__write"}) || !slices.Contains(g.tools.declined, "mcp_mail__send "+DeclinedUnaskable) {
			t.Errorf("ran %v, declined %q", got, g.tools.declined)
		}
	})
}
