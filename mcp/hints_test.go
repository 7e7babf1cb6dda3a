package mcp

import "testing"

func TestHints(t *testing.T) {
	t.Parallel()
	h := newTestHost(t, config("box", stateful, newToolbox().serve(t, stateful)))
	b := toolsOf(t, h, "box").Bind(nil)
	for name, want := range map[string]bool{"box__pure": true, "box__echo": false, "nothing": false} {
		if readOnly, repeatable := b.Hints(name, "{}"); readOnly != want || repeatable != want {
			t.Errorf("%s: %v, %v", name, readOnly, repeatable)
		}
	}
}

// A server whose annotations are not trusted has no tool that is read-only.
func TestAnnotationsOfAServerThatIsNotTrusted(t *testing.T) {
	t.Parallel()
	cfg := config("box", stateful, newToolbox().serve(t, stateful))
	cfg.DistrustAnnotations = true
	ts := toolsOf(t, newTestHost(t, cfg), "box")
	if readOnly, repeatable := ts.Bind(nil).Hints("box__pure", "{}"); readOnly || repeatable {
		t.Errorf("read-only %v, repeatable %v", readOnly, repeatable)
	}
	for _, tool := range ts.Tools() {
		if tool.ReadOnly {
			t.Errorf("%s is read-only", tool.Name)
		}
	}
}

func TestOwns(t *testing.T) {
	servers := []string{"files", "knowledge base"}
	for name, want := range map[string]bool{
		"files__x": true, "files__": true, "knowledge_base__y": true, "mcp_resource__s__n": true, "mcp_prompt__s__n": true,
		"files_x": false, "other__x": false, "x": false, "": false,
	} {
		if got := Owns(servers, name); got != want {
			t.Errorf("%q: %v", name, got)
		}
	}
}
