package mcp

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// The status shows what a server is, what it does now, and what went wrong last,
// although all is well again.
func TestStatus(t *testing.T) {
	t.Parallel()
	s := newScript(t)
	s.answer("POST initialize", func(w http.ResponseWriter, _ *http.Request, m heard) {
		w.Header().Set(headerSession, fmt.Sprint("s-", len(s.all("POST initialize"))))
		result(w, m, `{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true},"logging":{},"completions":{}},
			"serverInfo":{"name":"o","version":"1"},"instructions":"`+strings.Repeat("Use me well. ", 300)+`"}`)
	})
	s.answer("POST tools/call", func(w http.ResponseWriter, r *http.Request, m heard) {
		if m.header.Get(headerSession) == "s-1" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		event(w, `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":`+m.get("params._meta.progressToken").Raw+`,"progress":3,"total":9,"message":"secret"}}`)
		<-r.Context().Done()
	})
	h := newTestHost(t, config("box", stateful, s.front))
	b := toolsOf(t, h, "box").Bind(nil)
	st := h.Status()[0]
	if st.Transport != "streamable-http" || st.ProtocolVersion != "2025-06-18" || !slices.Equal(st.Capabilities, []string{"completions", "logging", "tools"}) ||
		!strings.HasPrefix(st.Instructions, "Use me well.") || len(st.Instructions) > maxInstructionsShown || st.LastError != "" || st.Calls != nil {
		t.Errorf("%+v", st)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan Result, 1)
	begin := time.Now()
	go func() { done <- b.Call(ctx, "box__run", `{"key":"secret"}`) }()
	eventually(t, "progress in the status", func() bool {
		st = h.Status()[0]
		return len(st.Calls) == 1 && st.Calls[0].Progress != nil
	})
	call := st.Calls[0]
	if call.Tool != "run" || call.Since.Before(begin) || call.Progress.Progress != 3 || call.Progress.Total != 9 || call.Progress.At.IsZero() {
		t.Errorf("%+v", call)
	}
	if st.LastError != errSessionLost.Error() || st.LastErrorAt.Before(begin) || st.Error != "" || st.State != "connected" {
		t.Errorf("%+v", st)
	}
	if strings.Contains(fmt.Sprintf("%+v", st), "secret") {
		t.Error("arguments in the status")
	}
	cancel()
	await(t, "result", done)
	eventually(t, "no call", func() bool { return h.Status()[0].Calls == nil })
	if strings.Contains(string(b.JSON()), "Use me well") {
		t.Error("the server's instructions are in the tools")
	}
}

func TestStatusOfTransports(t *testing.T) {
	t.Parallel()
	box := newToolbox()
	sse := config("sse", plainSSE, box.serve(t, plainSSE))
	h := newTestHost(t, sse, config("child", stdio, nil), Server{Name: "gone", URL: "http://127.0.0.1:1"})
	toolsOf(t, h, "sse", "child", "gone")
	eventually(t, "an error", func() bool { return h.Status()[2].LastError != "" })
	st := h.Status()
	if st[0].Transport != "sse" || st[1].Transport != "stdio" || st[2].Transport != "" {
		t.Errorf("%+v", st)
	}
}
