package main

import (
	"crypto/sha256"
	"encoding/hex"
	"net"
	"net/http"

	"github.com/mcp-via-llm/mcp-via-llm/config"
	"github.com/mcp-via-llm/mcp-via-llm/extproc"
)

// jwtMetadata is the namespace in which Envoy's jwt_authn filter leaves the
// payload of a token it has verified (payload_in_metadata).
const jwtMetadata = "envoy.filters.http.jwt_authn"

// identity gives what proves who sent a request, and on whose behalf: whose memory
// the request gets.
func (s *snapshot) identity(r *http.Request) string {
	return s.sender(r) + onBehalf(s.callers, r.Header)
}

// sender is the first proof in the order of the configuration. A sender who proves
// nothing is known by address alone.
func (s *snapshot) sender(r *http.Request) string {
	info, _ := extproc.InfoFrom(r.Context())
	if info == nil {
		info = &extproc.Info{}
	}
	if value := first(r.Header, s.proof); s.proof != "" && value != "" {
		return "header:" + value
	}
	for _, from := range s.config.Identity.From {
		var value string
		switch from {
		case "mtls_san":
			value = info.Attributes["connection.uri_san_peer_certificate"]
		case "jwt_sub":
			value = jwtSubject(info)
		case "authorization":
			value = presented(r.Header)
		}
		if value != "" {
			return from + ":" + value
		}
	}
	address := info.Attributes["source.address"]
	if address == "" {
		address = r.RemoteAddr
	}
	if host, _, err := net.SplitHostPort(address); err == nil {
		address = host
	}
	return "address:" + address
}

// jwtSubject is the issuer and subject of the verified token.
func jwtSubject(info *extproc.Info) string {
	for _, payload := range info.DynamicMetadata.GetFilterMetadata()[jwtMetadata].GetFields() {
		claims := payload.GetStructValue().GetFields()
		if sub := claims["sub"].GetStringValue(); sub != "" {
			return claims["iss"].GetStringValue() + "|" + sub
		}
	}
	return ""
}

// llmCredentials are the headers that usually carry the credential for the LLM.
var llmCredentials = headers(config.LLMCredentials())

// presented is a hash of the credential that the caller presents to the LLM.
func presented(h http.Header) string {
	for _, name := range llmCredentials {
		if value := first(h, name.key); value != "" {
			sum := sha256.Sum256([]byte(name.key + value))
			return hex.EncodeToString(sum[:16])
		}
	}
	return ""
}

// header is the name of a header as it is written, and as [http.Header] has it.
type header struct{ name, key string }

func headers(names []string) []header {
	all := make([]header, len(names))
	for i, name := range names {
		all[i] = header{name, http.CanonicalHeaderKey(name)}
	}
	return all
}

// first is the first value of a header, by its canonical name.
func first(h http.Header, key string) string {
	if values := h[key]; len(values) > 0 {
		return values[0]
	}
	return ""
}
