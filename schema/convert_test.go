package schema

import (
	"strings"
	"testing"
	"unicode/utf8"
)

const draft = `"$schema":"https://json-schema.org/draft/2020-12/schema"`

// conversions are schemas with what a dialect makes of them; "" for byte for byte
// the same.
var conversions = []struct {
	name    string
	dialect Dialect
	in      string
	want    string
	says    string // the function's description
}{
	{"no schema", OpenAI, ``, empty, ""},
	{"null", OpenAI, `null`, empty, ""},
	{"no schema", Gemini, ``, empty, ""},
	{"no schema", Permissive, ``, empty, ""},
	{"not one of an object", OpenAI, `{"type":"string"}`, empty, ""},
	{"an object or null", OpenAI, `{"type":["object","null"]}`, `{"type":"object","properties":{}}`, ""},
	{"empty", OpenAI, `{}`, `{"type":"object","properties":{}}`, ""},
	{"bare object", OpenAI, `{"type":"object"}`, `{"type":"object","properties":{}}`, ""},
	{"bare object, closed", OpenAI, `{"type":"object","additionalProperties":false }`, `{"type":"object","additionalProperties":false,"properties":{}}`, ""},
	{"no type", OpenAI, `{"properties":{"a":{}}}`, `{"properties":{"a":{}},"type":"object"}`, ""},
	{"nothing to do, blanks kept", OpenAI, "{ \"type\": \"object\",\n \"required\":[\"n\"], \"properties\" : {\"n\":{\"type\":\"integer\",\"maximum\":9223372036854775807},\"a\":{}} }", "", ""},
	{"numbers and escapes kept when something else changes", OpenAI, `{"properties":{"n":{"maximum":9223372036854775807,"multipleOf":1.50,"description":"\u00e9<b>"}}}`,
		`{"properties":{"n":{"maximum":9223372036854775807,"multipleOf":1.50,"description":"\u00e9<b>"}},"type":"object"}`, ""},

	{"missing members, nested", OpenAI, `{"type":"object","properties":{"ids":{"type":"array"},"v":{"type":["string","array"]},"o":{"anyOf":[{"type":"object"},{"type":"array"}]}}}`,
		`{"type":"object","properties":{"ids":{"type":"array","items":{}},"v":{"type":["string","array"],"items":{}},"o":{"anyOf":[{"type":"object","properties":{}},{"type":"array","items":{}}]}}}`, ""},
	{"missing members, everywhere", OpenAI, `{"type":"object","properties":{"a":{"oneOf":[{"type":"array"}],"not":{"type":"object"}},"b":{"type":"array","items":{"type":"object","additionalProperties":{"type":"array"}}}}}`,
		`{"type":"object","properties":{"a":{"oneOf":[{"type":"array","items":{}}],"not":{"type":"object","properties":{}}},"b":{"type":"array","items":{"type":"object","additionalProperties":{"type":"array","items":{}},"properties":{}}}}}`, ""},
	{"unions stay", OpenAI, `{"type":"object","properties":{"ids":{"type":["null","array"],"items":{"type":"string"}},"n":{"type":["integer","string"]}}}`, "", ""},
	{"all keywords stay", OpenAI, `{` + draft + `,"type":"object","additionalProperties":false,"properties":{"url":{"type":"string","format":"uri","minLength":1},"n":{"type":"integer","exclusiveMinimum":0,"multipleOf":5},"k":{"const":"fixed"},"m":{"oneOf":[{"type":"string"},{"type":"null"}]}},"required":["url"]}`, "", ""},
	{"nested null description", OpenAI, `{"type":"object","properties":{"x":{"type":"string","description":null,"default":null}}}`, `{"type":"object","properties":{"x":{"type":"string","default":null}}}`, ""},
	{"old drafts", OpenAI, `{"type":"object","properties":{"p":{"type":"integer","exclusiveMinimum":true,"minimum":0,"required":true},"t":{"type":"array","items":[{"type":"string"}],"additionalItems":false}}}`,
		`{"type":"object","properties":{"p":{"type":"integer","exclusiveMinimum":0},"t":{"type":"array","items":false,"prefixItems":[{"type":"string"}]}},"required":["p"]}`, ""},
	{"broken keywords", OpenAI, `{"type":"object","properties":{"a":true,"b":null,"c":{"type":"any","enum":[]},"d":{"type":"Float","required":"yes"},"e":{"anyOf":[],"items":null,"type":"list"}},"required":["a","a",1]}`,
		`{"type":"object","properties":{"a":{},"b":{},"c":{},"d":{"type":"number"},"e":{"type":"array","items":{}}},"required":["a"]}`, ""},
	{"properties that are named like keywords", OpenAI, `{"type":"object","properties":{"$ref":{"type":"string"},"description":{"type":"string"},"required":{"type":"boolean"},"properties":{"type":"object","properties":{"type":{"type":"string"}}}}}`, "", ""},

	{"either-or", OpenAI, `{"type":"object","anyOf":[{"properties":{"content":{"type":"string"}},"required":["content"]},{"properties":{"url":{"type":"string"}},"required":["url"]}]}`,
		`{"type":"object","properties":{"content":{"type":"string"},"url":{"type":"string"}}}`, "Give at least one of these combinations: content; url."},
	{"either-or with something in common", Anthropic, `{"type":"object","properties":{"id":{}},"oneOf":[{"properties":{"a":{}},"required":["id","a"]},{"properties":{"b":{}},"required":["b","id"]}]}`,
		`{"type":"object","properties":{"id":{},"a":{},"b":{}},"required":["id"]}`, "Give exactly one of these combinations: id, a; b, id."},
	{"told apart by a word", Mistral, `{"oneOf":[{"properties":{"kind":{"const":"a"},"x":{}},"required":["kind","x"]},{"properties":{"kind":{"const":"b"}},"required":["kind"]}]}`,
		`{"properties":{"kind":{"enum":["a","b"]},"x":{}},"required":["kind"],"type":"object"}`, `Give exactly one of these combinations: kind "a", x; kind "b".`},
	{"all of several", OpenAI, `{"allOf":[{"properties":{"a":{"type":"string"}},"required":["a"]},{"properties":{"b":{}},"required":["b"],"additionalProperties":false}]}`,
		`{"properties":{"a":{"type":"string"},"b":{}},"required":["a","b"],"additionalProperties":false,"type":"object"}`, ""},
	{"conditional", OpenAI, `{"type":"object","properties":{"why":{"type":"string"}},"allOf":[{"if":{"properties":{"why":{"const":"dup"}}},"then":{"required":["of"]}}]}`,
		`{"type":"object","properties":{"why":{"type":"string"}}}`, `If why is "dup", then give of.`},
	{"forbidden together", OpenAI, `{"type":"object","properties":{"a":{},"b":{}},"not":{"required":["a","b"]}}`, `{"type":"object","properties":{"a":{},"b":{}}}`, "Not a and b together."},
	{"nested alternatives stay", OpenAI, `{"type":"object","properties":{"o":{"type":"object","properties":{},"anyOf":[{"required":["a"]},{"required":["b"]}],"allOf":[{"not":{}}]}}}`, "", ""},

	{"reference", OpenAI, `{"type":"object","properties":{"a":{"$ref":"#/$defs/a~1b","description":"mine"},"b":{"$ref":"#s"}},"$defs":{"a/b":{"type":"string","description":"theirs"},"s":{"$anchor":"s","type":"integer"}}}`,
		`{"type":"object","properties":{"a":{"type":"string","description":"mine"},"b":{"type":"integer"}}}`, ""},
	{"reference at the root", OpenAI, `{"$ref":"#/definitions/In","definitions":{"In":{"type":"object","properties":{"a":{"type":"string"}}}}}`, `{"type":"object","properties":{"a":{"type":"string"}}}`, ""},
	{"recursion", OpenAI, `{"type":"object","properties":{"n":{"$ref":"#/$defs/Node"}},"$defs":{"Node":{"type":"object","properties":{"kids":{"type":"array","items":{"$ref":"#/$defs/Node"}}}}}}`,
		`{"type":"object","properties":{"n":{"type":"object","properties":{"kids":{"type":"array","items":{"description":"Recursive: Node again."}}}}}}`, ""},
	{"recursion of the root", Gemini, `{"type":"object","properties":{"kids":{"type":"array","items":{"$ref":"#","description":"A child"}}}}`,
		`{"type":"object","properties":{"kids":{"type":"array","items":{"type":"object","properties":{},"description":"A child (Recursive: the whole again.)"}}}}`, ""},
	{"reference to nowhere", OpenAI, `{"type":"object","properties":{"a":{"$ref":"https://example.com/x.json"},"b":{"$ref":"#/$defs/gone"}}}`,
		`{"type":"object","properties":{"a":{"description":"As https://example.com/x.json says."},"b":{"description":"As #/$defs/gone says."}}}`, ""},
	{"what looks like a reference in data", OpenAI, `{"type":"object","properties":{"a":{"default":{"$ref":"#/$defs/x"},"enum":[{"$ref":"#"}]}}}`, "", ""},
	{"a reference and more", OpenAI, `{"type":"object","properties":{"a":{"$ref":"#/$defs/o","required":["y"],"properties":{"z":{}}}},"$defs":{"o":{"type":"object","required":["x"],"properties":{"x":{}}}}}`,
		`{"type":"object","properties":{"a":{"type":"object","required":["x","y"],"properties":{"x":{}},"allOf":[{"properties":{"z":{}}}]}}}`, ""},

	{"keywords that Gemini does not know", Gemini, `{` + draft + `,"type":"object","additionalProperties":false,"properties":{"url":{"type":"string","format":"uri","minLength":1},"n":{"type":"integer","exclusiveMinimum":0,"multipleOf":5},"k":{"const":"fixed"},"m":{"oneOf":[{"type":"string"},{"type":"null"}]}},"required":["url","gone"]}`,
		`{"type":"object","properties":{"url":{"type":"string","minLength":1,"description":"Format uri."},"n":{"type":"integer","minimum":1,"description":"A multiple of 5."},"k":{"type":"string","enum":["fixed"]},"m":{"type":"string","nullable":true}},"required":["url"],"description":"No other members."}`, ""},
	{"words after a description", Gemini, `{"type":"object","properties":{"a":{"type":"string","description":"An address","format":"uri"},"b":{"type":"string","description":"(or \"none\")","format":"uri"},"c":{"type":"string","description":"Which? ","format":"uri"}}}`,
		`{"type":"object","properties":{"a":{"type":"string","description":"An address. Format uri."},"b":{"type":"string","description":"(or \"none\"). Format uri."},"c":{"type":"string","description":"Which? Format uri."}}}`, ""},
	{"types as lists", Gemini, `{"type":"object","properties":{"ids":{"type":["null","array"],"items":{"type":"string"}},"n":{"type":["integer","string"],"minLength":1,"minimum":2,"description":"which"}}}`,
		`{"type":"object","properties":{"ids":{"type":"array","items":{"type":"string"},"nullable":true},"n":{"anyOf":[{"type":"integer","minimum":2,"description":"which"},{"type":"string","minLength":1,"description":"which"}]}}}`, ""},
	{"properties that are named like keywords", Gemini, `{"type":"object","properties":{"format":{"type":"string","format":"uuid"},"title":{"type":"string","title":"T"},"const":{"type":"boolean"},"additionalProperties":{"type":"number"}},"required":["format"]}`,
		`{"type":"object","properties":{"format":{"type":"string","description":"Format uuid."},"title":{"type":"string","title":"T"},"const":{"type":"boolean"},"additionalProperties":{"type":"number"}},"required":["format"]}`, ""},
	{"values that are no text", Gemini, `{"type":"object","properties":{"one":{"const":5},"few":{"enum":[1,2]},"yes":{"const":true},"mixed":{"enum":["auto",3,null]},"blank":{"enum":["","a"]},"d":{"type":"string","format":"date-time"}}}`,
		`{"type":"object","properties":{"one":{"type":"integer","minimum":5,"maximum":5,"description":"Always 5."},"few":{"type":"integer","description":"One of 1, 2."},"yes":{"type":"boolean","description":"Always true."},` +
			`"mixed":{"anyOf":[{"type":"string","enum":["auto"],"nullable":true},{"type":"integer","minimum":3,"maximum":3,"description":"Always 3.","nullable":true}]},"blank":{"type":"string","description":"One of \"\", \"a\"."},"d":{"type":"string","format":"date-time"}}}`, ""},
	{"bounds", Gemini, `{"type":"object","properties":{"a":{"type":"integer","exclusiveMinimum":1.5,"exclusiveMaximum":9007199254740993},"b":{"type":"number","exclusiveMinimum":0},"c":{"type":"integer","minimum":9,"exclusiveMinimum":3}}}`,
		`{"type":"object","properties":{"a":{"type":"integer","minimum":2,"maximum":9007199254740992},"b":{"type":"number","minimum":0,"description":"Greater than 0."},"c":{"type":"integer","minimum":9}}}`, ""},
	{"alternatives beside other keywords", Gemini, `{"type":"object","properties":{"a":{"type":"object","description":"D","properties":{"x":{"type":"string"}},"anyOf":[{"required":["x"]},{"properties":{"y":{"type":"null"}},"required":["y"]}]}}}`,
		`{"type":"object","properties":{"a":{"anyOf":[{"type":"object","properties":{"x":{"type":"string"}},"required":["x"],"description":"D"},{"type":"object","properties":{"y":{"type":"string","description":"Always null.","nullable":true},"x":{"type":"string"}},"required":["y"],"description":"D"}]}}}`, ""},
	{"sums and tuples", Gemini, `{"type":"object","properties":{"a":{"allOf":[{"type":"string","minLength":2},{"maxLength":5,"pattern":"^a"}]},"t":{"type":"array","prefixItems":[{"type":"string"},{"type":"string"}]}}}`,
		`{"type":"object","properties":{"a":{"type":"string","minLength":2,"maxLength":5,"pattern":"^a"},"t":{"type":"array","items":{"type":"string"},"description":"First items fit [{\"type\":\"string\"},{\"type\":\"string\"}]."}}}`, ""},

	{"optional members", OpenAIStrict, `{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"integer","default":3,"minimum":1},"c":{"enum":["x","y"]},"d":{"type":["string","null"],"format":"uri"}},"required":["a"]}`,
		`{"type":"object","properties":{"a":{"type":"string"},"b":{"type":["integer","null"],"minimum":1,"description":"Default 3."},"c":{"type":["string","null"],"enum":["x","y",null]},"d":{"type":["string","null"],"description":"Format uri."}},"required":["a","b","c","d"],"additionalProperties":false}`, ""},
	{"nested objects", OpenAIStrict, `{"type":"object","properties":{"o":{"type":"object","properties":{"x":{"type":"boolean"}}},"l":{"type":"array","items":{"type":"object","properties":{"y":{"type":"number"}},"required":["y"]},"uniqueItems":true}},"required":["o","l"]}`,
		`{"type":"object","properties":{"o":{"type":"object","properties":{"x":{"type":["boolean","null"]}},"required":["x"],"additionalProperties":false},"l":{"type":"array","items":{"type":"object","properties":{"y":{"type":"number"}},"required":["y"],"additionalProperties":false},"description":"No two items alike."}},"required":["o","l"],"additionalProperties":false}`, ""},
	{"no arguments", OpenAIStrict, `{"type":"object"}`, `{"type":"object","properties":{},"required":[],"additionalProperties":false}`, ""},

	{"keywords of the document", Mistral, `{"$schema":"http://json-schema.org/draft-07/schema#","$id":"https://example.com/s","type":"object","properties":{"a":{"type":"object","properties":{},"$comment":"c"}}}`,
		`{"type":"object","properties":{"a":{"type":"object","properties":{}}}}`, ""},
	{"names of arguments", Anthropic, `{"type":"object","properties":{"filter[id]":{"type":"string"},"filter_id":{},"ok-1.x":{"type":"object","properties":{"a b":{}}},"$top":{}},"required":["filter[id]"]}`,
		`{"type":"object","properties":{"filter_id_665d001d":{"type":"string"},"filter_id":{},"ok-1.x":{"type":"object","properties":{"a b":{}}},"top":{}},"required":["filter_id_665d001d"]}`, ""},

	{"as sent", Permissive, `{"type":"object","anyOf":[{"$ref":"#/$defs/a"}],"properties":{"x":{"type":"array","description":null}},"$defs":{"a":{}}}`, "", ""},
	{"as sent, with the least at the root", Permissive, `{ "anyOf" : [] }`, `{ "anyOf" : [],"type":"object","properties":{}}`, ""},
}

