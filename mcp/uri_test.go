package mcp

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// The examples of RFC 6570 that are about strings, and letters beyond ASCII.
func TestURITemplates(t *testing.T) {
	values := map[string]string{
		"var": "value", "hello": "Hello World!", "path": "/foo/bar", "empty": "", "x": "1024", "y": "768",
		"who": "fred", "base": "http://example.com/home/", "half": "50%", "v": "6", "größe": "ü", "done": "a%2Fb", "name": "日本語",
	}
	for template, want := range map[string]string{
		"{var}": "value", "{hello}": "Hello%20World%21", "{half}": "50%25", "O{empty}X": "OX", "O{undef}X": "OX",
		"{x,y}": "1024,768", "{x,hello,y}": "1024,Hello%20World%21,768", "?{x,empty}": "?1024,", "?{x,undef}": "?1024", "?{undef,y}": "?768",
		"{var:3}": "val", "{var:30}": "value", "{+var}": "value", "{+hello}": "Hello%20World!", "{+half}": "50%25", "{base}index": "http%3A%2F%2Fexample.com%2Fhome%2Findex",
		"{+base}index": "http://example.com/home/index", "O{+empty}X": "OX", "{+path}/here": "/foo/bar/here", "here?ref={+path}": "here?ref=/foo/bar",
		"{+x,hello,y}": "1024,Hello%20World!,768", "{+path,x}/here": "/foo/bar,1024/here", "{+path:6}/here": "/foo/b/here",
		"{#var}": "#value", "{#hello}": "#Hello%20World!", "foo{#empty}": "foo#", "foo{#undef}": "foo", "{#path:6}here": "#/foo/bhere",
		"{.who}": ".fred", "{.who,who}": ".fred.fred", "X{.var:3}": "X.val", "X{.empty}": "X.", "X{.undef}": "X",
		"{/who}": "/fred", "{/half,who}": "/50%25/fred", "{/var,empty}": "/value/", "{/var,undef}": "/value", "{/var:1,var}": "/v/value",
		"{;who}": ";who=fred", "{;empty}": ";empty", "{;v,empty,who}": ";v=6;empty;who=fred", "{;hello:5}": ";hello=Hello",
		"{?who}": "?who=fred", "{?x,y,empty}": "?x=1024&y=768&empty=", "{?x,y,undef}": "?x=1024&y=768", "{?var:3}": "?var=val", "?fixed=yes{&x}": "?fixed=yes&x=1024", "{&x,y,empty}": "&x=1024&y=768&empty=",
		"{var*}{?x*}": "value?x=1024", "{name}": "%E6%97%A5%E6%9C%AC%E8%AA%9E", "{name:1}": "%E6%97%A5", "{+done}": "a%2Fb", "{done}": "a%252Fb", "db://{who}": "db://fred",
	} {
		parsed, err := parseURITemplate(template)
		if err != nil {
			t.Errorf("%s: %v", template, err)
		} else if got := parsed.expand(values); got != want {
			t.Errorf("%s: %q, want %q", template, got, want)
		}
	}
	for _, template := range []string{"{", "a{b", "{}", "{!x}", "a b", "{x:y}", "\xff"} {
		if _, err := parseURITemplate(template); err == nil {
			t.Errorf("%q was read", template)
		}
	}
}

func TestNeededVariables(t *testing.T) {
	for template, want := range map[string]string{
		"a://{x}/{+path}{?q,n*}{&m}{#f}": "path x",
		"a://{host:3}{/segments*}{.ext}": "host segments",
		"a://{x}{?x}{;p}":                "x",
		"a://fixed":                      "",
		"a://{a,b}":                      "a b",
	} {
		parsed, err := parseURITemplate(template)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(slices.Sorted(maps.Keys(parsed.needed)), " "); got != want {
			t.Errorf("%s: %q, want %q", template, got, want)
		}
	}
}

// What the model writes comes out at the server as it was written, and in its place.
func TestExpansionKeepsValues(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.String().Draw(t, "value")
		parsed, err := parseURITemplate("box://a/{x}/b{?y}")
		if err != nil {
			t.Fatal(err)
		}
		u, err := url.Parse(parsed.expand(map[string]string{"x": value, "y": value}))
		if err != nil || u.Path != "/"+value+"/b" || u.Query().Get("y") != value {
			t.Fatalf("%q became %v, %v", value, u, err)
		}
	})
}

