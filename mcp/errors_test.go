package mcp

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

func TestErrorData(t *testing.T) {
	for data, want := range map[string]string{
		`{ "retryAfter": 5 }`: `; data: {"retryAfter":5}`, `[1, {"path":"/a"}]`: `; data: [1,{"path":"/a"}]`, `"more"`: `; data: "more"`,
		``: "", `null`: "", `{}`: "", `[]`: "", `""`: "", `false`: "", `"bad"`: "",
	} {
		if got := errorData(&jsonrpc.Error{Message: "bad", Data: json.RawMessage(data)}); got != want {
			t.Errorf("%s: %q", data, got)
		}
	}
	for _, data := range []string{`{"trace":"` + strings.Repeat("é", 5000) + `"}`, `{"shot":"data:image/png;base64,` + strings.Repeat("A", 5000) + `"}`} {
		if got := errorData(&jsonrpc.Error{Data: json.RawMessage(data)}); len(got) > maxErrorData+10 || !strings.Contains(got, " bytes") {
			t.Errorf("%d bytes: %s", len(got), got)
		}
	}
}
