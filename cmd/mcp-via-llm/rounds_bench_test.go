package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// BenchmarkRounds is a turn of 3 rounds with an MCP call each, with all that the service
// has save Envoy. What the MCP server takes, in the same process, is in the figures; the
// provider answers at once.
func BenchmarkRounds(b *testing.B) {
	for name, json := range map[string]bool{"JSON": true, "events": false} {
		b.Run(name, func(b *testing.B) {
			handler := benchHandler(b, toolServer(), json, addsUp)
			n := 0
			b.ReportAllocs()
			for b.Loop() {
				n++
				w := httptest.NewRecorder()
				handler.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1/chat/completions",
					strings.NewReader(fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":"question %d"}]}`, n))))
				if !strings.Contains(w.Body.String(), "3 calls made") {
					b.Fatal(w.Body)
				}
			}
		})
	}
}

// addsUp is a provider whose model adds up three times before it answers.
func addsUp(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	made := strings.Count(string(body), `"role":"tool"`)
	message, finish := fmt.Sprintf(`{"role":"assistant","content":null,"tool_calls":[{"id":"c%d","type":"function",`+
		`"function":{"name":"bench__add","arguments":"{\"a\":1,\"b\":%d}"}}]}`, made, made), "tool_calls"
	if made == 3 {
		message, finish = `{"role":"assistant","content":"3 calls made"}`, "stop"
	}
	answer := fmt.Sprintf(`{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":%s,"finish_reason":%q}],`+
		`"usage":{"prompt_tokens":100,"completion_tokens":20,"total_tokens":120}}`, message, finish)
	return &http.Response{StatusCode: http.StatusOK, ContentLength: int64(len(answer)), Body: io.NopCloser(strings.NewReader(answer)), Header: benchHeader}, nil
}
