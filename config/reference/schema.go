package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"time"

	"github.com/mcp-via-llm/mcp-via-llm/config"
)

// definition is the part of the chart's schema that is made here; the rest of
// the file is written by hand.
const definition = "serviceConfig"

// chartKeys are the keys of the file that the chart sets from values of its own.
var chartKeys = map[string]bool{"listen": true, "routes": true, "envoy": true}

// serverName is what the name of a server must be like: an additional property is
// refused by its name, which propertyNames would not give.
const serverName = "^[A-Za-z]"

// inserted is a value that is known only once ${VAR} or ${file:PATH} is replaced.
var inserted = map[string]any{"type": "string", "pattern": `\$\{`}

// schema puts the definition into the chart's schema and prints it in one form.
func (r *reference) schema(old []byte) ([]byte, error) {
	var all map[string]any
	if err := json.Unmarshal(old, &all); err != nil {
		return nil, fmt.Errorf("%s: %w", schemaFile, err)
	}
	definitions, ok := all["$defs"].(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%s has no $defs", schemaFile)
	}
	made := r.object(reflect.TypeFor[config.Config]())
	for key := range chartKeys {
		delete(made["properties"].(map[string]any), key)
	}
	definitions[definition] = made
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(all)
	return out.Bytes(), err
}

// object describes a struct: nothing but its keys, each of which may be null, as
// it may in the file.
func (r *reference) object(in reflect.Type) map[string]any {
	properties := map[string]any{}
	for _, f := range r.fields(in) {
		properties[f.key] = orNull(r.value(f.in), f.comment)
	}
	return map[string]any{"type": "object", "additionalProperties": false, "properties": properties}
}

// orNull admits null, which means "not given".
func orNull(schema map[string]any, comment string) map[string]any {
	out := map[string]any{"description": comment}
	for key, value := range schema {
		out[key] = value
	}
	switch kind := out["type"].(type) {
	case string:
		out["type"] = []string{kind, "null"}
	default:
		out["anyOf"] = append([]any{map[string]any{"type": "null"}}, out["anyOf"].([]any)...)
	}
	return out
}

func (r *reference) value(in reflect.Type) map[string]any {
	switch {
	case in == reflect.TypeFor[time.Duration]():
		return map[string]any{"type": "string", "pattern": `^-?([0-9.]+(ns|us|µs|ms|s|m|h))+$|^0$|\$\{`}
	case in == reflect.TypeFor[config.Routes]():
		return map[string]any{"type": "object", "additionalProperties": map[string]any{"type": "string"}}
	}
	switch in.Kind() {
	case reflect.Pointer:
		return r.value(in.Elem())
	case reflect.Struct:
		return r.object(in)
	case reflect.Map:
		if in.Elem() == reflect.TypeFor[*config.Server]() || in.Elem() == reflect.TypeFor[config.Server]() {
			return map[string]any{"type": "object", "additionalProperties": false, "patternProperties": map[string]any{serverName: orNull(r.value(in.Elem()), "")}}
		}
		return map[string]any{"type": "object", "additionalProperties": orNull(r.value(in.Elem()), "")}
	case reflect.Slice:
		return map[string]any{"type": "array", "items": r.value(in.Elem())}
	case reflect.String:
		return map[string]any{"type": "string"}
	case reflect.Bool:
		return map[string]any{"anyOf": []any{map[string]any{"type": "boolean"}, inserted}}
	case reflect.Float64, reflect.Float32:
		return map[string]any{"anyOf": []any{map[string]any{"type": "number"}, inserted}}
	}
	return map[string]any{"anyOf": []any{map[string]any{"type": "integer"}, inserted}}
}
