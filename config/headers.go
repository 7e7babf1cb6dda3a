package config

import (
	"slices"
	"strings"
)

// llmCredentials are the headers that carry the caller's LLM credential at the
// usual providers and gateways: OpenAI, Azure OpenAI and API Management, Anthropic,
// Gemini, LiteLLM, Cloudflare AI Gateway, Portkey, Helicone, Amazon. No MCP server gets it.
// The chart has the same list.
var llmCredentials = []string{
	"authorization", "api-key", "x-api-key", "x-goog-api-key", "ocp-apim-subscription-key", "x-litellm-api-key",
	"cf-aig-authorization", "x-portkey-api-key", "x-portkey-virtual-key", "helicone-auth", "x-amz-security-token",
	"proxy-authorization",
}

// LLMCredentials are the request headers that usually carry the caller's LLM
// credential, in lower case, the most usual first.
func LLMCredentials() []string { return slices.Clone(llmCredentials) }

// IsLLMCredential reports whether a request header usually carries the caller's
// LLM credential.
func IsLLMCredential(header string) bool {
	return slices.Contains(llmCredentials, strings.ToLower(header))
}

// protocolHeaders belong to HTTP, one hop of it (RFC 9110, section 7.6.1) or the
// body, and to the transports of MCP.
var protocolHeaders = []string{
	"accept", "accept-encoding", "content-encoding", "content-length", "content-type", "expect", "host", "last-event-id",
	"connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade", "http2-settings",
	"mcp-session-id", "mcp-protocol-version", "mcp-method", "mcp-name",
}

func isProtocol(header string) bool {
	header = strings.ToLower(header)
	return slices.Contains(protocolHeaders, header) || strings.HasPrefix(header, "mcp-param-")
}
