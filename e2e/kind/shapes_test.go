package kind

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestShapes asserts that a real API server takes every shape of the chart: strictly, with the rules of the custom
// resources (CEL) and of Pod Security "restricted". It makes none of them.
func TestShapes(t *testing.T) {
	for _, crds := range []string{"gateway", "cert-manager", "prometheus", "istio.yaml"} {
		_, err := command("kubectl", "apply", "--server-side", "--force-conflicts", "-R", "-f", root(".tools/kube/crds/"+crds))
		must(t, crds, err)
	}
	_, err := command("kubectl", "wait", "--for=condition=Established", "--timeout=1m", "crd", "--all")
	must(t, "custom resource definitions", err)
	for _, args := range [][]string{
		{"create", "namespace", "istio-system"}, {"create", "namespace", gatewayNamespace}, {"create", "priorityclass", "important", "--value=1000"},
	} {
		if _, err := command("kubectl", args...); err != nil && !strings.Contains(err.Error(), "already exists") {
			t.Fatal(err)
		}
	}
	shapes, err := filepath.Glob(chart + "/ci/*-values.yaml")
	if err != nil || len(shapes) < 5 {
		t.Fatalf("%d shapes, %v", len(shapes), err)
	}
	for _, values := range shapes {
		t.Run(strings.TrimSuffix(filepath.Base(values), "-values.yaml"), func(t *testing.T) {
			manifest, err := command("helm", "template", "shape", chart, "-n", namespace, "-f", values)
			must(t, "helm template", err)
			_, err = piped(manifest, "kubectl", "apply", "--dry-run=server", "--validate=strict", "--warnings-as-errors", "-f", "-")
			must(t, "kubectl apply", err)
		})
	}
}
