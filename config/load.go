package config

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Load reads, expands and validates the file. The error joins all problems as
// *Problem, in file order. Relative ${file:PATH} start at the file's folder.
func Load(path string) (*Config, error) {
	c, _, err := load(path)
	return c, err
}

// load also returns the content of every file it looked at, by path.
func load(path string) (*Config, map[string]string, error) {
	files := map[string]string{}
	content, err := os.ReadFile(path)
	files[path] = string(content)
	r := &report{file: path, lines: map[string]int{}, raw: map[string]string{}}
	if err != nil {
		r.addAt(0, "", "cannot be read: %v", errors.Unwrap(err))
		return nil, files, r.err()
	}
	c := &Config{}
	d := &decoder{report: r, expander: &expander{dir: filepath.Dir(path), files: files}}
	r.guard(func() { c.read(content, d) })
	if err := r.err(); err != nil {
		return nil, files, err
	}
	c.fingerprint, c.files = digest(content, d.inserted), files
	slices.SortStableFunc(r.warnings, inFileOrder)
	c.place, c.warnings = place{path, r.lines}, r.warnings
	return c, files, nil
}

// read fills c with what the file says.
func (c *Config) read(content []byte, d *decoder) {
	root, problem := parse(content)
	if problem != nil {
		d.addAt(problem.Line, "", "%s", problem.Text)
		return
	}
	c.setDefaults()
	if root != nil {
		d.value(root, "", reflect.ValueOf(c).Elem())
	}
	c.complete()
	c.validate(d.report)
}

// guard makes a panic of f a problem of the file: a reload must not end a service
// that runs. The panic's own text is shown where it cannot hold a secret.
func (r *report) guard(f func()) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case runtime.Error, *reflect.ValueError:
			r.addAt(1, "", "cannot be loaded, by a fault of the service: %v", p)
		default:
			r.addAt(1, "", "cannot be loaded, by a fault of the service (%T)", p)
		}
	}()
	f()
}

var yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?`)

// parse gives the root node of the only document; nil for an empty file.
func parse(content []byte) (*yaml.Node, *Problem) {
	var document, second yaml.Node
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	err := decoder.Decode(&document)
	if errors.Is(err, io.EOF) {
		return nil, nil
	}
	if err == nil {
		if err = decoder.Decode(&second); err == nil {
			return nil, &Problem{Line: second.Line, Text: "has more than one YAML document; keep one"}
		}
	}
	if err != nil && !errors.Is(err, io.EOF) {
		match := yamlLine.FindStringSubmatch(err.Error())
		line, _ := strconv.Atoi(match[1])
		return nil, &Problem{Line: max(line, 1), Text: "is not valid YAML: " + strings.TrimPrefix(err.Error(), match[0])}
	}
	return document.Content[0], nil
}

// digest hashes the parts with their lengths, so that no two lists share a hash.
func digest(content []byte, inserted []string) [sha256.Size]byte {
	h := sha256.New()
	for _, part := range append([]string{string(content)}, inserted...) {
		io.WriteString(h, strconv.Itoa(len(part))+":"+part)
	}
	return [sha256.Size]byte(h.Sum(nil))
}
