package spelling

import "testing"

func TestDistance(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"a", "", 1}, {"", "ab", 2}, {"kitten", "sitting", 3}, {"servers", "server", 1},
		{"ab", "ba", 1}, {"ulr", "url", 1}, {"lgo", "log", 1}, {"defautl", "default", 1}, {"ca", "abc", 3}, {"abcd", "badc", 2},
	} {
		if got, back := Distance(tt.a, tt.b), Distance(tt.b, tt.a); got != tt.want || back != tt.want {
			t.Errorf("%q and %q: %d and %d, want %d", tt.a, tt.b, got, back, tt.want)
		}
	}
}

func TestNearest(t *testing.T) {
	for _, tt := range []struct{ word, want string }{{"ulr", "url"}, {"TLS", "tls"}, {"evn", "env"}, {"zzzz", ""}, {"", ""}} {
		if got := Nearest(tt.word, []string{"tls", "env", "url"}); got != tt.want {
			t.Errorf("%q: %q, want %q", tt.word, got, tt.want)
		}
	}
}
