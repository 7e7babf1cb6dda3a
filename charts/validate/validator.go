package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"
)

// resource is one document of a manifest.
type resource map[string]any

func (r resource) text(key string) string {
	text, _ := r[key].(string)
	return text
}

// String names the resource for a message.
func (r resource) String() string {
	metadata, _ := r["metadata"].(map[string]any)
	return fmt.Sprintf("%s %v", r.text("kind"), metadata["name"])
}

// documents reads all documents of a YAML file that are not empty.
func documents(content []byte) (all []resource, err error) {
	for decoder := yaml.NewDecoder(bytes.NewReader(content)); ; {
		var value map[string]any
		err := decoder.Decode(&value)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		if value == nil {
			continue
		}
		// By way of JSON, which has the types that schemas know.
		text, err := json.Marshal(value)
		if err != nil {
			return nil, err
		}
		plain, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err != nil {
			return nil, err
		}
		all = append(all, plain.(map[string]any))
	}
}

// validator finds the schema of a resource by its apiVersion and kind.
type validator struct {
	folder    string // with the schemas of Kubernetes
	compiler  *jsonschema.Compiler
	custom    map[string]string         // "GROUP/VERSION KIND" to the schema's address
	resources map[string]map[string]any // the schemas of custom resources, by their names in an OpenAPI document
}

func newValidator(folder string) *validator {
	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(local(folder))
	return &validator{folder: folder, compiler: compiler, custom: map[string]string{}, resources: map[string]map[string]any{}}
}

// local loads the schemas of Kubernetes, which name each other by an address of the Web, from a folder.
type local string

const published = "https://kubernetes.io/api/"

func (l local) Load(address string) (any, error) {
	file, err := os.Open(filepath.Join(string(l), strings.TrimPrefix(address, published)))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return jsonschema.UnmarshalJSON(file)
}

func (v *validator) check(r resource) error {
	address := v.custom[r.text("apiVersion")+" "+r.text("kind")]
	if address == "" {
		address = published + file(r.text("apiVersion"), r.text("kind"))
	}
	schema, err := v.compiler.Compile(address)
	if err != nil {
		return fmt.Errorf("no schema for %s of %s: %w", r.text("kind"), r.text("apiVersion"), err)
	}
	return schema.Validate(map[string]any(r))
}

// file is the name of a schema of Kubernetes itself: deployment-apps-v1.json, service-v1.json.
func file(apiVersion, kind string) string {
	group, version, found := strings.Cut(apiVersion, "/")
	if !found {
		return strings.ToLower(kind) + "-" + apiVersion + ".json"
	}
	group, _, _ = strings.Cut(group, ".")
	return strings.ToLower(kind) + "-" + group + "-" + version + ".json"
}

// addDefinitions makes schemas of all custom resource definitions below a folder.
func (v *validator) addDefinitions(folder string) error {
	return filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".yaml" {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		resources, err := documents(content)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		for _, r := range resources {
			if r.text("kind") == "CustomResourceDefinition" {
				if err := v.addDefinition(r); err != nil {
					return fmt.Errorf("%s: %w", path, err)
				}
			}
		}
		return nil
	})
}

// definition is what is read of a custom resource definition.
type definition struct {
	Spec struct {
		Group    string
		Names    struct{ Kind string }
		Versions []struct {
			Name   string
			Schema struct{ OpenAPIV3Schema map[string]any }
		}
	}
}

func (v *validator) addDefinition(r resource) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	var d definition
	if err := json.Unmarshal(text, &d); err != nil {
		return err
	}
	for _, version := range d.Spec.Versions {
		schema := version.Schema.OpenAPIV3Schema
		if schema == nil {
			continue
		}
		if properties, ok := schema["properties"].(map[string]any); ok {
			properties["metadata"] = map[string]any{"type": "object"}
			properties["apiVersion"], properties["kind"] = map[string]any{"type": "string"}, map[string]any{"type": "string"}
		}
		strict(schema)
		text, err := json.Marshal(schema)
		if err != nil {
			return err
		}
		plain, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err != nil {
			return err
		}
		address := fmt.Sprintf("crd:///%s/%s/%s.json", d.Spec.Group, version.Name, d.Spec.Names.Kind)
		if err := v.compiler.AddResource(address, plain); err != nil {
			return err
		}
		v.custom[d.Spec.Group+"/"+version.Name+" "+d.Spec.Names.Kind] = address
		domains := strings.Split(d.Spec.Group, ".")
		slices.Reverse(domains)
		v.resources[strings.Join(append(domains, version.Name, d.Spec.Names.Kind), ".")] = schema
	}
	return nil
}

// strict makes a structural schema refuse the fields that a server would drop, and turns what OpenAPI 3.0 says in words
// of its own into JSON Schema: nullable, and integers that may be strings.
func strict(schema map[string]any) {
	properties, _ := schema["properties"].(map[string]any)
	if _, open := schema["additionalProperties"]; properties != nil && !open && schema["x-kubernetes-preserve-unknown-fields"] != true {
		schema["additionalProperties"] = false
	}
	for _, p := range properties {
		if deeper, ok := p.(map[string]any); ok {
			strict(deeper)
		}
	}
	for _, key := range []string{"items", "additionalProperties"} {
		if deeper, ok := schema[key].(map[string]any); ok {
			strict(deeper)
		}
	}
	if kind, ok := schema["type"].(string); ok && schema["nullable"] == true {
		schema["type"] = []any{kind, "null"}
	}
	if schema["x-kubernetes-int-or-string"] == true {
		schema["type"] = []any{"integer", "string"}
		delete(schema, "anyOf")
	}
	delete(schema, "format") // Kubernetes' own formats (int-or-string, int64) are no JSON Schema formats
}
