// Package mcp is an MCP host: it keeps connections to the configured MCP
// servers, knows which tools, resources and prompts they offer now, presents these
// as functions of the chat-completions API and as instructions, and runs the calls
// that a model makes of them.
//
// A tour, bottom-up:
//
//   - [child] runs a stdio server as a process group; stdioTransport speaks
//     newline-delimited JSON-RPC with it. wire is the HTTP side: a RoundTripper
//     with the server's headers, limits and redirect rules, that looks at every
//     answer before the SDK does.
//   - capture takes the raw JSON of a result past the SDK, whose own decoding
//     turns big integers into floats and sorts the keys of schemas. eventStream
//     does so in event streams, and hands what the server says of itself to hear.
//   - running is one call with its clock, its progress and the [Asker] that
//     answers what the server asks during it.
//   - session is one MCP session: connect, list, call, close. It is never
//     shared between credentials.
//   - tool is what a server offers, of whatever kind, as a function; catalog is all
//     of it, immutable. walk reads a list page by page.
//   - conn supervises one connection: it connects with back-off, checks on suspicion,
//     and publishes an immutable state. Its keeper lists again what changed: tools
//     itself, since that shows whether the server is alive, other lists beside.
//   - [Host] owns the conns: one for each server, and one more for each set of
//     forwarded header values.
//   - [Toolset] is the catalog of some servers under injected names; [Binding]
//     fits it to one request and its limits, and routes calls. budget is how a model
//     reaches what there is no room for, searchIndex how it finds it.
//
// What is deliberately not offered: sampling, elicitation and roots to a server
// for which they are not turned on (one that asks is refused), and resending a call
// that may have taken effect.
package mcp
