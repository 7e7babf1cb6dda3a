package kind

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

const selector = "app.kubernetes.io/component=service,app.kubernetes.io/instance=" + release

// pods lists the service's pods that are not on their way out.
func pods(t *testing.T) []string {
	t.Helper()
	out, err := kubectl("get", "pods", "-l", selector, "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, p := range gjson.Get(out, "items").Array() {
		if !p.Get("metadata.deletionTimestamp").Exists() {
			names = append(names, p.Get("metadata.name").String())
		}
	}
	return names
}

// proxied is a page of a pod, through the API server.
func proxied(pod string, port int, path string) string {
	return fmt.Sprintf("/api/v1/namespaces/%s/pods/%s:%d/proxy/%s", namespace, pod, port, path)
}

// metric sums the series of a metric of each pod.
func metric(t *testing.T, name string) map[string]float64 {
	t.Helper()
	all := map[string]float64{}
	for _, pod := range pods(t) {
		page, err := kubectl("get", "--raw", proxied(pod, 9004, "metrics"))
		if err != nil {
			t.Logf("%s: %v", pod, err) // it may be gone by now
			continue
		}
		all[pod] = 0
		for line := range strings.Lines(page) {
			series, value, _ := strings.Cut(strings.TrimSpace(line), " ")
			if series == name || strings.HasPrefix(series, name+"{") {
				number, err := strconv.ParseFloat(value, 64)
				if err != nil {
					t.Fatalf("%s: %v", line, err)
				}
				all[pod] += number
			}
		}
	}
	return all
}

// turns counts the turns that each pod has ended.
func turns(t *testing.T) map[string]float64 { return metric(t, "mcp_via_llm_turns_total") }
