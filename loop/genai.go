package loop

import (
	"github.com/tidwall/gjson"
	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"

	"github.com/mcp-via-llm/mcp-via-llm/chat"
)

// maxStops is how many stop sequences OpenAI takes.
const maxStops = 4

// requestAttributes are the parameters of a request, as the semantic conventions
// for generative AI and for OpenAI name them.
func requestAttributes(req *chat.Request) []attribute.KeyValue {
	var attrs []attribute.KeyValue
	if req.Stream {
		attrs = append(attrs, semconv.GenAIRequestStream(true))
	}
	add := func(a attribute.KeyValue) { attrs = append(attrs, a) }
	req.Members(func(name string, v gjson.Result) {
		number := v.Type == gjson.Number
		switch {
		case name == "temperature" && number:
			add(semconv.GenAIRequestTemperature(v.Float()))
		case name == "top_p" && number:
			add(semconv.GenAIRequestTopP(v.Float()))
		case name == "top_k" && number:
			add(semconv.GenAIRequestTopK(v.Float()))
		case (name == "max_tokens" || name == "max_completion_tokens") && number:
			add(semconv.GenAIRequestMaxTokens(int(v.Int())))
		case name == "frequency_penalty" && number:
			add(semconv.GenAIRequestFrequencyPenalty(v.Float()))
		case name == "presence_penalty" && number:
			add(semconv.GenAIRequestPresencePenalty(v.Float()))
		case name == "seed" && number:
			add(semconv.GenAIRequestSeed(int(v.Int())))
		case name == "service_tier" && v.Type == gjson.String && v.Str != "auto":
			add(semconv.OpenAIRequestServiceTierKey.String(cut(v.Str, maxName)))
		case name == "stop" && (v.IsArray() || v.Type == gjson.String):
			var stops []string
			for _, stop := range v.Array() { // of one, if it is no array
				stops = append(stops, cut(stop.String(), maxName))
			}
			add(semconv.GenAIRequestStopSequences(stops[:min(len(stops), maxStops)]...))
		case name == "response_format":
			add(outputType(v.Get("type").String()))
		}
	})
	return attrs
}

func outputType(format string) attribute.KeyValue {
	if format == "json_object" || format == "json_schema" {
		return semconv.GenAIOutputTypeJSON
	}
	return semconv.GenAIOutputTypeText
}

// replyAttributes describe what the model answered, without its words.
func replyAttributes(reply *chat.Reply) []attribute.KeyValue {
	var attrs []attribute.KeyValue
	if reply.Finish != "" {
		attrs = append(attrs, semconv.GenAIResponseFinishReasons(cut(reply.Finish, maxName)))
	}
	for _, text := range []struct {
		key   attribute.Key
		value string
	}{
		{semconv.GenAIResponseIDKey, reply.Origin.ID},
		{semconv.GenAIResponseModelKey, reply.Origin.Model},
		{semconv.OpenAIResponseServiceTierKey, reply.Origin.Tier},
		{semconv.OpenAIResponseSystemFingerprintKey, reply.Origin.Fingerprint},
	} {
		if text.value != "" {
			attrs = append(attrs, text.key.String(cut(text.value, maxName)))
		}
	}
	if reply.Usage == "" {
		return attrs
	}
	used := chat.ReadTokens(reply.Usage)
	attrs = append(attrs, semconv.GenAIUsageInputTokens(int(used.Input)), semconv.GenAIUsageOutputTokens(int(used.Output)))
	for _, detail := range []struct {
		key   attribute.Key
		value int64
	}{
		{semconv.GenAIUsageCacheReadInputTokensKey, used.CacheRead},
		{semconv.GenAIUsageCacheCreationInputTokensKey, used.CacheWrite},
		{semconv.GenAIUsageReasoningOutputTokensKey, used.Reasoning},
	} {
		if detail.value > 0 {
			attrs = append(attrs, detail.key.Int64(detail.value))
		}
	}
	return attrs
}
