package telemetry

import (
	"cmp"
	"net/url"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
)

// hosts tell a provider by the host of its base URL; a name that begins with a
// dot is the end of a host.
var hosts = []struct {
	host     string
	provider attribute.KeyValue
}{
	{"api.openai.com", semconv.GenAIProviderNameOpenAI},
	{".openai.azure.com", semconv.GenAIProviderNameAzureAIOpenAI},
	{".services.ai.azure.com", semconv.GenAIProviderNameAzureAIInference},
	{"api.anthropic.com", semconv.GenAIProviderNameAnthropic},
	{"api.mistral.ai", semconv.GenAIProviderNameMistralAI},
	{"api.groq.com", semconv.GenAIProviderNameGroq},
	{"api.deepseek.com", semconv.GenAIProviderNameDeepseek},
	{"api.x.ai", semconv.GenAIProviderNameXAI},
	{"api.perplexity.ai", semconv.GenAIProviderNamePerplexity},
	{"api.cohere.com", semconv.GenAIProviderNameCohere},
	{"generativelanguage.googleapis.com", semconv.GenAIProviderNameGCPGemini},
	{"aiplatform.googleapis.com", semconv.GenAIProviderNameGCPVertexAI},
	{"-aiplatform.googleapis.com", semconv.GenAIProviderNameGCPVertexAI},
	{".amazonaws.com", semconv.GenAIProviderNameAWSBedrock},
}

// Provider describes who answers, as attributes of spans and metrics: the
// provider's name by the host of its base URL (nil if that is not configured),
// else by the dialect of the profile, which is the format it speaks (semantic
// conventions, gen_ai.provider.name).
func Provider(base *url.URL, dialect string) []attribute.KeyValue {
	name := semconv.GenAIProviderNameOpenAI
	switch dialect {
	case "deepseek":
		name = semconv.GenAIProviderNameDeepseek
	case "mistral":
		name = semconv.GenAIProviderNameMistralAI
	case "bedrock":
		name = semconv.GenAIProviderNameAWSBedrock
	case "ollama":
		name = semconv.GenAIProviderNameKey.String("ollama")
	}
	if base == nil {
		return []attribute.KeyValue{name}
	}
	host := strings.ToLower(base.Hostname())
	for _, h := range hosts {
		if host == h.host || (h.host[0] == '.' || h.host[0] == '-') && strings.HasSuffix(host, h.host) {
			name = h.provider
			break
		}
	}
	return []attribute.KeyValue{name, semconv.ServerAddress(host), semconv.ServerPort(Port(base))}
}

// Port is the port of an http or https URL.
func Port(u *url.URL) int {
	standard := "80"
	if u.Scheme == "https" {
		standard = "443"
	}
	port, _ := strconv.Atoi(cmp.Or(u.Port(), standard)) // net/url checks that it is digits
	return port
}
