package credential

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestStatic(t *testing.T) {
	for name, row := range map[string]struct{ header, scheme, want string }{
		"bearer": {"Authorization", "Bearer", "Bearer s3cret"},
		"other":  {"Authorization", "token", "token s3cret"},
		"bare":   {"Authorization", "", "s3cret"},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAPI(t, func(string) (int, string) { return 200, "" })
			s := source(t, a.URL+"/mcp", &Auth{Token: "s3cret", Header: row.header, Scheme: row.scheme})
			if got := call(t, s, ""); got != "200" || !slices.Equal(a.authorizations(), []string{row.want}) {
				t.Errorf("%s, %q", got, a.authorizations())
			}
		})
	}
}

// A static token that is refused is not sent again and again.
func TestStaticRefused(t *testing.T) {
	a := newAPI(t, only("other"))
	if got := call(t, source(t, a.URL, &Auth{Token: "s3cret"}), ""); got != "401" || len(a.authorizations()) != 1 {
		t.Errorf("%s, %q", got, a.authorizations())
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// A token's file is read again after a second, and what it held before stays
// while it cannot be read.
func TestTokenFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	synctest.Test(t, func(t *testing.T) {
		s := source(t, "http://server.test", &Auth{TokenFile: path})
		token := func() string {
			got, err := s.shared.token(t.Context())
			if err != nil {
				return err.Error()
			}
			return got
		}
		if got := token(); !strings.Contains(got, "no such file") {
			t.Error(got)
		}
		write(t, path, "one\n")
		if got := token(); got != "one" {
			t.Error(got)
		}
		for _, step := range []struct{ content, before, after string }{
			{"two", "one", "two"}, {"", "two", "two"}, {"a\nb", "two", "two"}, {strings.Repeat("x", maxFile+1), "two", "two"}, {"three\r\n", "two", "three"},
		} {
			write(t, path, step.content)
			if got := token(); got != step.before {
				t.Errorf("%.10q at once: %q", step.content, got)
			}
			time.Sleep(time.Second)
			if got := token(); got != step.after {
				t.Errorf("%.10q after a second: %q", step.content, got)
			}
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if got := token(); got != "three" {
			t.Errorf("without the file: %q", got)
		}
	})
}

// A token that was rotated within the second is found by the server's refusal.
func TestTokenFileRotated(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	write(t, path, "old")
	a := newAPI(t, only("new"))
	s := source(t, a.URL, &Auth{TokenFile: path})
	if got := call(t, s, ""); got != "401" || len(a.authorizations()) != 1 {
		t.Errorf("%s, %q", got, a.authorizations())
	}
	write(t, path, "new")
	if got := call(t, s, ""); got != "200" || !slices.Equal(a.authorizations(), []string{"Bearer old", "Bearer old", "Bearer new"}) {
		t.Errorf("%s, %q", got, a.authorizations())
	}
	if bodies := a.bodies; bodies[1] != "the body" || bodies[2] != "the body" {
		t.Errorf("%q", bodies)
	}
}
