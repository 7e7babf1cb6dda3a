package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mcp-via-llm/mcp-via-llm/e2e/llm"
)

// runDemo runs `make demo` as a user does.
func runDemo(t *testing.T, env []string, variables ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, "make", append([]string{"--no-print-directory", "demo"}, variables...)...)
	command.Dir = tools.Root()
	command.Env = append(os.Environ(), env...)
	out, err := command.CombinedOutput()
	return string(out), err
}

// TestDemo runs the first command of the README, and its form for a model and servers of the user's own.
func TestDemo(t *testing.T) {
	t.Run("scripted", func(t *testing.T) {
		out, err := runDemo(t, nil)
		// Two curls and two SDK requests: all but the streamed curl show the text in one piece.
		if n := strings.Count(out, "5 plus 7 is 12."); err != nil || n != 3 {
			t.Fatalf("%v, and the answer is shown %d times, want 3:\n%s", err, n, out)
		}
		if n := strings.Count(out, "calc__add_numbers: ok"); n != 4 {
			t.Errorf("%d calls are shown, want 4:\n%s", n, out)
		}
	})
	t.Run("own model and servers", func(t *testing.T) {
		model, err := llm.Start("127.0.0.1:0", llm.Calculator)
		if err != nil {
			t.Fatal(err)
		}
		defer model.Close()
		config := filepath.Join(t.TempDir(), "my.yaml")
		if err := os.WriteFile(config, []byte("servers:\n  mine: {command: ["+addServer+"]}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		// What make and shells would expand, split or run.
		const question = `What's 2 plus 3? It costs $5, "quite" a $(touch x ${HOME} $$ \n ` + "`id`" + ` * & ; #`
		out, err := runDemo(t, []string{"MY_KEY=secret-key"}, "LLM=http://"+model.Address()+"/v1", "KEY_ENV=MY_KEY", "CONFIG="+config, "ASK="+question)
		if n := strings.Count(out, "2 plus 3 is 5."); err != nil || n != 3 || strings.Count(out, "mine__add_numbers: ok") != 4 {
			t.Fatalf("%v, and the answer is shown %d times, want 3:\n%s", err, n, out)
		}
		if strings.Contains(out, "secret-key") {
			t.Error("the key is shown")
		}
		for _, request := range model.Requests() {
			if got := request.Chat.Messages[0].Text(); got != question {
				t.Errorf("the question arrived as %s", got)
			}
			if request.Header.Get("Authorization") != "Bearer secret-key" {
				t.Errorf("segment with authorization %q", request.Header.Get("Authorization"))
			}
		}
	})
	for name, c := range map[string]struct {
		variables []string
		want      string
	}{
		"no such key":    {[]string{"LLM=http://127.0.0.1:9/v1", "KEY_ENV=NO_SUCH_KEY"}, "NO_SUCH_KEY, which is not set"},
		"no LLM there":   {[]string{"LLM=http://127.0.0.1:9/v1"}, "the LLM does not answer"},
		"no such config": {[]string{"CONFIG=/nonexistent.yaml"}, "CONFIG: open /nonexistent.yaml"},
		"model alone":    {[]string{"MODEL=m"}, "say LLM="},
	} {
		t.Run(name, func(t *testing.T) {
			if out, err := runDemo(t, nil, c.variables...); err == nil || !strings.Contains(out, c.want) {
				t.Errorf("%v, want %q in\n%s", err, c.want, out)
			}
		})
	}
}
