package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// expander replaces ${VAR} and ${file:PATH} in values. It runs on parsed values,
// so what it inserts is never read as YAML, nor expanded again.
type expander struct {
	dir   string            // base of relative paths: the folder of the config file
	files map[string]string // path to content, for every file that was asked for
	// inserted are the values in order of their use.
	inserted []string
}

var variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// maxExpansion limits one ${file:PATH}, in bytes: these are secrets, not data.
const maxExpansion = 1 << 20

// expand returns s with its references replaced and "$$" turned into "$". A "$"
// before anything else stays. Errors name the reference, never a content.
func (e *expander) expand(s string) (string, error) {
	var b strings.Builder
	for {
		i := strings.IndexByte(s, '$')
		if i < 0 || i == len(s)-1 {
			b.WriteString(s)
			return b.String(), nil
		}
		b.WriteString(s[:i])
		switch rest := s[i+1:]; rest[0] {
		case '$':
			b.WriteByte('$')
			s = rest[1:]
		case '{':
			name, tail, ok := strings.Cut(rest[1:], "}")
			if !ok {
				return "", errors.New("has a ${ without its }; write $${ for a literal ${")
			}
			value, err := e.lookup(name)
			if err != nil {
				return "", err
			}
			e.inserted = append(e.inserted, value)
			b.WriteString(value)
			s = tail
		default:
			b.WriteByte('$')
			s = rest
		}
	}
}

func (e *expander) lookup(name string) (string, error) {
	if path, ok := strings.CutPrefix(name, "file:"); ok {
		return e.readFile(path)
	}
	if !variable.MatchString(name) {
		return "", fmt.Errorf("${%s} is neither ${VAR} nor ${file:PATH}; write $${ for a literal ${", name)
	}
	value, ok := os.LookupEnv(name)
	if !ok {
		return "", fmt.Errorf("the environment variable %s of ${%s} is not set", name, name)
	}
	return value, nil
}

// readFile gives the content without its last line ends, as editors and secret
// stores add them.
func (e *expander) readFile(path string) (string, error) {
	if !filepath.IsAbs(path) {
		path = filepath.Join(e.dir, path)
	}
	content, err := os.ReadFile(path)
	e.files[path] = string(content)
	if err != nil {
		// The text of the error is a path and a cause: no content.
		return "", fmt.Errorf("the file of a ${file:PATH} cannot be read: %w", err)
	}
	if len(content) > maxExpansion {
		return "", fmt.Errorf("the file %s of a ${file:PATH} is larger than %d bytes", path, maxExpansion)
	}
	return strings.TrimRight(string(content), "\r\n"), nil
}
