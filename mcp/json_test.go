package mcp

import (
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

func TestFlat(t *testing.T) {
	nested := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for _, same := range []string{``, `{"a":[1,"[[{"]}`, nested(maxDepth), strings.Repeat(`{"a":[]},`, maxDepth), `"` + nested(2*maxDepth) + `"`, strings.Repeat(`]`, 2*maxDepth)} {
		if got := string(flat([]byte(same))); got != same {
			t.Errorf("%.50s… became %.50s…", same, got)
		}
	}
	for deep, want := range map[string]string{
		`{"a":` + nested(maxDepth) + `,"b":[1,"]"]}`:                                         `{"a":` + strings.Repeat("[", maxDepth-1) + "null" + strings.Repeat("]", maxDepth-1) + `,"b":[1,"]"]}`,
		nested(maxDepth)[:maxDepth] + `{"x":"}\"{","y":[2]},3` + nested(maxDepth)[maxDepth:]: strings.Repeat("[", maxDepth) + "null,3" + strings.Repeat("]", maxDepth),
	} {
		if got := string(flat([]byte(deep))); got != want || !gjson.Valid(got) || !validJSON([]byte(got)) {
			t.Errorf("%.80s… became %.80s…", deep, got)
		}
	}
}