func TestConvert(t *testing.T) {
	for _, test := range conversions {
		t.Run(string(test.dialect)+"/"+test.name, func(t *testing.T) {
			f, _, err := Convert(test.dialect, "", test.in)
			if err != nil {
				t.Fatal(err)
			}
			want := test.want
			if want == "" {
				want = test.in
			}
			if f.Parameters != want || f.Description != test.says {
				t.Errorf("got  %s\nwant %s\nsays %q, want %q", f.Parameters, want, f.Description, test.says)
			}
			if (test.dialect == OpenAIStrict) != f.Strict || len(f.Notes) > 0 {
				t.Errorf("strict %v, notes %q", f.Strict, f.Notes)
			}
		})
	}
}

// A tool that strict mode cannot have is as with the dialect openai, with a note.
func TestNotStrict(t *testing.T) {
	deep := `{"type":"string"}`
	for range 11 {
		deep = `{"type":"object","properties":{"a":` + deep + `}}`
	}
	for name, in := range map[string]string{
		"any value":         `{"type":"object","properties":{"a":{}}}`,
		"free object":       `{"type":"object","properties":{"a":{"type":"object","properties":{}},"b":{"type":"object"}}}`,
		"map":               `{"type":"object","properties":{"a":{"type":"object","additionalProperties":{"type":"string"},"properties":{}}}}`,
		"open on purpose":   `{"type":"object","properties":{},"additionalProperties":true}`,
		"list of anything":  `{"type":"object","properties":{"a":{"type":"array","items":{}}}}`,
		"undescribed":       `{"type":"object","properties":{},"required":["x"]}`,
		"undescribed rule":  `{"type":"object","properties":{"a":{"type":"string"}},"anyOf":[{"required":["a"]},{"required":["b"]}]}`,
		"too deep":          deep,
		"same first member": `{"type":"object","properties":{"a":{"anyOf":[{"type":"object","properties":{"x":{"type":"string"}}},{"type":"object","properties":{"x":{"type":"integer"}}}]}}}`,
	} {
		strict, _, err := Convert(OpenAIStrict, "d", in)
		plain, _, _ := Convert(OpenAI, "d", in)
		if err != nil || strict.Strict || len(strict.Notes) != 1 {
			t.Errorf("%s: %+v, %v", name, strict, err)
		} else if strict.Parameters != plain.Parameters || strict.Description != plain.Description {
			t.Errorf("%s: %s", name, strict.Parameters)
		}
	}
}

