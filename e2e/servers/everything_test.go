package servers

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/mcp-via-llm/mcp-via-llm/mcp"
)

// The reference server "everything" of the TypeScript SDK does what it can over each
// of its transports. The one of 2024-11-05 is found without being told.
func TestEverything(t *testing.T) {
	command := tools.NodeServer("everything")
	overHTTP := func(t *testing.T, mode, path string) mcp.Server {
		address := listen(t, func(address string) []string {
			_, port, _ := net.SplitHostPort(address)
			return []string{"PORT=" + port}
		}, func(string) []string { return append(command, mode) })
		return mcp.Server{URL: "http://" + address + path}
	}
	for transport, server := range map[string]func(t *testing.T) mcp.Server{
		"stdio":           func(*testing.T) mcp.Server { return mcp.Server{Command: command} },
		"streamable-http": func(t *testing.T) mcp.Server { return overHTTP(t, "streamableHttp", "/mcp") },
		"sse":             func(t *testing.T) mcp.Server { return overHTTP(t, "sse", "/sse") },
	} {
		t.Run(transport, func(t *testing.T) {
			t.Parallel()
			cfg := server(t)
			cfg.ToolTimeout, cfg.ToolTimeoutMax = 20*time.Second, patience
			host, b, log := connect(t, cfg)
			// Tools that need the capabilities come when the handshake is over.
			eventually(t, "all tools", func() bool { b = bind(t, host); return b.Has("box__trigger-elicitation-request") })
			if st := host.Status()[0]; st.Transport != transport || st.ProtocolVersion < "2024-11-05" || !strings.Contains(fmt.Sprint(st.Capabilities), "logging") || st.Instructions == "" {
				t.Errorf("%+v", st)
			}
			everything(t, b, log)
		})
	}
}

func everything(t *testing.T, b *mcp.Binding, log *journal) {
	who := &user{
		sample: `{"role":"assistant","content":{"type":"text","text":"forty-two"},"model":"scripted","stopReason":"endTurn"}`,
		elicit: `{"action":"accept","content":{"name":"Ann","check":true,"color":"Red"}}`,
	}
	moved := 0
	ctx := mcp.WithAsker(mcp.WithProgress(t.Context(), func(_, _, _ string, _, _ float64) { moved++ }), who)
	call := func(tool, arguments string) mcp.Result { return b.Call(ctx, "box__"+tool, arguments) }
	for _, row := range []struct{ tool, arguments, want string }{
		{"echo", `{"message":"hello"}`, "Echo: hello"},
		{"get-sum", `{"a":5,"b":7}`, "12"},
		{"get-structured-content", `{"location":"Chicago"}`, "temperature"},
		{"get-annotated-message", `{"messageType":"error","includeImage":true}`, "[image image/png"},
		{"get-resource-links", `{"count":3}`, "[resource "},
		{"get-resource-reference", `{"resourceType":"Text","resourceId":1}`, "demo://resource"},
		{"get-resource-reference", `{"resourceType":"Blob","resourceId":2}`, "bytes]"},
		{"gzip-file-as-resource", `{"name":"a.gz","data":"data:text/plain;base64,aGVsbG8=","outputType":"resource"}`, "bytes]"},
		{"get-env", ``, "PATH"},
		{"get-roots-list", ``, "file:///data/project"},
		{"toggle-simulated-logging", ``, "ogging"},
		{"toggle-subscriber-updates", ``, "esource"},
		{"trigger-sampling-request", `{"prompt":"what?","maxTokens":20}`, "forty-two"},
		{"trigger-elicitation-request", ``, "Ann"},
	} {
		if res := call(row.tool, row.arguments); res.IsError || !strings.Contains(res.Text, row.want) {
			t.Errorf("%s: %+v, want %q", row.tool, res, row.want)
		}
	}
	if res := call("get-tiny-image", ""); len(res.Images) != 1 || res.Images[0].MIME != "image/png" || strings.Contains(res.Text, res.Images[0].Data[:40]) {
		t.Errorf("%+v", res)
	}
	moved = 0
	if res := call("trigger-long-running-operation", `{"duration":2,"steps":4}`); res.IsError || moved < 4 {
		t.Errorf("told %d times of progress: %+v", moved, res)
	}
	if len(who.asked) != 2 || !strings.Contains(who.asked[0], "what?") {
		t.Errorf("asked %q", who.asked)
	}
	// It tells something of each level every few seconds, from the one asked for on.
	eventually(t, "a message in the log", func() bool { return strings.Contains(log.String(), "stream=log") })
}
