// Command reference makes, from the types of package config and the comments of
// their fields, the reference of the configuration file and the part of the
// chart's schema that describes it. Run it with: go generate ./config/reference
package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"reflect"

	"github.com/mcp-via-llm/mcp-via-llm/config"
)

//go:generate go run .

// Where they go, from the repository's root.
const (
	pageFile   = "docs/configuration.md"
	schemaFile = "charts/mcp-via-llm/values.schema.json"
)

func main() {
	root := filepath.Join("..", "..")
	files, err := generate(root)
	if err == nil {
		for path, content := range files {
			if err = os.WriteFile(filepath.Join(root, path), content, 0o644); err != nil {
				break
			}
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "reference:", err)
		os.Exit(1)
	}
}

// generate gives the content of both files.
func generate(root string) (map[string][]byte, error) {
	comments, err := fieldComments(filepath.Join(root, "config"))
	if err != nil {
		return nil, err
	}
	r := &reference{comments: comments, names: map[string]string{}}
	r.collect(reflect.TypeFor[config.Config]())
	var page bytes.Buffer
	r.page(&page)
	if len(r.missing) > 0 {
		return nil, fmt.Errorf("these fields have no comment, which is what the reference is made of: %q", r.missing)
	}
	old, err := os.ReadFile(filepath.Join(root, schemaFile))
	if err != nil {
		return nil, err
	}
	schema, err := r.schema(old)
	return map[string][]byte{pageFile: page.Bytes(), schemaFile: schema}, err
}
