package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// foreign begins the names of definitions that are not the chart's own: Kubernetes', as it names them in its OpenAPI
// document, where a custom resource's begins with its group, reversed.
const foreign = "io."

// reference is how a schema names a definition of its own.
const reference = "#/$defs/"

// resourceNames are those that a container may ask for: an extended one has a domain.
const resourceNames = "^(cpu|memory|ephemeral-storage|hugepages-.+|.+/.+)$"

// withShapes gives a chart's values schema the definitions that it refers to and that are Kubernetes' or a custom
// resource's, in place of those that it had. io.k8s.networking.gateway.v1.HTTPRoute.spec.rules is the part of a resource.
func (v *validator) withShapes(values []byte) ([]byte, error) {
	var all map[string]any
	if err := json.Unmarshal(values, &all); err != nil {
		return nil, err
	}
	own, ok := all["$defs"].(map[string]any)
	if !ok {
		return nil, fmt.Errorf("it has no $defs")
	}
	for name := range own {
		if strings.HasPrefix(name, foreign) {
			delete(own, name)
		}
	}
	for wanted := referred(all); len(wanted) > 0; {
		name := wanted[0]
		wanted = wanted[1:]
		if own[name] != nil {
			continue
		}
		shape, err := v.shape(name)
		if err != nil {
			return nil, err
		}
		own[name] = shape
		wanted = append(wanted, referred(shape)...)
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(all)
	return out.Bytes(), err
}

// referred lists the definitions that a schema names.
func referred(schema any) (names []string) {
	switch s := schema.(type) {
	case map[string]any:
		for key, value := range s {
			if text, ok := value.(string); ok && key == "$ref" {
				names = append(names, strings.TrimPrefix(text, reference))
			}
			names = append(names, referred(value)...)
		}
	case []any:
		for _, value := range s {
			names = append(names, referred(value)...)
		}
	}
	return names
}

// shape finds a definition by its name, without what only people and API servers read.
func (v *validator) shape(name string) (map[string]any, error) {
	schema := v.resources[name]
	if schema == nil {
		file, err := os.Open(v.folder + "/_definitions.json")
		if err != nil {
			return nil, err
		}
		defer file.Close()
		all, err := jsonschema.UnmarshalJSON(file)
		if err != nil {
			return nil, err
		}
		schema, _ = all.(map[string]any)["$defs"].(map[string]any)[name].(map[string]any)
	}
	for at, path := name, []string(nil); schema == nil; {
		end := strings.LastIndexByte(at, '.')
		if end < 0 {
			return nil, fmt.Errorf("neither Kubernetes nor a custom resource has %s", name)
		}
		at, path = at[:end], append([]string{at[end+1:]}, path...)
		schema = v.resources[at]
		for _, key := range path {
			properties, _ := schema["properties"].(map[string]any)
			schema, _ = properties[key].(map[string]any)
		}
	}
	shape := trimmed(schema)
	switch name { // what the API server refuses, though its OpenAPI document does not say so
	case "io.k8s.api.core.v1.Volume", "io.k8s.api.core.v1.EnvVar":
		shape["maxProperties"] = 2 // a name, and one of the rest
	case "io.k8s.api.core.v1.ResourceRequirements":
		for _, key := range []string{"limits", "requests"} {
			quantities := shape["properties"].(map[string]any)[key].(map[string]any)
			quantities["patternProperties"] = map[string]any{resourceNames: quantities["additionalProperties"]}
			quantities["additionalProperties"] = false
		}
	}
	return shape, nil
}

// trimmed copies a schema without annotations, formats and Kubernetes' extensions, and with references within the file.
func trimmed(schema map[string]any) map[string]any {
	out := map[string]any{}
	for key, value := range schema {
		switch {
		case key == "description" || key == "format" || key == "default" || strings.HasPrefix(key, "x-"):
		case key == "$ref":
			text, _ := value.(string)
			_, name, _ := strings.Cut(text, reference)
			return map[string]any{"$ref": reference + name} // draft 7 takes nothing beside it
		case key == "properties":
			properties := map[string]any{}
			for name, p := range value.(map[string]any) {
				properties[name] = trimmed(p.(map[string]any))
			}
			out[key] = properties
		case key == "oneOf" && len(types(value)) > 0: // int-or-string, where null would be both
			out["type"] = types(value)
		default:
			if deeper, ok := value.(map[string]any); ok {
				value = trimmed(deeper)
			}
			out[key] = value
		}
	}
	return out
}

// types gives the types that alternatives admit which say nothing else; none where one does.
func types(alternatives any) (all []any) {
	for _, a := range alternatives.([]any) {
		alternative, _ := a.(map[string]any)
		some, ok := alternative["type"].([]any)
		if !ok || len(alternative) > 1 {
			return nil
		}
		for _, kind := range some {
			if !slices.Contains(all, kind) {
				all = append(all, kind)
			}
		}
	}
	return all
}
