package mcp

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// A reload keeps the connections of unchanged servers, and running calls.
func TestUpdate(t *testing.T) {
	t.Parallel()
	same, changed, gone := newToolbox(), newToolbox(), newToolbox()
	fs, fc, fg := same.serve(t, stateful), changed.serve(t, stateful), gone.serve(t, stateful)
	cfg := []Server{config("same", stateful, fs), config("changed", stateful, fc), config("gone", stateful, fg)}
	h := newTestHost(t, cfg...)
	before := toolsOf(t, h, "same", "changed", "gone").Bind(nil)
	running := make(chan Result, 2)
	for _, name := range []string{"changed__hang", "gone__hang"} {
		go func() { running <- before.Call(t.Context(), name, "") }()
	}
	await(t, "start of the call", changed.started)
	await(t, "start of the call", gone.started)

	cfg[1].Headers = map[string]string{"X-New": "yes"}
	h.Update([]Server{cfg[0], cfg[1], named(t, "fresh", "x")})
	ts := toolsOf(t, h, "same", "changed", "gone", "fresh")
	if got := ts.Unavailable(); len(got) != 1 || got[0] != "gone" {
		t.Errorf("unavailable %q", got)
	}
	close(changed.release)
	close(gone.release)
	for range 2 {
		if res := await(t, "result", running); res.Text != "released" {
			t.Errorf("a running call did not survive: %+v", res)
		}
	}
	if n := fs.count("initialize"); n != 1 {
		t.Errorf("an unchanged server was connected %d times", n)
	}
	// A turn that began before goes on, with what is there now.
	if res := before.Call(t.Context(), "changed__add_numbers", `{"a":1,"b":2}`); res.Text != "3" {
		t.Errorf("%+v", res)
	}
	if res := before.Call(t.Context(), "gone__add_numbers", `{"a":1,"b":2}`); res.Outcome != OutcomeUnavailable {
		t.Errorf("%+v", res)
	}
	fc.mu.Lock()
	defer fc.mu.Unlock()
	for _, r := range fc.seen {
		if r.Header.Get("X-New") == "yes" {
			return
		}
	}
	t.Error("the new header was never sent")
}

// Close cancels what runs, says goodbye to the servers, and is quick.
func TestClose(t *testing.T) {
	for _, kind := range []string{stateful, stateless, plainSSE} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			box := newToolbox()
			f := box.serve(t, kind)
			h := newTestHost(t, config("box", kind, f))
			b := toolsOf(t, h, "box").Bind(nil)
			done := make(chan Result, 1)
			go func() { done <- b.Call(context.Background(), "box__hang", "") }()
			await(t, "start of the call", box.started)
			begin := time.Now()
			if err := h.Close(); err != nil || time.Since(begin) > 4*time.Second {
				t.Errorf("%v after %v", err, time.Since(begin))
			}
			if res := await(t, "result", done); !res.IsError {
				t.Errorf("%+v", res)
			}
			await(t, "cancellation at the server", box.cancelled)
			if res := b.Call(t.Context(), "box__add_numbers", `{"a":1,"b":2}`); res.Outcome != OutcomeUnavailable {
				t.Errorf("%+v", res)
			}
			h.Update([]Server{config("box", kind, f)})
			if got := h.Toolset(t.Context(), Query{Servers: []string{"box"}}).Unavailable(); len(got) != 1 {
				t.Error("a closed host has tools")
			}
		})
	}
}

// A server that answers nothing any more does not keep Close.
func TestCloseHungServer(t *testing.T) {
	t.Parallel()
	f := newToolbox().serve(t, stateful)
	h := newTestHost(t, config("box", stateful, f))
	toolsOf(t, h, "box")
	f.on(func(_ http.ResponseWriter, r *http.Request, _ []byte) bool {
		<-r.Context().Done()
		return true
	})
	begin := time.Now()
	if err := h.Close(); err != nil || time.Since(begin) > 6*time.Second {
		t.Errorf("%v after %v", err, time.Since(begin))
	}
}

