package schema

import (
	"fmt"
	"strings"
	"testing"
)

func TestChecker(t *testing.T) {
	const schema = `{"type":"object","required":["n"],"properties":{"n":{"type":"integer","maximum":9007199254740993},"m":{"type":"string","format":"email"},"f":{"multipleOf":0.1}}}`
	for _, test := range []struct {
		name, schema, value string
		formats             bool
		want                string
	}{
		{"fits", schema, `{"n":9007199254740993,"m":"no"}`, false, ""},
		{"exact numbers", schema, `{"n":9007199254740994}`, false, "/n: must be at most 9007199254740993, not 9007199254740994"},
		{"formats count", schema, `{"n":1,"m":"no"}`, true, "/m: "},
		{"not JSON", schema, `{"n":`, false, "not valid JSON"},
		{"several", schema, `{"n":"x","m":1}`, false, "; "},
		{"beyond any arithmetic", schema, `{"n":1,"f":1e999999999}`, false, ""},
		{"no schema", ``, `{"n":1}`, false, ""},
	} {
		c := NewChecker(test.schema)
		c.Formats = test.formats
		for range 2 {
			if got := strings.Join(c.Problems(test.value), "; "); (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
				t.Errorf("%s: %q, want %q", test.name, got, test.want)
			}
		}
	}
}

// A schema that cannot be used says why, once, and everything fits it.
func TestCheckerOfNoSchema(t *testing.T) {
	for _, schema := range []string{
		`{"properties":{"a":{"$ref":"file:///etc/passwd"}}}`,
		`{"properties":{"a":{"$ref":"http://127.0.0.1:1/schema.json"}}}`,
		`{"properties":{"a":{"pattern":"(?=look)ahead"}}}`,
		`{"$schema":"https://example.com/own"}`,
		`{"properties":{"a":{"type":"no such type"}}}`,
		`{`,
	} {
		heard := 0
		c := NewChecker(schema)
		c.Bad = func(error) { heard++ }
		if c.Problems(`{"a":1}`) != nil || c.Problems(`{"a":2}`) != nil || heard != 1 {
			t.Errorf("%s: heard %d times", schema, heard)
		}
	}
}

// A validation ends, whatever the schema: undecided.
func TestCheckerEnds(t *testing.T) {
	for name, level := range map[string]string{
		"sums":         `{"allOf":[%[2]s,%[2]s]}`,
		"alternatives": `{"anyOf":[{"allOf":[%[2]s,{"required":["gone"]}]},{"allOf":[%[2]s,{"required":["gone"]}]}]}`,
		"members":      `{"properties":{"a":{"anyOf":[%[2]s,%[2]s]}},"required":["gone"]}`,
		"drafts":       `{"$schema":"http://json-schema.org/draft-07/schema#","allOf":[%[2]s,%[2]s]}`,
	} {
		var defs strings.Builder
		for i := range 40 {
			fmt.Fprintf(&defs, `"d%d":`+level+`,`, i, fmt.Sprintf(`{"$ref":"#/$defs/d%d"}`, i+1))
		}
		c := NewChecker(`{"$ref":"#/$defs/d0","$defs":{` + defs.String() + `"d40":{"type":"object"}}}`)
		c.Bad = func(err error) { t.Errorf("%s: %v", name, err) }
		if problems := c.Problems(strings.Repeat(`{"a":`, 40) + `1` + strings.Repeat(`}`, 40)); problems != nil {
			t.Errorf("%s: %q", name, problems)
		}
	}
}

// Servers write schemas that forbid more than they mean.
func TestCheckerIsTolerant(t *testing.T) {
	for _, test := range []struct{ schema, fits, not string }{
		{`{"type":"OBJECT","properties":{"s":{"type":"STRING"},"n":{"type":"INTEGER","nullable":true}}}`, `{"s":"x","n":null}`, `{"s":1}`},
		{`{"type":["Object"],"properties":{"l":{"type":"ARRAY","items":{"type":"Float"}}}}`, `{"l":[1.5]}`, `{"l":["x"]}`},
		{`{"properties":{"e":{"enum":[]},"s":{"type":"string","enum":[]}}}`, `{"e":1,"s":"x"}`, `{"s":1}`},
		{`{"properties":{"a":{"type":"string","enum":["a"],"nullable":true}}}`, `{"a":null}`, `{"a":"b"}`},
		{`{"properties":{"a":{"nullable":true,"anyOf":[{"type":"string"},{"type":"number"}]}}}`, `{"a":null}`, `{"a":true}`},
		{`{"properties":{"a":{"nullable":true,"$ref":"#/$defs/s"}},"$defs":{"s":{"type":"string"}}}`, `{"a":null}`, `{"a":1}`},
		{`{"properties":{"a":{"nullable":true,"allOf":[{"type":"string"}]}}}`, `{"a":null}`, `{"a":1}`},
		{`{"properties":{"a":{"nullable":true,"const":"x","anyOf":[{"minLength":1}]}}}`, `{"a":null}`, `{"a":"y"}`},
		{`{"properties":{"a":{"nullable":false,"type":"string"}}}`, `{"a":"x"}`, `{"a":null}`},
		{`{"properties":{"type":{"type":"string"},"enum":{"type":"array"}}}`, `{"type":"OBJECT","enum":[]}`, `{"type":5}`},
		{`{"properties":{"a":{"default":{"type":"OBJECT","enum":[]},"type":"string"}}}`, `{"a":"x"}`, `{"a":5}`},
	} {
		c := NewChecker(test.schema)
		c.Bad = func(err error) { t.Errorf("%s: %v", test.schema, err) }
		if problems := c.Problems(test.fits); problems != nil {
			t.Errorf("%s: %s: %q", test.schema, test.fits, problems)
		}
		if c.Problems(test.not) == nil {
			t.Errorf("%s: %s fits", test.schema, test.not)
		}
	}
}

