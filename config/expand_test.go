package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func newExpander(dir string) *expander { return &expander{dir: dir, files: map[string]string{}} }

func TestExpand(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "token"), []byte("s3\r\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("A", "1")
	t.Setenv("NESTED", "${A}$$")
	t.Setenv("EMPTY", "")
	for in, want := range map[string]string{
		"":                          "",
		"plain":                     "plain",
		"Bearer ${A}":               "Bearer 1",
		"${A}${A}":                  "11",
		"${NESTED}":                 "${A}$$", // what is inserted is not expanded again
		"${EMPTY}":                  "",
		"$${A}":                     "${A}",
		"$$$${A}":                   "$${A}",
		"cost $5, $HOME, $":         "cost $5, $HOME, $",
		"x${file:token}y":           "xs3y",
		"${file:" + dir + "/token}": "s3",
	} {
		if got, err := newExpander(dir).expand(in); err != nil || got != want {
			t.Errorf("expand(%q) = %q, %v; want %q", in, got, err, want)
		}
	}
}

func TestExpansionNeverInjectsYAML(t *testing.T) {
	t.Setenv("EVIL", "x\nadmin: 0.0.0.0:1\n# ${HOME} & *a")
	c := mustLoad(t, "store: {key_prefix: \"${EVIL}\"}\n")
	if c.Store.KeyPrefix != "x\nadmin: 0.0.0.0:1\n# ${HOME} & *a" || c.Listen.Admin != "127.0.0.1:9003" {
		t.Errorf("%q, %q", c.Store.KeyPrefix, c.Listen.Admin)
	}
}

func TestKeysAreNotExpanded(t *testing.T) {
	t.Setenv("A", "1")
	c := mustLoad(t, "servers: {s: {command: [x], env: {\"${A}\": \"${A}\", PORT: 80}}}\n")
	if env := c.Servers["s"].Env; env["${A}"] != "1" || env["PORT"] != "80" {
		t.Errorf("%v", env)
	}
}

func TestExpandedNumbers(t *testing.T) {
	t.Setenv("N", "7")
	c := mustLoad(t, "max_request_bytes: ${N}\nclients: {default: {max_tools: \"${N}\", loop_timeout: \"${N}s\", max_iterations: \"${N}\"}}\n").Clients["default"]
	if c.MaxTools != 7 || c.MaxIterations != 7 || c.LoopTimeout != 7*time.Second {
		t.Errorf("%+v", c)
	}
}

// An escaped text expands to itself, whatever it holds.
func TestEscapeRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOfN(rapid.RuneFrom([]rune("a${}$:\n\x00é")), 0, 30, -1).Draw(t, "text")
		got, err := newExpander("").expand(strings.ReplaceAll(text, "$", "$$"))
		if err != nil || got != text {
			t.Fatalf("%q, %v", got, err)
		}
	})
}

// Neither a value nor an error about it shows what a secret holds.
func FuzzProblemsHoldNoSecret(f *testing.F) {
	f.Add("url: '${S}'", "s3cr3t-value")
	f.Add("max_request_bytes: ${S}", "s3cr3t-value")
	f.Add("servers: {a: {url: 'http://${S}:x', headers: {a: \"${S}\\n\"}}}", "s3cr3t-value")
	f.Add("clients: {a: {servers: ['${S}']}}\nroutes: {'*': '${S}'}", "s3cr3t-value")
	f.Fuzz(func(t *testing.T, text, secret string) {
		if len(secret) < 8 || strings.ContainsAny(secret, "\x00") || strings.Contains(text, secret) {
			return
		}
		t.Setenv("S", secret)
		c, err := Load(write(t, text))
		if shown := fmt.Sprintf("%v %+v %#v %v", c, c, c, err); strings.Contains(shown, secret) {
			t.Errorf("the secret %q is in: %s", secret, shown)
		}
	})
}