func TestDescriptions(t *testing.T) {
	long := strings.Repeat("é", 2780)
	rule := `{"type":"object","anyOf":[{"required":["a"]},{"required":["b"]}]}`
	const rules = "Give at least one of these combinations: a; b."
	for _, test := range []struct {
		name    string
		dialect Dialect
		text    string
		schema  string
		want    string
	}{
		{"kept", OpenAI, `a <b> & "c"`, "", `a <b> & "c"`},
		{"none", OpenAI, "", "", ""},
		{"long", OpenAI, long, "", strings.Repeat("é", 1023) + "…"},
		{"long", OpenAIStrict, long, `{"type":"object"}`, strings.Repeat("é", 1023) + "…"},
		{"long", Gemini, long, "", strings.Repeat("é", 1023) + "…"},
		{"long", Mistral, long, "", strings.Repeat("é", 1023) + "…"},
		{"long", Anthropic, long, "", long},
		{"long", Permissive, long, "", long},
		{"just fits", OpenAI, strings.Repeat("é", 1024), "", strings.Repeat("é", 1024)},
		{"gives way to a rule", OpenAI, long, rule, strings.Repeat("é", 1024-len(rules)-2) + "…\n" + rules},
		{"not UTF-8", OpenAI, "a\xffb", "", "a\uFFFDb"},
	} {
		f, _, err := Convert(test.dialect, test.text, test.schema)
		if err != nil || f.Description != test.want {
			t.Errorf("%s/%s: %d characters, %v: %q", test.dialect, test.name, utf8.RuneCountInString(f.Description), err, f.Description)
		}
	}
}