// A schema that refers to itself without end says nothing of any value.
func TestCyclic(t *testing.T) {
	const props = `{"type":"object","properties":{"a":%s},"$defs":{"d":%s}}`
	for _, test := range []struct {
		schema, value string
		cyclic        bool
	}{
		{fmt.Sprintf(props, `{"$ref":"#/properties/a"}`, `{}`), `{"a":1}`, true},
		{fmt.Sprintf(props, `{"$ref":"#/$defs/d"}`, `{"anyOf":[{"$ref":"#/properties/a"}]}`), `{"a":1}`, true},
		{fmt.Sprintf(props, `{"$ref":"#/$defs/d"}`, `{"not":{"$ref":"#/$defs/d"}}`), `{"a":1}`, true},
		{fmt.Sprintf(props, `{"$ref":"#me"}`, `{"$anchor":"me","dependentSchemas":{"x":{"$ref":"#me"}}}`), `{"a":{"x":1}}`, true},
		{`{"$ref":"#"}`, `{}`, true},
		{fmt.Sprintf(props, `{"$ref":"#"}`, `{}`), `{"a":{"a":{}}}`, false},
		{fmt.Sprintf(props, `{"$ref":"#/$defs/d"}`, `{"type":"object","properties":{"d":{"$ref":"#/$defs/d"}},"anyOf":[{"items":{"$ref":"#/$defs/d"}}]}`), `{"a":{"d":{"d":{}}}}`, false},
		{fmt.Sprintf(props, `{"allOf":[{"$ref":"#/$defs/d"},{"$ref":"#/$defs/d"}]}`, `{"type":"string"}`), `{"a":"x"}`, false},
		{`{"properties":{"a":{"default":{"$ref":"#/properties/a"}}}}`, `{"a":"x"}`, false},
		{`{`, `{}`, false},
	} {
		if got := Cyclic(test.schema); got != test.cyclic {
			t.Errorf("%s: %v", test.schema, got)
		}
		if problems := NewChecker(test.schema).Problems(test.value); problems != nil {
			t.Errorf("%s: %q", test.schema, problems)
		}
	}
	for name, in := range bombs() {
		t.Logf("%s: %v", name, Cyclic(in))
	}
}

// What is said of a bound reads as a person would say it.
func TestProblemOf(t *testing.T) {
	for _, test := range []struct{ schema, value, want string }{
		{`{"exclusiveMinimum":0}`, `0`, "must be greater than 0, not 0"},
		{`{"exclusiveMaximum":1.5}`, `2`, "must be less than 1.5, not 2"},
		{`{"minimum":1}`, `0.25`, "must be at least 1, not 0.25"},
		{`{"maximum":-1e3}`, `9007199254740993`, "must be at most -1000, not 9007199254740993"},
		{`{"multipleOf":2}`, `3`, "must be a multiple of 2, not 3"},
		{`{"minLength":2}`, `"x"`, "must have at least 2 characters, not 1"},
		{`{"maxLength":1}`, `"xy"`, "must have at most 1 characters, not 2"},
		{`{"minItems":1}`, `[]`, "must have at least 1 items, not 0"},
		{`{"maxItems":1}`, `[1,2]`, "must have at most 1 items, not 2"},
		{`{"minProperties":1}`, `{}`, "must have at least 1 members, not 0"},
		{`{"maxProperties":0}`, `{"a":1}`, "must have at most 0 members, not 1"},
		{`{"properties":{"a":false}}`, `{"a":1}`, "must not be there"},
		{`{"const":null}`, `1`, "value must be null"},
		{`{"const":{"k":1}}`, `1`, `value must be {"k":1}`},
		{`{"enum":["a","b"]}`, `1`, "value must be one of 'a', 'b'"},
		{`{"enum":["a",null,[12345678901234567890]]}`, `1`, `value must be one of "a", null, [12345678901234567890]`},
		{`{"oneOf":[{"type":"integer"},{"minimum":1}]}`, `1`, "must fit one of the alternatives only, and fits 0 and 1 (counted from 0)"},
		{`{"maximum":1e300}`, `1e301`, "must be at most 1e+300, not 1e+301"},
	} {
		problems := NewChecker(test.schema).Problems(test.value)
		if len(problems) != 1 || !strings.HasSuffix(problems[0], ": "+test.want) {
			t.Errorf("%s of %s: %q", test.schema, test.value, problems)
		}
	}
}
