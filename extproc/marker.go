package extproc

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
)

// MarkerHeader is the request header that marks a request to the loop
// listener. The loop listener's routes should remove it
// (request_headers_to_remove), so that no provider sees it.
const MarkerHeader = "x-mcp-via-llm-hop"

const markerKey = "X-Mcp-Via-Llm-Hop"

// newMarker returns a nonce and its MAC: who does not know the secret cannot
// make one, and replicas that share the secret know each other's.
func newMarker(secret []byte) string {
	nonce := make([]byte, 8)
	_, _ = rand.Read(nonce) // never fails (crypto/rand)
	text := hex.EncodeToString(nonce)
	return text + "." + markerMAC(secret, text)
}

func markerMAC(secret []byte, nonce string) string {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte("mcp-via-llm hop\x00" + nonce))
	return hex.EncodeToString(mac.Sum(nil))
}

// takeMarker removes the marker from h and reports whether there was one, and
// whether it is ours.
func takeMarker(h http.Header, secret []byte) (present, valid bool) {
	values := h[markerKey]
	delete(h, markerKey)
	for _, value := range values {
		nonce, mac, ok := strings.Cut(value, ".")
		if ok && hmac.Equal([]byte(mac), []byte(markerMAC(secret, nonce))) {
			valid = true
		}
	}
	return len(values) > 0, valid
}
