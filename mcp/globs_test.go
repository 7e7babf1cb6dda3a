package mcp

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
)

// A glob that matches no tool is said once, and again when it has matched since.
func TestIdleGlobsAreSaidOnce(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, nil))
	cfg := &Server{Name: "s", Allow: []string{"*"}, Deny: []string{"delet_all", "read"}}
	var g idleGlobs
	for i, row := range []struct {
		listed []string
		said   string // part of all that is said
		times  int
	}{
		{[]string{"delete_all", "read"}, "key=servers.s.tools.deny[0] glob=delet_all nearest=delete_all", 1},
		{[]string{"delete_all", "read", "x"}, "", 0},
		{[]string{"delet_all", "read"}, "", 0},
		{[]string{"x"}, "glob=read", 2},
		{nil, "key=servers.s.tools.allow[0]", 1},
	} {
		out.Reset()
		g.look(cfg, row.listed, log)
		if !strings.Contains(out.String(), row.said) || strings.Count(out.String(), "\n") != row.times {
			t.Errorf("%d: %s", i, out.String())
		}
	}
}
