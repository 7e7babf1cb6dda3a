package chat

// Dialect holds the peculiarities of a provider that no answer reveals before it
// is too late. A client profile names one; nothing is guessed from model names.
type Dialect struct {
	// NoUsage: the provider refuses stream_options, so usage is not asked for.
	NoUsage bool
	// NoNone: the provider knows no tool_choice "none" (Converse API, ToolChoice), so
	// the model is not held to answer in text.
	NoNone bool
	// Reasoning says what of reasoning_content is replayed with an assistant
	// message that has tool calls: "" what was received, "always" also an empty
	// one if there was none, "drop" nothing.
	Reasoning string
	// Content is the form in which the content of a message that only calls
	// tools is replayed: "" as received, or "null", "empty", "omit".
	Content string
	// MaxTokens: the limit of an answer is called max_tokens and nothing else.
	MaxTokens bool
}

// Dialects are the names that a client profile can give.
var Dialects = map[string]Dialect{
	"openai":   {},
	"deepseek": {Reasoning: "always", MaxTokens: true},
	"mistral":  {NoUsage: true, MaxTokens: true},
	"ollama":   {Content: "empty", MaxTokens: true},
	"bedrock":  {NoNone: true, Content: "omit", MaxTokens: true},
}
