package e2e

import (
	"context"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcp-via-llm/mcp-via-llm/e2e/llm"
)

// sdkLimit is generous: an SDK takes seconds to load on busy cores.
const sdkLimit = 2 * time.Minute

// TestSDKs runs a tool turn with the official OpenAI SDKs, unmodified, streamed and not.
func TestSDKs(t *testing.T) {
	on(t, current(), func(t *testing.T, v variant) {
		r := start(t, v, setup{brain: llm.Calculator, config: addConfig("")})
		scripts := filepath.Join(tools.Root(), "e2e", "sdk")
		sdks := map[string][]string{
			"python": {tools.Python(), filepath.Join(scripts, "turn.py")},
			"node":   {"node", filepath.Join(scripts, "turn.mjs"), tools.NodeModules()},
		}
		for name, command := range sdks {
			for _, how := range []string{"stream", "whole"} {
				t.Run(name+" "+how, func(t *testing.T) {
					arguments := append(command[1:len(command):len(command)], r.URL+"/v1", how, "test-model", "What is 5 plus 7?")
					checkSDK(t, command[0], arguments)
				})
			}
		}
	})
}

type seen struct {
	Text        string   `json:"text"`
	Role        string   `json:"role"`
	Finish      string   `json:"finish"`
	ToolCalls   int      `json:"tool_calls"`
	TotalTokens int      `json:"total_tokens"`
	ToolsCalled []string `json:"tools_called"`
}

func checkSDK(t *testing.T, program string, arguments []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), sdkLimit)
	defer cancel()
	out, err := exec.CommandContext(ctx, program, arguments...).Output()
	if err != nil {
		if exit, ok := err.(*exec.ExitError); ok {
			t.Fatalf("%v: %s", err, exit.Stderr)
		}
		t.Fatal(err)
	}
	var got seen
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	want := seen{"5 plus 7 is 12.", "assistant", "stop", 0, 58 + 18 + 96 + 9, []string{"calc__add_numbers"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the application sees (-want +got):\n%s", diff)
	}
}
