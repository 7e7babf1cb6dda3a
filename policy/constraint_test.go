package policy

import (
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestConstraints(t *testing.T) {
	for _, row := range []struct {
		name, rule, arguments, reason string
	}{
		{"true", `args.path.startsWith("/data/")`, `{"path":"/data/x"}`, ""},
		{"false", `args.path.startsWith("/data/")`, `{"path":"/etc/passwd"}`, "constraints[0] is false"},
		{"missing key", `args.path.startsWith("/data/")`, `{}`, "constraints[0] fails: no such key"},
		{"another type", `args.path.startsWith("/data/")`, `{"path":7}`, "constraints[0] fails: no such overload"},
		{"no truth", `args.flag`, `{"flag":"yes"}`, "constraints[0] is neither true nor false"},
		{"a truth of the arguments", `args.flag`, `{"flag":true}`, ""},
		{"an absent argument that may be", `args.?path.orValue("").size() < 3`, `{}`, ""},
		{"has", `!has(args.force) || !args.force`, `{"force":true}`, "constraints[0] is false"},
		{"climbing", `cleanPath(args.path).startsWith("/data/")`, `{"path":"/data/../etc/passwd"}`, "constraints[0] is false"},
		{"not climbing", `cleanPath(args.path).startsWith("/data/")`, `{"path":"/data/./a/../b"}`, ""},
		{"nested", `args.items.all(i, i.n < 3)`, `{"items":[{"n":1},{"n":2.5}]}`, ""},
		{"null", `args.x == null`, `{"x":null}`, ""},
		{"whole numbers are exact", `args.n == 9007199254740993`, `{"n":9007199254740992}`, "constraints[0] is false"},
		{"large whole numbers too", `args.n == 18446744073709551615u`, `{"n":18446744073709551615}`, ""},
		{"larger ones are near", `args.n > 18446744073709551615.0 * 2.0`, `{"n":98446744073709551615}`, ""},
		{"a fraction under a whole number", `args.n < 5`, `{"n":4.5}`, ""},
		{"a whole number written with a fraction", `args.n == 5`, `{"n":5.0}`, ""},
		{"a member twice", `args.path.startsWith("/data/")`, `{"path":"/etc/passwd","path":"/data/x"}`,
			"constraints[0] cannot be asked: the arguments name something twice, or are no proper text"},
		{"half a character", `args.path != ""`, `{"path":"\ud800"}`,
			"constraints[0] cannot be asked: the arguments name something twice, or are no proper text"},
		{"who and what", `tool == "read" && server == "files" && client == "team" && identity == "jwt_sub:me"`, `{}`, ""},
		{"no text of the arguments in the reason", `timestamp(args.t) < timestamp("2020-01-01T00:00:00Z")`, `{"t":"hunter2"}`, "constraints[0] fails: invalid RFC 3339 timestamp"},
		{"nor of a pattern", `"x".matches(args.p)`, `{"p":"hunter2["}`, "constraints[0] fails: error parsing regexp"},
		{"too much work", `args.l.all(a, args.l.all(b, args.l.all(c, a + b + c >= 0)))`, `{"l":[` + strings.Repeat("0,", 199) + `0]}`, "constraints[0] fails: operation cancelled"},
		{"endless digits", `args.n < 5`, `{"n":1e999999}`, "constraints[0] is false"},
		{"a number as a key", `args["1"] == 1`, `{"1":1}`, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			if !json.Valid([]byte(row.arguments)) {
				t.Fatal("the row is broken")
			}
			p := compiled(t, Settings{Client: "team", Constraints: []Constraint{{Tool: "files__*", Rule: row.rule}}})
			if _, reason := p.against(read, canonical([]byte(row.arguments)), "jwt_sub:me"); reason != row.reason {
				t.Errorf("got %q, want %q", reason, row.reason)
			}
			if c, _ := p.against(search, canonical([]byte(row.arguments)), ""); c != nil {
				t.Error("the rule is not for this tool")
			}
		})
	}
}

