package e2e

import (
	"context"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// TestDemo runs the first command of the README as a user does.
func TestDemo(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, "make", "--no-print-directory", "demo")
	command.Dir = tools.Root()
	data, err := command.CombinedOutput()
	out := string(data)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	// Two curls and two SDK requests: the whole ones show the text, each turn shows its call.
	if n := strings.Count(out, "5 plus 7 is 12."); n < 3 {
		t.Errorf("the answer is shown %d times, want 3:\n%s", n, out)
	}
	if n := strings.Count(out, "calc__add_numbers: ok"); n != 4 {
		t.Errorf("%d calls are shown, want 4:\n%s", n, out)
	}
}
