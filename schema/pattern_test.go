package schema

import "testing"

func TestPortable(t *testing.T) {
	for pattern, want := range map[string]bool{
		`^[a-z]+$`: true, `^(?=.*\d).{8,}$`: true, `(?<!a)b`: true, `^(a)\1$`: true, `^\u00e9\d{1,2000}$`: true, `^[\w.\-]+\/$`: true, ``: true,
		`^\p{L}+$`: false, `\P{Lu}`: false, `[`: false, `(`: false, `*a`: false,
	} {
		if got := portable(pattern); got != want {
			t.Errorf("%q: %v", pattern, got)
		}
	}
}

// FuzzPortable looks for a pattern that hangs or panics.
func FuzzPortable(f *testing.F) {
	f.Add(`^(?=.*\d)(a|b){2,5}\1$`)
	f.Fuzz(func(_ *testing.T, pattern string) { portable(pattern) })
}
