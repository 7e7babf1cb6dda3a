// Package chat is the wire format of OpenAI chat completions, as far as a
// gateway that adds tools to it needs: editing a request without touching the
// bytes it does not own, putting together the deltas of a streamed answer,
// replaying an assistant message, and giving the client one answer made of the
// answers of several exchanges with the model (segments).
//
// Source: OpenAI API reference, "Chat completions" and "Streaming", and what
// providers that call themselves compatible send in practice.
//
// JSON is read with gjson and edited with sjson: both work on the raw text, so
// numbers, member order, escapes and unknown members stay as they were sent.
package chat