func TestWellFormed(t *testing.T) {
	f, _, err := Convert(OpenAI, "", `{"type":"object","properties":{"a\ud800":{"description":"\ud83d\ude00 \\ud800 \udc00\ud800x `+"\xff"+`"}}}`)
	want := `{"type":"object","properties":{"a\ufffd":{"description":"\ud83d\ude00 \\ud800 \ufffd\ufffdx ` + "\uFFFD" + `"}}}`
	if err != nil || f.Parameters != want {
		t.Errorf("%s, %v", f.Parameters, err)
	}
}

func TestArguments(t *testing.T) {
	const in = `{"type":"object","required":["need"],"properties":{"need":{"type":["string","null"]},"opt":{"type":"integer"},"null":{"type":["string","null"]},
		"o":{"type":"object","properties":{"x":{"type":"string"},"y":{"anyOf":[{"type":"string"},{"type":"null"}]}}},"l":{"type":"array","items":{"type":"object","properties":{"z":{"type":"string"}}}},
		"u":{"anyOf":[{"type":"object","properties":{"k":{"const":"a"},"v":{"type":"string"}}},{"type":"object","properties":{"k":{"const":"b"},"w":{"type":["null","string"]}}}]}}}`
	strict, _, err := Convert(OpenAIStrict, "", in)
	if err != nil || !strict.Strict {
		t.Fatal(strict, err)
	}
	names, _, err := Convert(Anthropic, "", `{"type":"object","properties":{"filter[id]":{},"$top":{"type":"integer"},"b":{}}}`)
	if err != nil {
		t.Fatal(err)
	}
	plain, _, _ := Convert(OpenAI, "", in)
	permissive, _, _ := Convert(Permissive, "", in)
	for _, test := range []struct {
		f        *Function
		in, want string
	}{
		{strict, `{"need":null,"opt":null,"null":null,"o":null,"l":null,"u":null}`, `{"need":null,"null":null}`},
		{strict, `{"need":"x","opt": 12345678901234567890 }`, `{"need":"x","opt": 12345678901234567890 }`},
		{strict, `{"need":"x","o":{"x":null,"y":null},"l":[{"z":null},{"z":"s"}]}`, `{"need":"x","o":{"y":null},"l":[{},{"z":"s"}]}`},
		{strict, `{"u":{"k":"a","v":null}}`, `{"u":{"k":"a"}}`},
		{strict, `{"u":{"k":"b","w":null},"big":1.50e400,"opt":null}`, `{"u":{"k":"b","w":null},"big":1.50e400}`},
		{strict, `{"opt":null`, `{"opt":null`},
		{strict, ` null`, ` null`},
		{strict, ``, ``},
		{names, `{"filter_id":"7","b":{"filter_id":1}}`, `{"filter[id]":"7","b":{"filter_id":1}}`},
		{names, `{"b":1}`, `{"b":1}`},
		{names, `{"top":null,"filter_id":null}`, `{"filter[id]":null}`},
		{plain, `{"need":null,"opt":null,"null":null,"o":null}`, `{"need":null,"null":null}`},
		{plain, `{"gone":null, "need":"x"}`, `{"gone":null, "need":"x"}`},
		{permissive, `{"opt":null,"need":null}`, `{"need":null}`},
	} {
		if got := test.f.Arguments(test.in); got != test.want {
			t.Errorf("%s became %s, want %s", test.in, got, test.want)
		}
	}
}

