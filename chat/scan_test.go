package chat

import (
	"slices"
	"testing"

	"github.com/tidwall/gjson"
)

type visited struct {
	key, raw, text string
	index          int
}

// FuzzEach holds the scanner to gjson's, which looks at every byte.
func FuzzEach(f *testing.F) {
	for _, s := range []string{
		``, `{`, `[`, `"`, `{"`, `{"a`, `{"a":`, `{"a":"`, `{"a":{`, `[}`, `{]`, `{:}`, `{"a":,}`, `{"a"}`, `1`, `null`, `"a"`,
		`{}`, `[]`, ` { } `, `{"a":1}`, ` {"a" : [1, "]", {"b":"}"}] , "c":"\"\\\\", "\u0061":null, "a":-1.5e3 , "":true}` + "\n",
		`["a\\","\\\"",[],{},[[["x"]]],false]`, `{"messages":[{"role":"user","content":"a \\\" b"}],"model":"m"}`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var got []visited
		each(gjson.Result{Raw: s}, func(key string, value gjson.Result) {
			got = append(got, visited{key, value.Raw, value.String(), value.Index})
		})
		if !validJSON(s) {
			return // it must end, and not panic
		}
		root := gjson.Parse(s)
		var want []visited
		if root.Type == gjson.JSON {
			root.ForEach(func(key, value gjson.Result) bool {
				name := ""
				if key.Type == gjson.String {
					name = key.String()
				}
				want = append(want, visited{name, value.Raw, value.String(), value.Index})
				return true
			})
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q:\ngot  %+v\nwant %+v", s, got, want)
		}
	})
}
