package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-via-llm/mcp-via-llm/e2e/llm"
	"github.com/mcp-via-llm/mcp-via-llm/e2e/rig"
)

// oddBody has what a decoder and encoder would change: odd spacing, big numbers, escapes, an unknown member, a key twice.
const oddBody = `{ "model" : "test-model","x_unknown":{"b":1,"a":[1E400,12345678901234567890]},` + "\n\t" +
	`"messages":[{"role":"user","content":"h\u00e9llo \/ é"}], "seed":1, "seed":2 }`

// oddAnswer is an answer as odd.
const oddAnswer = `{"id":"chatcmpl-odd", "object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"h\u00e9llo \/","refusal":null},` +
	`"logprobs":null,"finish_reason":"stop"}],` + "\n" + `"usage":{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7,"x":1E400},"x_cost":0.10}`

func untouchedRig(t *testing.T, v variant) *rig.Rig {
	t.Helper()
	header := http.Header{"X-Request-Id": {"req_1"}, "Openai-Processing-Ms": {"12"}}
	return start(t, v, setup{
		config: fmt.Sprintf("servers:\n  calc: {command: [%q], optional: false}\n", addServer),
		brain:  llm.Always(llm.Raw(http.StatusOK, header, oddAnswer)),
		edit:   withRoutes(testRoute{name: "plain"}),
	})
}

// TestNoToolNeeded asserts that a request that needs no tool reaches the LLM unchanged save for the injected tools,
// and that its answer comes back unchanged save for the extensions.
func TestNoToolNeeded(t *testing.T) {
	on(t, all(), func(t *testing.T, v variant) {
		r := untouchedRig(t, v)
		got := post(t, r, oddBody)
		arrived := r.LLM.Requests()[0]
		if !strings.Contains(inserted(t, oddBody, string(arrived.Body)), `"tools":[{"type":"function","function":{"name":"calc__add_numbers"`) {
			t.Errorf("the LLM got %s", arrived.Body)
		}
		if want := int64(len(arrived.Body)); arrived.ContentLength != want && v.version != "1.37.0" {
			t.Errorf("content-length %d for %d bytes", arrived.ContentLength, want)
		}
		added := inserted(t, oddAnswer, got.body)
		if !strings.Contains(added, `"extensions":{"mcp_via_llm":{"iterations":1,`) || got.status != 200 {
			t.Errorf("status %d, added %q", got.status, added)
		}
		if got.header.Get("Openai-Processing-Ms") != "12" {
			t.Errorf("headers %v", got.header)
		}
	})
}

// inserted returns what was put into before, in one place, to make after.
func inserted(t *testing.T, before, after string) string {
	t.Helper()
	head := 0
	for head < min(len(before), len(after)) && before[head] == after[head] {
		head++
	}
	tail := 0
	for tail < min(len(before), len(after))-head && before[len(before)-1-tail] == after[len(after)-1-tail] {
		tail++
	}
	if head+tail != len(before) {
		t.Errorf("more than an insertion:\nbefore %s\nafter  %s", before, after)
		return ""
	}
	return after[head : len(after)-tail]
}

// TestUntouched asserts that requests that are not the service's reach the LLM, and come back, byte for byte: on a
// route without the filter, and with the opt-out header.
func TestUntouched(t *testing.T) {
	on(t, all(), func(t *testing.T, v variant) {
		r := untouchedRig(t, v)
		plain := post(t, r, oddBody, "x-test-route: plain")
		opted := post(t, r, oddBody, "x-mcp-via-llm: off")
		for _, got := range []answer{plain, opted} {
			if got.status != 200 || got.body != oddAnswer {
				t.Errorf("status %d, body %s", got.status, got.body)
			}
		}
		requests := r.LLM.Requests()
		for _, request := range requests {
			if string(request.Body) != oddBody {
				t.Errorf("the LLM got %s", request.Body)
			}
		}
		if a, b := fixedHeaders(requests[0].Header), fixedHeaders(requests[1].Header); a != b {
			t.Errorf("the LLM got other headers.\nwithout the filter:\n%s\nopted out:\n%s", a, b)
		}
		if a, b := fixedHeaders(plain.header), fixedHeaders(opted.header); a != b {
			t.Errorf("the client got other headers.\nwithout the filter:\n%s\nopted out:\n%s", a, b)
		}
	})
}

// fixedHeaders lists the headers that do not change from request to request. Envoy in static mode may replace the
// request's content-length by chunks, which is a matter of framing.
func fixedHeaders(header http.Header) string {
	var lines []string
	for name, values := range header {
		switch name {
		case "X-Request-Id", "Date", "X-Envoy-Upstream-Service-Time", "X-Test-Route", "Content-Length", "Transfer-Encoding":
		default:
			lines = append(lines, name+": "+strings.Join(values, ", "))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}
