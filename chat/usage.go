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
	m := members(usage, "prompt_tokens", "completion_tokens", "prompt_tokens_details", "completion_tokens_details",
		"prompt_cache_hit_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
	prompt := members(m[2].Raw, "cached_tokens", "cache_creation_tokens", "cache_write_tokens")
	return Tokens{
		Input:      firstNumber(m[0]),
		Output:     firstNumber(m[1]),
		CacheRead:  firstNumber(prompt[0], m[4], m[5]),
		CacheWrite: firstNumber(prompt[1], m[6], prompt[2]),
		Reasoning:  firstNumber(members(m[3].Raw, "reasoning_tokens")[0]),
	}
}

func firstNumber(all ...gjson.Result) int64 {
	for _, n := range all {
		if n.Type == gjson.Number {
			return max(n.Int(), 0)
		}
	}
	return 0
}
