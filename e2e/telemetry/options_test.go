package telemetry_test

import (
	"strings"
	"testing"

	"github.com/mcp-via-llm/mcp-via-llm/e2e/llm"
)

// TestResumeAfterTheCall asserts the links of a resume that comes when the call in the background has ended: only the
// resume can know of both then.
func TestResumeAfterTheCall(t *testing.T) {
	w := start(t, setup{brain: mixedTurns()})
	close(w.shop.gate)
	w.post(t, request+"]}", browser(firstTrace, firstSpan))
	eventually(t, arrival, func() string {
		if x := w.fetch(t, firstTrace); x == nil || len(x.named("execute_tool shop__order")) == 0 {
			return "the call in the background has not ended"
		}
		return ""
	})
	w.post(t, request+called+"]}", browser(resumeTrace, resumeSpan))
	resume := w.await(t, resumeTrace, []string{turn + " > chat scripted-1", "envoy:ingress > envoy:router llm egress"})
	first := w.fetch(t, firstTrace)
	if got, want := strings.Join(resume.one("turn").links, " "), first.one("turn").id+" "+first.one("execute_tool shop__order").id; got != want {
		t.Errorf("the resume has links %s, want %s", got, want)
	}
}

// TestEnvoysJoin asserts on each Envoy that its spans and the service's are one trace, with the service's under that of
// Envoy's own call.
func TestEnvoysJoin(t *testing.T) {
	for _, version := range append(tools.OlderEnvoys(), tools.DefaultEnvoy()) {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			w := start(t, setup{envoy: version, brain: llm.Always(llm.Text("Hi."))})
			w.post(t, request+"]}", browser(firstTrace, firstSpan))
			var x *traced
			eventually(t, arrival, func() string {
				if x = w.fetch(t, firstTrace); x == nil || len(x.named("turn")) == 0 || len(x.roots) != 1 {
					return "no whole trace"
				}
				return ""
			})
			call := x.byID[x.one("turn").parent]
			if call == nil || call.service != "envoy" || call.kind != "client" || x.byID[call.parent] != x.roots[0] || x.roots[0].kind != "server" {
				t.Errorf("the turn is not under Envoy's call:\n%v", x)
			}
		})
	}
}

// TestContentOnRequest asserts that what is said is in the trace only by the variable of the conventions, here over
// gRPC.
func TestContentOnRequest(t *testing.T) {
	w := start(t, setup{brain: mixedTurns()})
	close(w.shop.gate)
	said := start(t, setup{brain: mixedTurns(), env: []string{
		"OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true", "OTEL_EXPORTER_OTLP_PROTOCOL=grpc",
	}, grpc: true})
	close(said.shop.gate)
	for world, want := range map[*world]bool{w: false, said: true} {
		world.post(t, request+"]}", browser(firstTrace, firstSpan))
		var x *traced
		eventually(t, arrival, func() string {
			if x = world.fetch(t, firstTrace); x == nil || len(x.named("execute_tool shop__order")) == 0 || len(x.named("chat scripted-1")) < 3 {
				return "no whole trace"
			}
			return ""
		})
		for _, row := range []struct{ got, want string }{
			{x.named("chat scripted-1")[0].tags["gen_ai.input.messages"], "Order bread and book a table."},
			{x.named("chat scripted-1")[1].tags["gen_ai.output.messages"], `"name":"shop__look"`},
			{x.one("execute_tool shop__look").tags["gen_ai.tool.call.arguments"], "bread"},
			{x.one("execute_tool shop__look").tags["gen_ai.tool.call.result"], "bread is there"},
		} {
			if strings.Contains(row.got, row.want) != want {
				t.Errorf("content %v: %q", want, row.got)
			}
		}
	}
}

// TestSamplers asserts that the standard variable decides, and that a trace of which the service records nothing still
// goes through it.
func TestSamplers(t *testing.T) {
	w := start(t, setup{brain: llm.Always(llm.Text("Hi.")), env: []string{"OTEL_TRACES_SAMPLER=always_off"}})
	w.post(t, request+"]}", browser(firstTrace, firstSpan))
	var x *traced
	eventually(t, arrival, func() string {
		if x = w.fetch(t, firstTrace); x == nil || len(x.roots) != 1 || len(x.roots[0].children) < 2 {
			return "no trace of Envoy"
		}
		return ""
	})
	for _, s := range x.spans {
		if s.service != "envoy" {
			t.Errorf("the service has recorded %s", s.name)
		}
	}
	if got := w.LLM.Requests()[0].Header.Get("Traceparent"); !strings.HasPrefix(got, "00-"+firstTrace+"-") {
		t.Errorf("the provider was sent traceparent %q", got)
	}
}

// TestUntouchedByTracing asserts that a request which opts out is not changed by telemetry either.
func TestUntouchedByTracing(t *testing.T) {
	w := start(t, setup{brain: llm.Always(llm.Text("Hi."))})
	header := browser(firstTrace, firstSpan)
	header.Set("X-Mcp-Via-Llm", "off")
	w.post(t, request+"]}", header)
	r := w.LLM.Requests()[0]
	if string(r.Body) != request+"]}" || r.Header.Get("X-Mcp-Via-Llm") != "" {
		t.Errorf("the provider got %s %v", r.Body, r.Header)
	}
	eventually(t, arrival, func() string {
		if x := w.fetch(t, firstTrace); x == nil || len(x.roots) != 1 {
			return "no trace of Envoy"
		} else if len(x.named("turn")) > 0 {
			t.Error("it is a turn")
		}
		return ""
	})
}
