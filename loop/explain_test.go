package loop

import (
	"net/http"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

func asksWhy(r *http.Request) { r.Header.Set(HeaderOff, "explain") }

func TestExplain(t *testing.T) {
	for _, streaming := range []bool{false, true} {
		first, second := whole(calls("mcp_wx__now", "{}")), whole(says("Sunny."))
		if streaming {
			first, second = streamed(asStream(calls("mcp_wx__now", "{}"))), streamed(asStream(says("Sunny.")))
		}
		var s spans
		g := s.traced(newRig(first, second))
		g.client.Explain = true
		g.tools.unavailable = []string{"b"}
		g.tools.omitted = []string{"mcp_big__one"}
		body := question + "}"
		if streaming {
			body = strings.Replace(body, "{", `{"stream":true,`, 1)
		}
		got := g.post(body, asksWhy).Body.String()
		explain := gjson.Get(got, "extensions.mcp_via_llm.explain")
		if streaming {
			explain = gjson.Get(read(got).extensions[0], "explain")
		}
		for path, want := range map[string]string{
			"trace_id":                g.reports[0].TraceID,
			"client":                  "default",
			"injected.#":              "7",
			"injected.0.name":         "mcp_clock__now",
			"injected.0.server":       "clock",
			"injected.0.tokens":       "10",
			"injected_tokens":         "70",
			"omitted":                 `["mcp_big__one"]`,
			"servers":                 `[{"name":"a","up":true,"tools":0},{"name":"b","up":false,"tools":0}]`,
			"segments.#":              "2",
			"segments.0.tool_calls":   "1",
			"segments.1.input_tokens": "20",
			"segments.1.status":       "200",
			"calls.#.name":            `["mcp_wx__now"]`,
			"calls.0.segment":         "1",
			"calls.0.outcome":         "ok",
		} {
			if got := explain.Get(path).String(); got != want {
				t.Errorf("stream %v: %s = %s, want %s", streaming, path, got, want)
			}
		}
		if explain.Get("segments.1.start_ms").Float() < explain.Get("calls.0.start_ms").Float() {
			t.Errorf("times %s", explain.Raw)
		}
		for _, r := range g.model.requests {
			if r.Header.Get(HeaderOff) != "" {
				t.Error("the header reached the model")
			}
		}
		if strings.Contains(explain.Raw, "result of") {
			t.Errorf("what was said is in %s", explain.Raw)
		}
	}
}

func TestExplainOfAFailure(t *testing.T) {
	g := newRig(streamed(asStream(calls("mcp_wx__now", "{}"))), respond(500, "text/plain", "x"))
	g.client.Explain = true
	body := g.post(strings.Replace(question, "{", `{"stream":true,`, 1)+"}", asksWhy).Body.String()
	if got := gjson.Get(body[strings.Index(body, `{"error`):], "extensions.mcp_via_llm.explain.segments.1.status").Int(); got != 500 {
		t.Errorf("the error event is %s", body)
	}
}

// TestExplainOnlyWhereItIsAllowed asserts that nobody learns of the inside who does
// not ask, or may not.
func TestExplainOnlyWhereItIsAllowed(t *testing.T) {
	for _, row := range []struct {
		allowed bool
		header  string
		want    bool
	}{
		{false, "explain", false}, {true, "", false}, {true, "on", false}, {true, " Explain ", true},
	} {
		g := newRig(whole(says("Hi.")))
		g.client.Explain = row.allowed
		w := g.post(question+"}", func(r *http.Request) {
			if row.header != "" {
				r.Header.Set(HeaderOff, row.header)
			}
		})
		if got := gjson.Get(w.Body.String(), "extensions.mcp_via_llm.explain").Exists(); got != row.want {
			t.Errorf("%+v: %v", row, got)
		}
	}
}

// What is written by hand is what encoding/json writes.
func TestExtensionsAreEncodedAlike(t *testing.T) {
	for _, o := range []extensionObject{
		{Called: []string{}, Unavailable: []string{}},
		{Iterations: 3, Called: []string{"a__b", "<\"ü>"}, Prompt: 1 << 60, Completion: -1, StopReason: StopAnswer, Unavailable: []string{"x & y"}},
		{Called: []string{}, Unavailable: []string{}, Omitted: []string{"a"}, OmittedAll: 2},
		{Called: []string{}, Unavailable: []string{}, OmittedAll: 1},
		{Called: []string{}, Unavailable: []string{}, Explain: &explanation{Client: "c"}},
	} {
		if got, want := o.encode(), encode(o); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}
