package loop

import (
	"bytes"
	"context"
	"flag"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/mcp-via-llm/mcp-via-llm/loop/transcript"
)

var update = flag.Bool("update", false, "write what transcripts give in place of what they want")

// TestTranscripts runs every scripted turn on the bare handler, with the model's
// answers whole and in small pieces.
func TestTranscripts(t *testing.T) {
	all, err := transcript.LoadAll("testdata/turns")
	if err != nil {
		t.Fatal(err)
	}
	for _, script := range all {
		for how, cuts := range map[string][]int{"whole": nil, "byte by byte": {1}} {
			t.Run(script.Name+"/"+how, func(t *testing.T) { runTranscript(t, script, cuts) })
		}
	}
}

func runTranscript(t *testing.T, script *transcript.Transcript, cuts []int) {
	g := newRig()
	for n := 1; ; n++ {
		body, contentType := script.Segment(n)
		if body == nil {
			break
		}
		g.model.answers = append(g.model.answers, respond(200, contentType, string(body), cuts...))
	}
	texts := map[string]string{}
	g.tools.names, g.tools.approve = nil, script.Approve
	for _, tool := range script.Tools {
		g.tools.names = append(g.tools.names, tool.Injected())
		texts[tool.Injected()] = tool.Text
	}
	g.tools.run = func(_ context.Context, name, _ string) Result {
		if text, failed := strings.CutPrefix(texts[name], "Error"); failed {
			return Result{Text: "Error" + text, Outcome: "tool_error"}
		}
		return Result{Text: texts[name], Outcome: "ok"}
	}
	response := transcript.Comparable(g.post(string(script.Request())).Body.Bytes())
	if *update {
		var requests [][]byte
		for _, body := range g.model.bodies {
			requests = append(requests, []byte(body))
		}
		if err := script.Record(requests, response); err != nil {
			t.Fatal(err)
		}
		return
	}
	if len(g.model.bodies) != len(g.model.answers) {
		t.Errorf("the model was asked %d times, want %d", len(g.model.bodies), len(g.model.answers))
	}
	for i, body := range g.model.bodies {
		if diff := cmp.Diff(string(script.WantRequest(i+1)), body); diff != "" {
			t.Errorf("request %d (-want +got):\n%s", i+1, diff)
		}
	}
	if diff := cmp.Diff(string(bytes.TrimSuffix(script.WantResponse(), []byte("\n"))), strings.TrimSuffix(string(response), "\n")); diff != "" {
		t.Errorf("response (-want +got):\n%s", diff)
	}
}
