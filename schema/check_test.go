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
		{"exact numbers", schema, `{"n":9007199254740994}`, false, "/n: maximum: "},
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
