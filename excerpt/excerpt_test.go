package excerpt

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestWithinTheLimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String().Draw(t, "text")
		text = strings.Repeat(text, rapid.IntRange(1, 50).Draw(t, "times"))
		limit := rapid.IntRange(1, 2000).Draw(t, "limit")
		got := Of(text, limit)
		limit = max(limit, Least)
		switch {
		case len(text) <= limit && got != text:
			t.Fatal("a text within the limit changed")
		case len(got) > limit:
			t.Fatalf("%d bytes, limit %d", len(got), limit)
		case len(text) > limit && !strings.Contains(got, " bytes left out ...]"):
			t.Fatalf("nothing says that it was cut: %q", got)
		case !utf8.ValidString(got):
			t.Fatalf("a rune was cut: %q", got)
		}
	})
}

func TestBothEndsStay(t *testing.T) {
	got := Of("begin"+strings.Repeat("x", 5000)+"end", 200)
	if !strings.HasPrefix(got, "beginx") || !strings.HasSuffix(got, "xend") || !strings.Contains(got, "[... 48") {
		t.Errorf("%q", got)
	}
}
