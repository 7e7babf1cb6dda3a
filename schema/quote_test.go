package schema

import (
	"encoding/json"
	"testing"
)

// A text is quoted so that it can be read again, whatever is in it.
func TestQuote(t *testing.T) {
	for r := range rune(0x2100) {
		for _, s := range []string{string(r), "a" + string(r) + "b"} {
			var back string
			if err := json.Unmarshal([]byte(quote(s)), &back); err != nil || back != s {
				t.Fatalf("%q became %s: %v", s, quote(s), err)
			}
		}
	}
}

// Of a pointer each escape counts once (RFC 6901, section 4).
func TestUnescape(t *testing.T) {
	for step, want := range map[string]string{"a": "a", "a~1b": "a/b", "~01": "~1", "%7E1": "/", "%25": "%", "%": "%"} {
		if got := unescape(step); got != want {
			t.Errorf("%q became %q, want %q", step, got, want)
		}
	}
}
