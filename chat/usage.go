package chat

import (
	"strings"

	"github.com/tidwall/gjson"
)

// AddUsage sums two raw usage objects member by member, details included. An
// empty one adds nothing; members that are not numbers stay as in the first.
func AddUsage(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	gjson.Parse(b).ForEach(func(key, add gjson.Result) bool {
		path := gjson.Escape(key.String())
		old := gjson.Get(a, path)
		switch {
		case old.IsObject() && add.IsObject():
			a = set(a, path, AddUsage(old.Raw, add.Raw))
		case old.Type == gjson.Number && add.Type == gjson.Number:
			a = set(a, path, addNumbers(old, add))
		case !present(old):
			a = set(a, path, add.Raw)
		}
		return true
	})
	return a
}

func addNumbers(a, b gjson.Result) string {
	if strings.ContainsAny(a.Raw+b.Raw, ".eE") {
		return formatFloat(a.Float() + b.Float())
	}
	return formatInt(a.Int() + b.Int())
}

// Tokens is a usage object in numbers.
type Tokens struct {
	Input  int64 `json:"input"`
	Output int64 `json:"output"`
	// Of Input, what the provider took from its prompt cache and put there.
	CacheRead  int64 `json:"cache_read"`
	CacheWrite int64 `json:"cache_write"`
	// Of Output, what nobody reads.
	Reasoning int64 `json:"reasoning"`
}

// ReadTokens reads a raw usage object. Providers agree on names for the cache no
// more than on caching: OpenAI's come first, then those of DeepSeek, Anthropic
// (by way of gateways) and OpenRouter.
func ReadTokens(usage string) Tokens {
	v := gjson.Parse(usage)
	first := func(paths ...string) int64 {
		for _, path := range paths {
			if n := v.Get(path); n.Type == gjson.Number {
				return max(n.Int(), 0)
			}
		}
		return 0
	}
	return Tokens{
		Input:      first("prompt_tokens"),
		Output:     first("completion_tokens"),
		CacheRead:  first("prompt_tokens_details.cached_tokens", "prompt_cache_hit_tokens", "cache_read_input_tokens"),
		CacheWrite: first("prompt_tokens_details.cache_creation_tokens", "cache_creation_input_tokens", "prompt_tokens_details.cache_write_tokens"),
		Reasoning:  first("completion_tokens_details.reasoning_tokens"),
	}
}
