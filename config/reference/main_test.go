package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// The reference and the chart's schema say what the code does.
func TestUpToDate(t *testing.T) {
	root := filepath.Join("..", "..")
	files, err := generate(root)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range files {
		got, err := os.ReadFile(filepath.Join(root, path))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not what the code says (%v): run go generate ./config/reference", path, err)
		}
	}
}

func TestWithoutName(t *testing.T) {
	for comment, want := range map[string]string{
		"Log is the level of the log.":       "The level of the log.",
		"Log holds what is said.":            "Holds what is said.",
		"Log, if it is there, is a comment.": "Log, if it is there, is a comment.",
		"What is logged.":                    "What is logged.",
	} {
		if got := withoutName(comment, "Log"); got != want {
			t.Errorf("%q became %q, want %q", comment, got, want)
		}
	}
}
