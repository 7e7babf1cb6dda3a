package config

import (
	"reflect"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// decoder fills Go values from YAML nodes. Unlike the library's own decoding it
// goes on after a problem and knows the key path and line of each.
type decoder struct {
	*report
	*expander
}

// section is a part of the configuration that owns its defaults.
type section interface{ setDefaults() }

// shortened is a part of which a single text gives the value that short points to.
type shortened interface{ short() *string }

// value decodes n, found at path, into v. Null means "not given".
func (d *decoder) value(n *yaml.Node, path string, v reflect.Value) {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if isNull(n) {
		return
	}
	if routes, ok := v.Addr().Interface().(*Routes); ok {
		d.pairs(n, path, func(key, value *yaml.Node, at string) {
			route := Route{Glob: key.Value}
			d.value(value, at, reflect.ValueOf(&route.Client).Elem())
			*routes = append(*routes, route)
		})
		return
	}
	if short, ok := v.Addr().Interface().(shortened); ok && n.Kind == yaml.ScalarNode {
		d.value(n, path, reflect.ValueOf(short.short()).Elem())
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		if s, ok := v.Interface().(section); ok {
			s.setDefaults()
		}
		d.value(n, path, v.Elem())
	case reflect.Struct:
		d.structure(n, path, v)
	case reflect.Map:
		d.mapping(n, path, v)
	case reflect.Slice:
		d.list(n, path, v)
	default:
		d.scalar(n, path, v)
	}
}

func isNull(n *yaml.Node) bool {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n.Kind == yaml.ScalarNode && n.Tag == "!!null"
}

// pairs calls each for every entry of a mapping.
func (d *decoder) pairs(n *yaml.Node, path string, each func(key, value *yaml.Node, at string)) {
	if n.Kind != yaml.MappingNode {
		d.add(path, "must be a mapping (key: value), not %s", kind(n))
		return
	}
	first := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		at := join(path, key.Value)
		if line, ok := first[key.Value]; ok {
			d.addAt(key.Line, at, "duplicate key, first given in line %d", line)
			continue
		}
		first[key.Value] = key.Line
		d.lines[at] = key.Line
		if key.Kind != yaml.ScalarNode {
			d.addAt(key.Line, path, "a key must be a plain word")
			continue
		}
		each(key, n.Content[i+1], at)
	}
}

func (d *decoder) structure(n *yaml.Node, path string, v reflect.Value) {
	fields := map[string]reflect.Value{}
	keysOf(v, fields)
	d.pairs(n, path, func(key, value *yaml.Node, at string) {
		field, ok := fields[key.Value]
		if !ok {
			d.addAt(key.Line, at, "unknown key%s", hint(key.Value, sortedKeys(fields), "known keys"))
			return
		}
		d.value(value, at, field)
	})
}

// keysOf finds the fields of a struct, and of those embedded in it, by their keys.
func keysOf(v reflect.Value, fields map[string]reflect.Value) {
	for i := range v.NumField() {
		field := v.Type().Field(i)
		if name := field.Tag.Get("yaml"); name != "" {
			fields[name] = v.Field(i)
		} else if field.Anonymous {
			keysOf(v.Field(i), fields)
		}
	}
}

func (d *decoder) mapping(n *yaml.Node, path string, v reflect.Value) {
	v.Set(reflect.MakeMap(v.Type()))
	d.pairs(n, path, func(key, value *yaml.Node, at string) {
		element := reflect.New(v.Type().Elem())
		if v.Type().Elem().Kind() == reflect.String && isNull(value) {
			// A header or variable that is there but empty is not one that is not given.
			d.add(at, "has no value; give it one, write \"\" for an empty one, or leave the key out")
			return
		}
		if s, ok := element.Interface().(section); ok {
			s.setDefaults()
		}
		d.value(value, at, element.Elem())
		v.SetMapIndex(reflect.ValueOf(key.Value), element.Elem())
	})
}

func (d *decoder) list(n *yaml.Node, path string, v reflect.Value) {
	if n.Kind != yaml.SequenceNode {
		d.add(path, "must be a list ([a, b]), not %s", kind(n))
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content)))
	for i, element := range n.Content {
		at := index(path, i)
		d.lines[at] = element.Line
		d.value(element, at, v.Index(i))
	}
}

func (d *decoder) scalar(n *yaml.Node, path string, v reflect.Value) {
	if n.Kind != yaml.ScalarNode {
		d.add(path, "must be %s, not %s", wanted(v), kind(n))
		return
	}
	text, err := d.expand(n.Value)
	if err != nil {
		d.add(path, "%v", err)
		return
	}
	if text != n.Value {
		d.raw[path] = n.Value
	}
	if v.Kind() == reflect.String {
		v.SetString(text)
		return
	}
	// A quoted "10" is text; "${N}" is whatever it expands to.
	literal := n.Tag != "!!str" || strings.Contains(n.Value, "${") || v.Type() == reflect.TypeFor[time.Duration]()
	if !literal || !setScalar(v, text) {
		d.add(path, "must be %s", wanted(v))
	}
}

func setScalar(v reflect.Value, text string) bool {
	if v.Type() == reflect.TypeFor[time.Duration]() {
		duration, err := time.ParseDuration(text)
		v.SetInt(int64(duration))
		return err == nil
	}
	if v.Kind() == reflect.Bool {
		text = strings.ToLower(text)
		v.SetBool(text == "true")
		return text == "true" || text == "false"
	}
	if v.Kind() == reflect.Float64 {
		number, err := strconv.ParseFloat(text, 64)
		v.SetFloat(number)
		return err == nil
	}
	number, err := strconv.ParseInt(text, 10, 64)
	v.SetInt(number)
	return err == nil
}

func wanted(v reflect.Value) string {
	switch {
	case v.Type() == reflect.TypeFor[time.Duration]():
		return "a duration with its unit, such as 500ms, 60s or 5m"
	case v.Kind() == reflect.Bool:
		return "true or false"
	case v.Kind() == reflect.String:
		return "a text"
	case v.Kind() == reflect.Float64:
		return "a number"
	}
	return "a whole number"
}

func kind(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	return "a single value"
}
