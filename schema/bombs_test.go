package schema

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

// chain is a schema of levels definitions, each of which names the next one many
// times.
func chain(levels, many int, wrap string) string {
	var b strings.Builder
	b.WriteString(`{"type":"object","properties":{"a":{"$ref":"#/$defs/d0"}},"$defs":{`)
	for i := range levels {
		ref := fmt.Sprintf(`{"$ref":"#/$defs/d%d"}`, i+1)
		fmt.Fprintf(&b, `"d%d":`+wrap+`,`, i, strings.TrimSuffix(strings.Repeat(ref+",", many), ","))
	}
	fmt.Fprintf(&b, `"d%d":{"type":"string"}}}`, levels)
	return b.String()
}

func bombs() map[string]string {
	nested := func(open, last, end string, n int) string {
		return `{"type":"object","properties":{"a":` + strings.Repeat(open, n) + last + strings.Repeat(end, n) + `}}`
	}
	branches := strings.TrimSuffix(strings.Repeat(`{"properties":{"x":{"const":"C"},"y":{}},"required":["x"]},`, 3000), ",")
	for i := range 3000 {
		branches = strings.Replace(branches, `"C"`, fmt.Sprint(i), 1)
	}
	var wide strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&wide, `"p%d":{},`, i)
	}
	return map[string]string{
		"exponential references":   chain(40, 10, `{"type":"object","anyOf":[%s]}`),
		"exponential sums":         chain(40, 2, `{"allOf":[%s]}`),
		"doubling":                 chain(13, 2, `{"type":"object","anyOf":[%s]}`),
		"deep":                     nested(`{"items":`, `{}`, `}`, 10_000),
		"just not too deep":        nested(`{"type":"array","items":`, `{}`, `}`, 190),
		"deep alternatives":        nested(`{"type":["object","array"],"anyOf":[`, `{}`, `]}`, 90),
		"never closed":             strings.Repeat(`{"a":[`, 50_000),
		"huge enum":                `{"type":"object","properties":{"a":{"enum":[` + strings.Repeat(`"v",`, 40_000) + `"w"]}}}`,
		"huge enum, named often":   `{"type":"object","properties":{"a":{"anyOf":[` + strings.Repeat(`{"$ref":"#/$defs/e"},`, 3000) + `{}]}},"$defs":{"e":{"enum":[` + strings.Repeat(`1,`, 10_000) + `2]}}}`,
		"many properties":          `{"type":"object","properties":{` + wide.String() + `"q":{}},"anyOf":[` + strings.Repeat(`{},`, 3000) + `{}]}`,
		"wide beside alternatives": `{"type":"object","properties":{"o":{"properties":{` + wide.String() + `"q":{}},"anyOf":[` + strings.Repeat(`{"properties":{"r":{}}},`, 3000) + `{}]}}}`,
		"many alternatives":        `{"type":"object","anyOf":[` + branches + `]}`,
		"one name many times":      `{"type":"object","properties":{` + strings.Repeat(`"a":{},`, 30_000) + `"a":{}}}`,
		"recursion in all ways":    `{"type":"object","properties":{"a":{"$ref":"#"}},"anyOf":[{"$ref":"#"},{"$ref":"#/anyOf/0"}],"allOf":[{"$ref":"#/allOf/0"}],"not":{"$ref":"#"}}`,
		"large number":             `{"type":"object","properties":{"a":{"type":"integer","exclusiveMinimum":1e999999999,"maximum":` + strings.Repeat("9", 200_000) + `}}}`,
		"long pointer":             `{"type":"object","properties":{"a":{"$ref":"#` + strings.Repeat("/properties/a", 10_000) + `"}}}`,
	}
}

// A schema may not cost more than it is worth, whatever its server means by it.
func TestBombs(t *testing.T) {
	for name, in := range bombs() {
		for _, d := range Dialects() {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			f, _, err := Convert(Dialect(d), "d", in)
			runtime.ReadMemStats(&after)
			if made := (after.TotalAlloc - before.TotalAlloc) >> 20; made > 1000 {
				t.Errorf("%s/%s: %d MB of memory went through", d, name, made)
			}
			if err == nil && (f.size() > MaxBytes || !gjson.Valid(f.Parameters)) {
				t.Errorf("%s/%s: %d bytes", d, name, f.size())
			}
		}
	}
}

// Over the limit, descriptions inside are shortened first, then references are
// followed less deep, then the tool is refused.
func TestSizes(t *testing.T) {
	manual := strings.Repeat("é", 3000)
	properties := func(n int, schema string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `"p%d":%s,`, i, schema)
		}
		return `{"type":"object","properties":{` + strings.TrimSuffix(b.String(), ",") + `}}`
	}
	for _, test := range []struct {
		name, in    string
		description int // characters that are left of one inside
		note, err   string
	}{
		{"small", properties(9, `{"type":"string","description":"`+manual+`"}`), 3000, "", ""},
		{"long descriptions", properties(40, `{"type":"string","description":"`+manual+`"}`), 200, "descriptions in the schema are cut at 200 characters", ""},
		{"many long descriptions", properties(900, `{"type":"string","description":"`+manual[:200]+`"}`), 0, "descriptions in the schema are cut at 0 characters", ""},
		{"large all the same", properties(900, `{"type":"string","enum":["`+manual[:200]+`"]}`), 0, "", "schema of "},
		{"larger than is read", properties(9, `{"description":"`+strings.Repeat(manual, 6)+`"}`), 0, "", "over the limit of 262144"},
	} {
		for _, d := range []Dialect{OpenAI, Permissive, Gemini} {
			f, _, err := Convert(d, "d", test.in)
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Errorf("%s/%s: %v", d, test.name, err)
				}
				continue
			}
			if err != nil {
				t.Errorf("%s/%s: %v", d, test.name, err)
				continue
			}
			if got := len([]rune(gjson.Get(f.Parameters, "properties.p1.description").String())); got != test.description && (d != Gemini || test.description > 0) {
				t.Errorf("%s/%s: %d characters", d, test.name, got)
			}
			if notes := strings.Join(f.Notes, ""); f.size() > MaxBytes || !strings.Contains(notes, test.note) || (test.note == "") != (notes == "") {
				t.Errorf("%s/%s: %d bytes, notes %q", d, test.name, f.size(), notes)
			}
		}
	}
	f, _, err := Convert(OpenAI, "d", chain(13, 2, `{"type":"object","anyOf":[%s]}`))
	if err != nil || !strings.Contains(f.Parameters, `"description":"Form: d`) {
		t.Errorf("%v", err)
	}
}

func FuzzConvert(f *testing.F) {
	for _, c := range conversions {
		f.Add(c.in)
	}
	f.Add(`{"type":"object","properties":{"a":{"anyOf":[{"$ref":"#"},{"allOf":[{"$ref":"#/properties/a"}]}]}}}`)
	f.Fuzz(func(t *testing.T, in string) {
		for _, d := range Dialects() {
			fn, _, err := Convert(Dialect(d), "d", in)
			if err != nil {
				if strings.HasPrefix(err.Error(), "schema: ") {
					t.Errorf("%s: %v", d, err) // a panic
				}
				continue
			}
			if !gjson.Valid(fn.Parameters) || !gjson.Get(fn.Parameters, "@this").IsObject() || fn.size() > MaxBytes {
				t.Errorf("%s: %s", d, fn.Parameters)
			}
		}
	})
}
