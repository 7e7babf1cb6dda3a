package config

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mcp-via-llm/mcp-via-llm/spelling"
)

// Problem is one thing wrong with the file.
type Problem struct {
	File string
	Line int    // 1-based; 0 where the file itself cannot be read
	Key  string // such as clients.team-a.servers[1]; empty for the whole file
	Text string // what is wrong and what to do
}

// Error gives FILE:LINE: KEY: TEXT.
func (p *Problem) Error() string {
	var b strings.Builder
	b.WriteString(p.File)
	if p.Line > 0 {
		b.WriteString(":" + strconv.Itoa(p.Line))
	}
	if p.Key != "" {
		b.WriteString(": " + p.Key)
	}
	return b.String() + ": " + p.Text
}

// report collects problems with their places.
type report struct {
	file     string
	lines    map[string]int    // key path to line, for every key in the file
	raw      map[string]string // key path to the text before expansion, where it differs
	problems []*Problem
	warnings []*Problem // what is valid and most likely not meant
}

// add reports a problem at a key. Only the first one of a key is kept: what
// follows from a bad value is noise.
func (r *report) add(key, format string, args ...any) {
	if key != "" && slices.ContainsFunc(r.problems, func(p *Problem) bool { return p.Key == key }) {
		return
	}
	r.addAt(r.line(key), key, format, args...)
}

func (r *report) addAt(line int, key, format string, args ...any) {
	r.problems = append(r.problems, &Problem{File: r.file, Line: line, Key: key, Text: fmt.Sprintf(format, args...)})
}

func (r *report) warn(key, format string, args ...any) {
	r.warnings = append(r.warnings, &Problem{File: r.file, Line: r.line(key), Key: key, Text: fmt.Sprintf(format, args...)})
}

// line is where the key, or the nearest key around it, stands in the file.
func (r *report) line(key string) int { return lineOf(r.lines, key) }

func lineOf(lines map[string]int, key string) int {
	for {
		if line, ok := lines[key]; ok {
			return line
		}
		cut := strings.LastIndexAny(key, ".[")
		if cut < 0 {
			return 1
		}
		key = key[:cut]
	}
}

// shown is what a message may show of a value: never what an expansion made.
func (r *report) shown(key, value string) string {
	if raw, ok := r.raw[key]; ok {
		return raw
	}
	return value
}

// given reports whether the key is in the file.
func (r *report) given(key string) bool {
	_, ok := r.lines[key]
	return ok
}

// under reports whether a problem is known at the key or below it.
func (r *report) under(key string) bool {
	return slices.ContainsFunc(r.problems, func(p *Problem) bool {
		return p.Key == key || strings.HasPrefix(p.Key, key+".") || strings.HasPrefix(p.Key, key+"[")
	})
}

// err joins the problems in file order; nil if there are none.
func (r *report) err() error {
	slices.SortStableFunc(r.problems, inFileOrder)
	errs := make([]error, len(r.problems))
	for i, p := range r.problems {
		errs[i] = p
	}
	return errors.Join(errs...)
}

func inFileOrder(a, b *Problem) int {
	return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Key, b.Key))
}

func (r *report) oneOf(key, value string, allowed ...string) {
	if !slices.Contains(allowed, value) {
		r.add(key, "must be one of: %s", strings.Join(allowed, ", "))
	}
}

// positive reports a number or duration that is not above zero.
func (r *report) positive(key string, value any) {
	switch v := value.(type) {
	case int:
		if v > 0 {
			return
		}
	case int64:
		if v > 0 {
			return
		}
	case time.Duration:
		if v > 0 {
			return
		}
	}
	r.add(key, "must be greater than zero")
}

var plainKey = regexp.MustCompile(`^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$`)

// join appends a key to a path; a key of unusual characters is quoted.
func join(path, key string) string {
	switch {
	case !plainKey.MatchString(key):
		return path + "[" + strconv.Quote(key) + "]"
	case path == "":
		return key
	}
	return path + "." + key
}

func index(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// hint suggests the nearest of the known words, or lists them all.
func hint(word string, known []string, what string) string {
	if len(known) == 0 {
		return "; none is " + what
	}
	if best := spelling.Nearest(word, known); best != "" {
		return fmt.Sprintf("; did you mean %q?", best)
	}
	return "; " + what + ": " + strings.Join(known, ", ")
}