// A null that a dialect has the model write for what it leaves out is never refused.
func TestNullsFit(t *testing.T) {
	for _, member := range []string{
		`{"type":"string"}`, `{"type":"string","nullable":true}`, `{"type":"STRING","nullable":true}`, `{"type":["string","null"]}`,
		`{"type":"string","enum":["a","b"],"nullable":true}`, `{"type":["string","null"],"enum":["a"]}`, `{"type":["string","null"],"enum":["a",null]}`,
		`{"anyOf":[{"type":"string"},{"type":"null"}]}`, `{"anyOf":[{"type":"string","nullable":true},{"type":"integer"}]}`,
		`{"anyOf":[{"type":"string"},{"type":"integer"}],"nullable":true}`, `{"oneOf":[{"type":"string"},{"type":"integer"}],"nullable":true}`,
		`{"$ref":"#/$defs/s","nullable":true}`, `{"$ref":"#/$defs/n"}`, `{"allOf":[{"$ref":"#/$defs/s"}],"nullable":true}`, `{"const":"x","nullable":true}`,
		`{"type":"object","properties":{"x":{"type":"integer","nullable":true}},"additionalProperties":false,"nullable":true}`,
		`{"type":"array","items":{"type":"string"},"minItems":1,"nullable":true}`, `{"nullable":true,"type":"integer","minimum":1}`,
	} {
		in := `{"type":"object","properties":{"o":` + member + `,"l":{"type":"array","items":{"type":"object","properties":{"o":` + member + `}}}},
			"$defs":{"s":{"type":"string"},"n":{"type":"string","nullable":true}}}`
		original, err := Original(in)
		if err != nil {
			t.Fatal(err)
		}
		check := NewChecker(original)
		check.Bad = func(err error) { t.Errorf("%s: %v", member, err) }
		for _, d := range Dialects() {
			f, _, err := Convert(Dialect(d), "", in)
			if err != nil || d == string(OpenAIStrict) && !f.Strict {
				t.Fatal(member, d, f, err)
			}
			for _, args := range []string{`{"o":null,"l":null}`, `{"o":null,"l":[{"o":null}]}`} {
				if problems := check.Problems(f.Arguments(args)); problems != nil {
					t.Errorf("%s, %s: %s became %s: %q", d, member, args, f.Arguments(args), problems)
				}
			}
		}
	}
}