// A rule over addresses must hold for every reading of them.
func TestURIsInRules(t *testing.T) {
	for _, row := range []struct {
		rule, uri, literal string
		holds              bool
	}{
		{`uri.startsWith("file:///pub/")`, "file:///pub/b", "file:///pub/b", true},
		{`uri.startsWith("file:///pub/")`, "file:///pub/b", "", true},
		{`uri.startsWith("file:///pub/")`, "file:///secret", "file:///pub/../secret", false},
		{`uri.startsWith("https://h/pub/")`, "https://h/pub/x", "https://h/secret/../pub/x", false},
		{`!uri.contains("secret")`, "https://h/pub/x", "https://h/secret/../pub/x", false},
		{`uri == ""`, "", "", true},
	} {
		p := compiled(t, Settings{Constraints: []Constraint{{Tool: "*", Rule: row.rule}}})
		tool := read
		tool.URI, tool.LiteralURI = row.uri, row.literal
		if _, reason := p.against(tool, []byte(`{}`), ""); (reason == "") != row.holds {
			t.Errorf("%s of %q, %q: %q", row.rule, row.uri, row.literal, reason)
		}
	}
}

func TestCleanPath(t *testing.T) {
	for text, want := range map[string]string{
		"/a/../b/": "/b", "../a/./b": "../a/b", "": ".", "file:///a/../b": "file:///b", "file:///../../b": "file:///b", "https://h/a//b/../c": "https://h/a/c",
		"https://h": "https://h", "https://h/": "https://h/", "note://a/../b": "note://a/b", "urn:a/../b": "b", "C:/a/../b": "C:/b",
	} {
		if got := cleanPath(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// All rules for a tool must hold, also those for the name that another tool took.
func TestEveryConstraintCounts(t *testing.T) {
	p := compiled(t, Settings{Constraints: []Constraint{
		{Tool: "*", Rule: "true"}, {Tool: "kb__find", Rule: `args.n < 3`, Message: "three is too many"}, {Tool: "kb__*", Rule: "args.n != 1"},
	}})
	for arguments, want := range map[string]string{`{"n":0}`: "", `{"n":1}`: "constraints[2] is false", `{"n":3}`: "constraints[1] is false"} {
		if _, reason := p.against(hashed, canonical([]byte(arguments)), ""); reason != want {
			t.Errorf("%s: %q, want %q", arguments, reason, want)
		}
	}
}

func TestRulesAreChecked(t *testing.T) {
	for rule, want := range map[string]string{
		`args.path == "x"`:        "",
		`arg.path == "x"`:         "1:1: undeclared reference to 'arg' (did you mean 'args'?)",
		`tool == 3`:               "1:6: found no matching overload for '_==_' applied to '(string, int)'",
		`1 + 1`:                   "1:1: gives int, not true or false",
		"true &&\n  frue":         "2:3: undeclared reference to 'frue'",
		`uri != "note://Notes"`:   `1:8: uri is never like "note://Notes": its scheme and host are in lower case`,
		`uri.startsWith("FILE:")`: "",
		`!cleanPath(uri).startsWith("file:/secret")`:          `1:28: uri is never like "file:/secret": two slashes follow its scheme`,
		`uri != "file:///a/../b"`:                             `1:8: uri is never like "file:///a/../b": nothing in it is %-encoded, and its path has no ".", ".." or empty parts`,
		`!uri.startsWith("file:///a%20b/")`:                   `1:17: uri is never like "file:///a%20b/": nothing in it is %-encoded, and its path has no ".", ".." or empty parts`,
		`!(uri in ["file:///a", "file:///b/"])`:               `1:24: uri is never like "file:///b/": no slash is at the end of its path`,
		`uri == "file:///" || uri.startsWith("file:///pub/")`: "",
		`uri.matches("^file:///(a|b)/.*$")`:                   "",
		`args.url == "HTTPS://h//"`:                           "",
		`cleanPath(1)`:                                        "1:10: found no matching overload for 'cleanPath' applied to '(int)'",
	} {
		err := CheckRule(rule)
		if got := errorText(err); got != want {
			t.Errorf("%s: got %q, want %q", rule, got, want)
		}
	}
	for _, rule := range []string{"", "args.", strings.Repeat("(", 10000), strings.Repeat("!", 100000) + "true"} {
		if CheckRule(rule) == nil {
			t.Errorf("%.20q is accepted", rule)
		}
	}
	if _, err := NewProfile(Settings{Constraints: []Constraint{{Rule: "1"}}}); err == nil {
		t.Error("a profile with a bad rule is accepted")
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// anyJSON is a JSON value as text, with members in any order.
func anyJSON(depth int) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		kinds := []string{"null", "true", "number", "text"}
		if depth > 0 {
			kinds = append(kinds, "list", "object")
		}
		switch kind := rapid.SampledFrom(kinds).Draw(t, "kind"); kind {
		case "number":
			return rapid.SampledFrom([]string{"0", "-1", "1.5", "1e3", "9007199254740993", "123456789012345678901234567890", "0.1"}).Draw(t, "number")
		case "text":
			text, err := json.Marshal(rapid.String().Draw(t, "text"))
			if err != nil {
				t.Fatal(err)
			}
			return string(text)
		case "list":
			return "[" + strings.Join(rapid.SliceOfN(anyJSON(depth-1), 0, 3).Draw(t, "list"), ", ") + "]"
		case "object":
			return "{" + strings.Join(members(t, depth), ",") + "}"
		default:
			return kind
		}
	})
}

func members(t *rapid.T, depth int) []string {
	var all []string
	for _, key := range rapid.SliceOfNDistinct(rapid.StringMatching(`[a-cé]{1,2}`), 0, 4, rapid.ID).Draw(t, "keys") {
		all = append(all, `"`+key+`" : `+anyJSON(depth-1).Draw(t, "value"))
	}
	return all
}

// Whatever a model writes, a rule says yes or no and nothing breaks.
func TestRulesStandAnything(t *testing.T) {
	p := compiled(t, Settings{Constraints: []Constraint{{Tool: "*", Rule: `args.a.b[0] < 3 || args.c.startsWith("x") || args.b.all(x, x in args.a)`}}})
	rapid.Check(t, func(rt *rapid.T) {
		text := "{" + strings.Join(members(rt, 4), ",") + "}"
		c, reason := p.against(read, canonical([]byte(text)), "")
		if (c == nil) != (reason == "") {
			rt.Fatalf("%s: %v, %q", text, c, reason)
		}
	})
}

// The digest depends on what the arguments say, not on how they are written.
func TestDigest(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		all := members(rt, 3)
		one := "{" + strings.Join(all, ",") + "}"
		other := "{\n " + strings.Join(rapid.Permutation(all).Draw(rt, "order"), " ,\t") + "}"
		if digest([]byte(one)) != digest([]byte(other)) {
			rt.Fatalf("%s and %s differ", one, other)
		}
		if digest([]byte(one)) == digest([]byte(`{"another":`+one+`}`)) {
			rt.Fatal("the digest does not see a difference")
		}
	})
	for _, row := range []struct {
		a, b string
		same bool
	}{
		{`{"n":1.0}`, `{"n":1}`, true},
		{`{"s":"\u00e9\/"}`, `{"s":"é/"}`, true},
		{`{"n":9007199254740993}`, `{"n":9007199254740992}`, false},
		{`{"a":1,"a":2}`, `{"a":2}`, false},
		{`not JSON`, `not JSON`, true},
	} {
		if (digest([]byte(row.a)) == digest([]byte(row.b))) != row.same {
			t.Errorf("%s and %s: want the same %v", row.a, row.b, row.same)
		}
	}
	// printf '{"a":null,"b":[1000,"x"]}' | sha256sum
	if got := digest([]byte(`{"b":[1e3,"x"], "a":null}`)); got != "bbc436a236d3d422b525883f304bf82651edcfbee3fe308093f0a8b152b7114a" {
		t.Errorf("got %s", got)
	}
}
