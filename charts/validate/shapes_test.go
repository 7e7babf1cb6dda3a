package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

const kubernetesText = `{"$defs":{
	"io.k8s.api.core.v1.Probe":{"description":"words","type":"object","additionalProperties":false,"properties":{
		"description":{"type":"string","format":"any"},
		"port":{"description":"words","$ref":"/api/_definitions.json#/$defs/io.k8s.apimachinery.IntOrString"},
		"never":{"type":"string"}}},
	"io.k8s.apimachinery.IntOrString":{"oneOf":[{"type":["string","null"]},{"type":["integer","null"]}]},
	"io.k8s.api.core.v1.Unused":{"type":"object"}}}`

func TestWithShapes(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "_definitions.json"), []byte(kubernetesText), 0o644); err != nil {
		t.Fatal(err)
	}
	v := newValidator(dir)
	var thing resource
	if err := yaml.Unmarshal([]byte(definitionText), &thing); err != nil {
		t.Fatal(err)
	}
	if err := v.addDefinition(thing); err != nil {
		t.Fatal(err)
	}
	values := `{"$defs":{"own":{"type":"object"},"io.k8s.old":{}},"properties":{
		"probe":{"$ref":"#/$defs/io.k8s.api.core.v1.Probe"},"size":{"$ref":"#/$defs/test.example.v1.Thing.spec.size"}}}`
	out, err := v.withShapes([]byte(values))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"own"`, `"io.k8s.apimachinery.IntOrString"`, `"never"`, `"description": {`} {
		if !strings.Contains(string(out), want) {
			t.Errorf("%s is missing in %s", want, out)
		}
	}
	for _, not := range []string{"words", "io.k8s.old", "Unused", "format", "oneOf"} {
		if strings.Contains(string(out), not) {
			t.Errorf("%s is still in %s", not, out)
		}
	}
	again, err := v.withShapes(out)
	if err != nil || string(again) != string(out) {
		t.Errorf("done again, it differs: %v", err)
	}
	_, err = v.withShapes([]byte(`{"$defs":{},"properties":{"x":{"$ref":"#/$defs/io.k8s.api.core.v1.Prob"}}}`))
	if err == nil || !strings.Contains(err.Error(), "io.k8s.api.core.v1.Prob") {
		t.Errorf("an unknown shape: %v", err)
	}
}