// Gemini's spelling of types loses no parameter.
func TestSpelledTypes(t *testing.T) {
	const in = `{"type":"OBJECT","properties":{"s":{"type":"STRING"},"n":{"type":["Integer","NULL"]}},"required":["s"]}`
	for _, d := range Dialects() {
		f, _, err := Convert(Dialect(d), "", in)
		if err != nil || !strings.HasPrefix(f.Parameters, `{"type":"object"`) || !strings.Contains(f.Parameters, `"s"`) || !strings.Contains(f.Parameters, `"required":["s"`) {
			t.Errorf("%s: %+v, %v", d, f, err)
		} else if d != string(Permissive) && (strings.Contains(f.Parameters, "STRING") || strings.Contains(f.Parameters, "NULL")) {
			t.Errorf("%s: %s", d, f.Parameters)
		}
	}
	original, err := Original(in)
	if err != nil || !strings.HasPrefix(original, `{"type":"object",`) {
		t.Errorf("%s, %v", original, err)
	}
	for _, other := range []string{`{"type":"STRING"}`, `{"type":["ARRAY"]}`} {
		if original, err := Original(other); original != "" || err != nil {
			t.Errorf("%s: %s, %v", other, original, err)
		}
	}
}

// A bound that no schema can have is left out: providers refuse the whole request.
func TestImpossibleBounds(t *testing.T) {
	f, _, err := Convert(OpenAI, "", `{"type":"object","$recursiveAnchor":true,"properties":{"a":{"type":"number","multipleOf":0,"minimum":-1},"b":{"type":"number","multipleOf":-2},"c":{"type":"string","minLength":-1,"maxLength":5},"d":{"type":"number","multipleOf":0.01}}}`)
	want := `{"type":"object","properties":{"a":{"type":"number","minimum":-1},"b":{"type":"number"},"c":{"type":"string","maxLength":5},"d":{"type":"number","multipleOf":0.01}}}`
	if err != nil || f.Parameters != want {
		t.Errorf("%s, %v", f.Parameters, err)
	}
}
