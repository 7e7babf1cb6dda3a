package main

import (
	"fmt"
	"io"
	"reflect"
	"strings"
	"time"

	"github.com/mcp-via-llm/mcp-via-llm/config"
)

// reference is what is made of the types and the comments.
type reference struct {
	comments map[string]string
	names    map[string]string // keys by the names of fields
	missing  []string          // fields without a comment
}

const intro = `# Configuration

<!-- Made by: go generate ./config/reference — from the comments in config/. Edit those. -->

One YAML file. It is strict: a key that is not on this page is an error with its line, and so is a value of another type.
` + "`mcp-via-llm check --config FILE`" + ` says everything that is wrong with a file.

- ` + "`${VAR}`" + ` in a value is replaced by the environment variable, ` + "`${file:PATH}`" + ` by a file's content; a relative path starts at
  the folder of the configuration. ` + "`$$`" + ` is a literal ` + "`$`" + `.
- Durations have a unit: ` + "`500ms`, `60s`, `5m`" + `.
- A changed file, the files it inserts included, is in force for new turns within 2 s. An invalid one is refused, logged and
  counted, and the old one stays. ` + "`listen`, `store`, `log` and `envoy.use_mcp_egress`" + ` need a restart, and the log says so.

[examples/config/minimal.yaml](../examples/config/minimal.yaml) is the shortest file that does something,
[examples/config/full.yaml](../examples/config/full.yaml) has every key.
`

// page writes the reference for people.
func (r *reference) page(w io.Writer) {
	io.WriteString(w, intro)
	top := reflect.TypeFor[config.Config]()
	fmt.Fprint(w, "\n## Sections\n\n")
	r.table(w, "", r.fields(top))
	r.below(w, "", r.fields(top))
}

// table has one row a key.
func (r *reference) table(w io.Writer, at string, fields []field) {
	fmt.Fprint(w, "| key | value | |\n| --- | --- | --- |\n")
	for _, f := range fields {
		name := "`" + f.key + "`"
		if deeper, path := inside(f.in); deeper != nil {
			name = fmt.Sprintf("[%s](#%s)", name, anchor(at+f.key+path))
		}
		fmt.Fprintf(w, "| %s | %s | %s |\n", name, kind(f.in), strings.ReplaceAll(f.comment, "|", "\\|"))
	}
}

// below writes a part for each key that has keys of its own.
func (r *reference) below(w io.Writer, at string, fields []field) {
	for _, f := range fields {
		deeper, path := inside(f.in)
		if deeper == nil {
			continue
		}
		name := at + f.key + path
		fmt.Fprintf(w, "\n## %s\n\n", name)
		if about := withoutName(r.comments[deeper.Name()], deeper.Name()); about != "" {
			fmt.Fprintf(w, "%s\n\n", about)
		}
		r.table(w, name+".", r.fields(deeper))
		r.below(w, name+".", r.fields(deeper))
	}
}

// inside gives the struct that a value holds, and how a path goes on to it.
func inside(in reflect.Type) (reflect.Type, string) {
	switch in.Kind() {
	case reflect.Pointer:
		return inside(in.Elem())
	case reflect.Struct:
		return in, ""
	case reflect.Map:
		deeper, path := inside(in.Elem())
		return deeper, ".NAME" + path
	case reflect.Slice:
		if in == reflect.TypeFor[config.Routes]() {
			return nil, ""
		}
		deeper, path := inside(in.Elem())
		return deeper, "[]" + path
	}
	return nil, ""
}

// anchor is what GitHub makes of a heading.
func anchor(heading string) string {
	return strings.Map(func(c rune) rune {
		if c == '.' || c == '[' || c == ']' {
			return -1
		}
		return c
	}, strings.ToLower(heading))
}

// kind names the type of a value.
func kind(in reflect.Type) string {
	switch {
	case in == reflect.TypeFor[config.Routes]():
		return "glob: client"
	case in == reflect.TypeFor[time.Duration]():
		return "duration"
	}
	switch in.Kind() {
	case reflect.Pointer:
		return kind(in.Elem())
	case reflect.Struct:
		return "keys"
	case reflect.Map:
		return "name: " + kind(in.Elem())
	case reflect.Slice:
		return "list of " + plural(kind(in.Elem()))
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "text"
	case reflect.Float64, reflect.Float32:
		return "number"
	}
	return "whole number"
}

func plural(kind string) string {
	if kind == "text" || kind == "duration" {
		return kind + "s"
	}
	return kind
}
