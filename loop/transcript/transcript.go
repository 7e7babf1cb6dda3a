// Package transcript reads scripted turns: what a client sends, what the model
// answers, what the tools give, and the exact bytes that the model and the
// client must see. One transcript drives the bare handler and a real Envoy alike.
//
// A transcript is a txtar archive. Its comment says what it shows. Its files:
//
//	tools            a line a tool: injected name, a space, the text it gives
//	approve          a line a tool whose calls the user must approve: injected name
//	request          the client's body
//	segment N        the model's Nth answer: JSON, or server-sent events
//	want request N   the Nth body that the model must see
//	want response    what the client must get
package transcript

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"golang.org/x/tools/txtar"
)

// Transcript is one scripted turn.
type Transcript struct {
	Name  string
	About string
	Tools []Tool
	// Approve are the injected names of the tools whose calls the user must approve.
	Approve []string

	path    string
	archive *txtar.Archive
}

// Tool is an MCP tool without arguments that always gives the same text.
type Tool struct{ Server, Name, Text string }

// Injected is the name under which the model sees the tool.
func (t Tool) Injected() string { return t.Server + "__" + t.Name }

// LoadAll reads the transcripts of a folder.
func LoadAll(dir string) ([]*Transcript, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.txtar"))
	if err != nil {
		return nil, err
	}
	if len(paths) == 0 {
		return nil, fmt.Errorf("no transcripts in %s", dir)
	}
	var out []*Transcript
	for _, path := range paths {
		t, err := load(path)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		out = append(out, t)
	}
	return out, nil
}

func load(path string) (*Transcript, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	t := &Transcript{Name: strings.TrimSuffix(filepath.Base(path), ".txtar"), path: path, archive: txtar.Parse(raw)}
	t.About = strings.TrimSpace(string(t.archive.Comment))
	for _, line := range strings.Split(strings.TrimSpace(string(t.file("tools"))), "\n") {
		if line == "" {
			continue
		}
		full, text, _ := strings.Cut(line, " ")
		server, name, ok := strings.Cut(full, "__")
		if !ok {
			return nil, fmt.Errorf("tool %q has no server", full)
		}
		t.Tools = append(t.Tools, Tool{server, name, text})
	}
	t.Approve = strings.Fields(string(t.file("approve")))
	if t.Request() == nil {
		return nil, fmt.Errorf("no request")
	}
	return t, nil
}

func (t *Transcript) file(name string) []byte {
	for _, f := range t.archive.Files {
		if f.Name == name {
			return f.Data
		}
	}
	return nil
}

// Request is the client's body.
func (t *Transcript) Request() []byte { return bytes.TrimSuffix(t.file("request"), []byte("\n")) }

// Segment is the model's nth answer, from 1, and its content type; nil if there
// is none. Events keep the blank line that ends the last of them.
func (t *Transcript) Segment(n int) (body []byte, contentType string) {
	body = t.file(fmt.Sprintf("segment %d", n))
	if bytes.HasPrefix(body, []byte("{")) {
		return bytes.TrimSuffix(body, []byte("\n")), "application/json"
	}
	return body, "text/event-stream"
}

// WantRequest is the nth body that the model must see; nil if it is not checked.
func (t *Transcript) WantRequest(n int) []byte {
	return bytes.TrimSuffix(t.file(fmt.Sprintf("want request %d", n)), []byte("\n"))
}

// Comparable is a response without what differs from one run to the next: the tag
// at the end of a question to the user.
func Comparable(response []byte) []byte {
	return questionTag.ReplaceAll(response, []byte("(question TAG)"))
}

var questionTag = regexp.MustCompile(`\(question [A-Z2-7]{12}\)`)

// WantResponse is what the client must get, as Comparable gives it.
func (t *Transcript) WantResponse() []byte { return t.file("want response") }

// Record writes what was seen in place of what was wanted. An answer that does
// not end with a line end gets one, as txtar asks.
func (t *Transcript) Record(requests [][]byte, response []byte) error {
	line := func(b []byte) []byte { return append(bytes.TrimSuffix(bytes.Clone(b), []byte("\n")), '\n') }
	files := t.archive.Files[:0:0]
	for _, f := range t.archive.Files {
		if !strings.HasPrefix(f.Name, "want ") {
			files = append(files, f)
		}
	}
	for i, r := range requests {
		files = append(files, txtar.File{Name: fmt.Sprintf("want request %d", i+1), Data: line(r)})
	}
	if !bytes.HasSuffix(response, []byte("\n")) {
		response = line(response)
	}
	t.archive.Files = append(files, txtar.File{Name: "want response", Data: response})
	return os.WriteFile(t.path, txtar.Format(t.archive), 0o644)
}
