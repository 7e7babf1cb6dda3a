// Package credential makes requests to an MCP server carry what proves who asks,
// and keeps that proof from everybody else. It knows HTTP and OAuth, and nothing
// of MCP sessions.
//
// A tour, bottom-up:
//
//   - [zone] and guard.go say which addresses may be dialled. An address that a
//     server or a metadata document names must not lead into networks that this
//     server is not itself in.
//   - material.go reads tokens, secrets and certificates from files, again when
//     they change.
//   - grant.go asks a token endpoint for a token, discover.go finds that endpoint.
//   - cell keeps one access token fresh for many requests.
//   - [Source] belongs to one server, [Signer] to one caller of it. A Signer's
//     RoundTripper adds the token and answers the server's challenges.
package credential