func TestSameURI(t *testing.T) {
	for _, same := range [][]string{
		{"file:///secret", "FILE:///secret", "file://localhost/secret", "file:/secret", "file:secret", "file:////secret/", "file:///a/../secret", "file:///a/%2e%2E/%73ecret", "file:///%2573ecret", "file:///secret#x", "file:///secret?x", "file:///./secret"},
		{"https://example.com/a/b", "https://EXAMPLE.com:443/a%2Fb", "https://u@example.com/a/b/", "https://example.com:/a/b"},
		{"note://secret", "note://SECRET/", "note://%73ecret"},
		{"db://t/1?x=a b", "db://t/1?x=a%20b"},
	} {
		for _, uri := range same {
			if sameURI(uri) != sameURI(same[0]) {
				t.Errorf("%q and %q: %q, %q", same[0], uri, sameURI(same[0]), sameURI(uri))
			}
		}
	}
	seen := map[string]string{}
	for _, uri := range []string{"file:///secret", "file:///Secret", "file:///secrets", "file:///secret/a", "note://secret", "note:///secret", "db://t/1", "db://t/1?x=a", "db://t/1?x=b", "http://h/x", "https://h/x", "http://h:81/x", "", "%", "50%"} {
		if other, ok := seen[sameURI(uri)]; ok {
			t.Errorf("%q and %q are one", uri, other)
		}
		seen[sameURI(uri)] = uri
	}
}

// The normal form reads as an operator would write the address.
func TestNormalURI(t *testing.T) {
	for uri, want := range map[string]string{
		"file:///pub/b": "file:///pub/b", "FILE://localhost/pub/./b/": "file:///pub/b", "file:/pub/b": "file:///pub/b", "file:pub": "file:///pub", "file:///": "file:///",
		"file:///pub/../secret/z": "file:///secret/z", "file:///pub/%2e%2e/secret/z": "file:///secret/z", "file:///pub/..%2fsecret/z": "file:///secret/z",
		"file:///pub/%252e%252E/secret/z": "file:///secret/z", `file:///pub\..\secret`: "file:///secret", "file:///pub/..%5Csecret": "file:///secret",
		"file:///../../z": "file:///z", "file:////pub//b": "file:///pub/b", "file:///%68idden": "file:///hidden", "file:///pub/b?x#y": "file:///pub/b",
		"file:///pub/x?/../../secret/z": "file:///secret/z", "file:///pub/x#/../../secret/z": "file:///secret/z",
		"https://User@EXAMPLE.com:443/A%20b/?q=%61/../x#f": "https://example.com/A b?q=a/../x", "http://h": "http://h/", "http://h:81/": "http://h:81/",
		"note://Secret/": "note://secret", "note:///x": "note:///x", "urn:ISBN:1%32": "urn:ISBN:12", "db://t/1?x=a%20b": "db://t/1?x=a b",
		"../x": "../x", "/a/../x": "/x", "x/%2e%2e/y": "y", "": "", "%ff": "\uFFFD", "50%": "50%",
	} {
		if got := normalURI(uri); got != want {
			t.Errorf("%q: %q, want %q", uri, got, want)
		}
	}
	for uri, want := range map[string]string{
		"file:///pub/../secret/z": "file:///secret/z", "file:///pub/%2e%2e/secret/z": "file:///pub/../secret/z",
		"https://h/secret/..%2fpub/x": "https://h/secret/../pub/x", "db:///secret/a?/../../pub/x": "db:///secret/a?/../../pub/x", "file:///pub/%62": "file:///pub/b",
	} {
		if got := literalURI(uri); got != want {
			t.Errorf("%q: %q as it stands, want %q", uri, got, want)
		}
	}
}

// However often it is taken, and whatever is escaped, the form is the same; nothing in it climbs.
func TestNormalURIIsOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		path := rapid.StringMatching(`(/(\.\.|\.|a|bc|d e)?){0,6}`).Draw(t, "path")
		plain, escaped := "file:///pub"+path, "file:///pub"
		for i := range len(path) {
			if rapid.Bool().Draw(t, "escape") {
				escaped += fmt.Sprintf("%%%02x", path[i])
			} else {
				escaped += path[i : i+1]
			}
		}
		got := normalURI(plain)
		if normalURI(escaped) != got || normalURI(got) != got || strings.Contains(got+"/", "/../") || !strings.HasPrefix(got, "file:///") {
			t.Fatalf("%q is %q, %q is %q", plain, got, escaped, normalURI(escaped))
		}
	})
}
