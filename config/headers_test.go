package config

import (
	"os"
	"strings"
	"testing"
)

// Envoy must not take away what the provider needs, whoever wrote its configuration.
func TestChartKnowsTheSameCredentials(t *testing.T) {
	text, err := os.ReadFile("../charts/mcp-via-llm/templates/_filter.tpl")
	if err != nil {
		t.Fatal(err)
	}
	if want := `(list "" "` + strings.Join(LLMCredentials(), `" "`) + `")`; !strings.Contains(string(text), want) {
		t.Errorf("_filter.tpl lacks %s", want)
	}
}