// With an egress, every request goes there and names the server as its host, but for
// servers that are dialled directly.
func TestEgress(t *testing.T) {
	t.Parallel()
	f := newToolbox().serve(t, stateless)
	var mu sync.Mutex
	hosts := map[string]bool{}
	f.on(func(_ http.ResponseWriter, r *http.Request, _ []byte) bool {
		mu.Lock()
		defer mu.Unlock()
		hosts[r.Host+r.URL.Path] = true
		r.Host = "localhost" // the SDK's server refuses another name on loopback
		return false
	})
	egress, err := url.Parse(f.URL)
	if err != nil {
		t.Fatal(err)
	}
	beside := newToolbox().serve(t, stateless)
	h := startHost(t, Options{Egress: egress, Servers: []Server{
		{Name: "box", URL: "https://mcp.example.com/mcp"}, {Name: "beside", URL: beside.URL, Direct: true},
	}})
	for _, name := range []string{"box", "beside"} {
		if res := toolsOf(t, h, name).Bind(nil).Call(t.Context(), name+"__add_numbers", `{"a":1,"b":2}`); res.Text != "3" {
			t.Errorf("%s: %+v, %+v", name, res, h.Status())
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if len(hosts) != 1 || !hosts["mcp.example.com/mcp"] {
		t.Errorf("%v", hosts)
	}
}

// A server that asks for input from a person gets none, and the model is told.
func TestNeedsInput(t *testing.T) {
	for _, kind := range []string{stateful, stateless} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			box := newToolbox()
			box.server.AddTool(&sdk.Tool{Name: "confirm", InputSchema: map[string]any{"type": "object"}},
				func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
					return &sdk.CallToolResult{InputRequests: sdk.InputRequestMap{"q": &sdk.ElicitParams{Message: "Sure?", RequestedSchema: map[string]any{"type": "object"}}}}, nil
				})
			h := newTestHost(t, config("box", kind, box.serve(t, kind)))
			res := toolsOf(t, h, "box").Bind(nil).Call(t.Context(), "box__confirm", "")
			if res.Outcome != OutcomeToolError || kind == stateless && !strings.Contains(res.Text, "input from a person") {
				t.Errorf("%+v", res)
			}
		})
	}
}

// Neither arguments nor results are ever logged, whatever goes wrong with them.
func TestNothingPrivateIsLogged(t *testing.T) {
	t.Parallel()
	const secret = "s3cr3t"
	var log buffer
	box := newToolbox()
	box.add("leaky", `{"type":"object","properties":{"n":{"type":"integer"}}}`, `{"content":[],"structuredContent":{"a":"`+secret+`"}}`,
		func(t *sdk.Tool) { t.OutputSchema = map[string]any{"type": "object", "required": []string{"b"}} })
	f := box.serve(t, stateful)
	var status []ServerStatus
	cfg := config("box", stateful, f)
	cfg.URL += "/?key=" + secret
	cfg.Headers = map[string]string{"Authorization": secret}
	h := startHost(t, Options{Servers: []Server{cfg}, Log: logTo(&log)})
	b := toolsOf(t, h, "box").Bind(nil)
	b.Call(t.Context(), "box__leaky", `{"n":1,"x":"`+secret+`"}`)
	b.Call(t.Context(), "box__leaky", `{"n":"`+secret+`"}`)
	b.Call(t.Context(), "box__leaky", secret)
	b.Call(t.Context(), secret, secret)
	for _, answer := range []string{"data: {\"" + secret + "\n\n", secret + "\n\n", `{"jsonrpc":"2.0","id":"` + secret + `","result":` + secret} {
		f.on(func(w http.ResponseWriter, _ *http.Request, body []byte) bool {
			if !isMethod(body, "tools/call") {
				return false
			}
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, answer)
			return true
		})
		b.Call(t.Context(), "box__leaky", `{"n":1,"x":"`+secret+`"}`)
		status = append(status, h.Status()...)
		eventually(t, "connected again", func() bool { return h.Status()[0].State == "connected" })
	}
	f.Server.Close()
	eventually(t, "away", func() bool {
		b.Call(t.Context(), "box__leaky", `{"n":1,"x":"`+secret+`"}`)
		return h.Status()[0].State == "unavailable"
	})
	status = append(status, h.Status()...)
	if strings.Contains(log.String(), secret) {
		t.Errorf("in the log:\n%s", log.String())
	}
	if strings.Contains(fmt.Sprint(status), secret) {
		t.Errorf("in the status: %+v", status)
	}
	if !strings.Contains(log.String(), "output schema") {
		t.Error("a result that breaks its schema was not logged")
	}
}
