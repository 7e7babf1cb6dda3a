package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

// eachTransport runs a test over every transport. box is nil for stdio, where
// the server is another process.
func eachTransport(t *testing.T, test func(t *testing.T, h *Host, box *toolbox)) {
	for _, kind := range []string{stateful, stateless, plainSSE, stdio} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			if kind == stdio {
				test(t, newTestHost(t, config("box", stdio, nil)), nil)
				return
			}
			box := newToolbox()
			f := box.serve(t, kind)
			test(t, newTestHost(t, config("box", kind, f)), box)
		})
	}
}

func TestListAndCall(t *testing.T) {
	eachTransport(t, func(t *testing.T, h *Host, box *toolbox) {
		ts := toolsOf(t, h, "box")
		if len(ts.Unavailable()) > 0 {
			t.Fatalf("unavailable: %+v", h.Status())
		}
		b := ts.Bind(nil)
		if res := b.Call(t.Context(), "box__add_numbers", `{"a":5,"b":7}`); res.Text != "12" || res.IsError || res.Outcome != OutcomeOK {
			t.Errorf("add_numbers: %+v", res)
		}
		res := b.Call(t.Context(), "box__fails", "")
		if res.Text != "box__fails failed: disk full" || !res.IsError || res.Outcome != OutcomeToolError {
			t.Errorf("fails: %+v", res)
		}
		if !h.Ready() {
			t.Error("not ready")
		}
		if st := h.Status()[0]; st.State != "connected" || st.Tools < 6 || st.ProtocolVersion == "" || st.Error != "" {
			t.Errorf("status %+v", st)
		}
	})
}

// Digits and key order survive in schemas, arguments and results.
func TestExactJSON(t *testing.T) {
	eachTransport(t, func(t *testing.T, h *Host, box *toolbox) {
		b := toolsOf(t, h, "box").Bind(nil)
		if want := `"name":"box__echo","description":"about echo","parameters":` + anySchema + `}}`; !strings.Contains(string(b.JSON()), want) {
			t.Errorf("schema changed on the way:\n%s", b.JSON())
		}
		if !json.Valid([]byte("[" + string(b.JSON()) + "]")) {
			t.Error("tools are not JSON")
		}
		args := `{"z":9223372036854775807,"y":1.50,"a":"<b>&","k":` + bigInt + `}`
		if res := b.Call(t.Context(), "box__echo", args); res.Text != `{"id":`+bigInt+`,"a":1}` || res.IsError {
			t.Errorf("result %+v", res)
		}
		if box != nil {
			if _, got := box.called("echo"); got != args {
				t.Errorf("arguments arrived as %s", got)
			}
		}
		if res := b.Call(t.Context(), "box__echo", `{"z":1,"k":9007199254740992}`); res.Outcome != OutcomeInvalidArguments {
			t.Errorf("a constant that differs in the last digit passed: %+v", res)
		}
	})
}

// A result of some megabytes arrives, and the model gets its beginning and end.
func TestLargeResult(t *testing.T) {
	eachTransport(t, func(t *testing.T, h *Host, _ *toolbox) {
		res := toolsOf(t, h, "box").Bind(nil).Call(t.Context(), "box__large", "{}")
		if res.IsError || len(res.Text) > DefaultMaxResultBytes || len(res.Text) < DefaultMaxResultBytes-8 {
			t.Errorf("%d bytes, outcome %s", len(res.Text), res.Outcome)
		}
		if !strings.Contains(res.Text, "bytes left out") {
			t.Error("no notice of what was cut")
		}
	})
}

func TestManyCallsAtOnce(t *testing.T) {
	eachTransport(t, func(t *testing.T, h *Host, _ *toolbox) {
		b := toolsOf(t, h, "box").Bind(nil)
		var group sync.WaitGroup
		for i := range 50 {
			group.Go(func() {
				res := b.Call(t.Context(), "box__add_numbers", fmt.Sprintf(`{"a":%d,"b":1}`, i))
				if res.Text != fmt.Sprint(i+1) {
					t.Errorf("call %d: %+v", i, res)
				}
			})
		}
		group.Wait()
	})
}

// A call that ends early, for either reason, ends at the server too, and the
// connection goes on.
func TestCancelReachesServer(t *testing.T) {
	eachTransport(t, func(t *testing.T, h *Host, box *toolbox) {
		if box == nil {
			return // seen from outside the process in TestStdioCancel
		}
		b := toolsOf(t, h, "box").Bind(nil)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan Result, 1)
		go func() { done <- b.Call(ctx, "box__hang", "{}") }()
		await(t, "start of the call", box.started)
		begin := time.Now()
		cancel()
		if res := await(t, "result", done); res.Outcome != OutcomeCancelled {
			t.Errorf("%+v", res)
		}
		await(t, "cancellation at the server", box.cancelled)
		if d := time.Since(begin); d > time.Second {
			t.Errorf("cancelled after %v", d)
		}
		if res := b.Call(t.Context(), "box__add_numbers", `{"a":1,"b":1}`); res.Text != "2" {
			t.Errorf("the connection did not survive: %+v", res)
		}
	})
}

func TestToolTimeout(t *testing.T) {
	for _, kind := range []string{stateful, stateless, plainSSE, stdio} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			box := newToolbox()
			f := box.serve(t, kind)
			cfg := config("box", kind, f)
			cfg.ToolTimeout = 200 * time.Millisecond
			h := newTestHost(t, cfg)
			b := toolsOf(t, h, "box").Bind(nil)
			res := b.Call(t.Context(), "box__hang", "{}")
			if res.Outcome != OutcomeTimeout || !res.IsError || !strings.Contains(res.Text, "box__hang") {
				t.Errorf("%+v", res)
			}
			if kind != stdio {
				await(t, "cancellation at the server", box.cancelled)
			}
			if st := h.Status()[0]; st.State != "connected" {
				t.Errorf("a timeout of one call broke the connection: %+v", st)
			}
		})
	}
}
