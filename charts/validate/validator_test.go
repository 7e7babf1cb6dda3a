package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const definitionText = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.test}
spec:
  group: example.test
  names: {kind: Thing, plural: things}
  versions:
    - name: v1
      schema:
        openAPIV3Schema:
          type: object
          properties:
            apiVersion: {type: string}
            kind: {type: string}
            metadata: {type: object}
            spec:
              type: object
              required: [size]
              properties:
                size: {x-kubernetes-int-or-string: true, anyOf: [{type: integer}, {type: string}]}
                mode: {type: string, enum: [a, b]}
                note: {type: string, nullable: true}
                free: {type: object, x-kubernetes-preserve-unknown-fields: true, properties: {x: {type: string}}}
                labels: {type: object, additionalProperties: {type: string}}
                list: {type: array, items: {type: object, properties: {name: {type: string}}}}
`

const schemaText = `{"type":"object","additionalProperties":false,"properties":{"apiVersion":{"type":"string"},"kind":{"type":"string"},
	"metadata":{"type":"object"},"data":{"type":"object","additionalProperties":{"type":"string"}}}}`

func TestStrict(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"crds/thing.yaml": definitionText, "schemas/configmap-v1.json": schemaText} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	thing := "apiVersion: example.test/v1\nkind: Thing\nmetadata: {name: x}\n"
	for name, row := range map[string]struct{ text, want string }{
		"right":             {thing + "spec: {size: 1, mode: a, free: {y: 1}, labels: {l: m}, list: [{name: n}]}", ""},
		"int or string":     {thing + "spec: {size: big, note: null}", ""},
		"unknown field":     {thing + "spec: {size: 1, sise: 2}", "'sise' not allowed"},
		"unknown in a list": {thing + "spec: {size: 1, list: [{nam: n}]}", "'nam' not allowed"},
		"missing":           {thing + "spec: {mode: a}", "size"},
		"enum":              {thing + "spec: {size: 1, mode: c}", "/spec/mode"},
		"built in":          {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata: {a: b}\n---\n", ""},
		"built in, number":  {"apiVersion: v1\nkind: ConfigMap\ndata: {a: 1}\n", "/data/a"},
		"unknown kind":      {"apiVersion: v1\nkind: ConfigMop\n", "no schema for ConfigMop"},
		"not YAML":          {"a: b: c", "mapping values"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "m.yaml")
			if err := os.WriteFile(path, []byte(row.text), 0o644); err != nil {
				t.Fatal(err)
			}
			v := newValidator(dir + "/schemas")
			err := v.addDefinitions(dir + "/crds")
			if err == nil {
				err = v.manifests([]string{path})
			}
			if row.want == "" && err != nil || row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want)) {
				t.Errorf("%v, want %q", err, row.want)
			}
		})
	}
}
