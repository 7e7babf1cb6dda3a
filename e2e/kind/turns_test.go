package kind

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"
)

// both runs a test streamed and not.
func both(t *testing.T, test func(*testing.T, bool)) {
	for _, stream := range []bool{false, true} {
		t.Run(fmt.Sprintf("stream=%v", stream), func(t *testing.T) { test(t, stream) })
	}
}

// TestTurn asserts a turn with a server elsewhere, one beside the service and a stdio one behind a bridge: the client
// gets one completion, and the provider nothing that is for the service.
func TestTurn(t *testing.T) {
	both(t, func(t *testing.T, stream bool) {
		p := plan{Nonce: nonce(), Calls: [][]string{{"look", "test_simple_text"}, {"list_directory"}}}
		c := talk(p)
		c.stream, c.headers = stream, map[string]string{"X-Mcp-Session": "s"}
		a := c.must(t)
		if !a.done("did look "+p.Nonce, "simple text response") {
			t.Errorf("%v", a)
		}
		if called := a.extra.Get("mcp_tools_called").Raw; called != `["shop__look","everything__test_simple_text","files__list_directory"]` {
			t.Errorf("called %s", called)
		}
		requests := get(t, address.llm+"/requests?nonce="+p.Nonce).Array()
		if len(requests) != 3 {
			t.Errorf("the provider got %d requests", len(requests))
		}
		for _, r := range requests {
			r.Get("headers").ForEach(func(name, _ gjson.Result) bool {
				if strings.HasPrefix(strings.ToLower(name.String()), "x-mcp-") {
					t.Errorf("the provider got the header %s", name)
				}
				return true
			})
			if r.Get("length").Int() < 0 {
				t.Error("the provider got a chunked body")
			}
		}
	})
}

// TestUntouched asserts that what is not on the route, or opts out, goes by without tools.
func TestUntouched(t *testing.T) {
	c := talk(plan{Nonce: nonce(), Calls: [][]string{{"look"}}})
	c.headers = map[string]string{"X-Mcp-Via-Llm": "off"}
	if a := c.must(t); a.text != "no tool look among 1" || a.extra.Exists() {
		t.Errorf("opted out: %v", a)
	}
	c = talk(plan{Nonce: nonce(), Calls: [][]string{{"look"}}})
	c.url += "/other" // POST /v1/other/chat/completions: a route without the filter
	if a := c.must(t); a.text != "no tool look among 1" || a.extra.Exists() {
		t.Errorf("another route: %v", a)
	}
	if models := get(t, address.envoy+"/v1/models"); models.Get("object").String() != "list" {
		t.Errorf("models: %s", models.Raw)
	}
}

// TestMixedTurn asserts that a resume which lands on the other pod waits for the calls that run on the first.
func TestMixedTurn(t *testing.T) {
	both(t, func(t *testing.T, stream bool) {
		for range 20 {
			p := plan{Nonce: nonce(), Calls: [][]string{{"order", "book_table", "look"}}, MS: 1500}
			c := talk(p)
			c.stream = stream
			first := owner(t, c)
			a := first.answer
			if len(a.calls) != 1 || a.finish != "tool_calls" || a.extra.Get("stop_reason").String() != "client_tool_calls" {
				t.Fatalf("%v", a)
			}
			c.resume(a)
			second := owner(t, c)
			if !second.answer.done("did order "+p.Nonce+", time 1; booked; did look "+p.Nonce+", time 1") || did(t, "order", p.Nonce) != 1 {
				t.Fatalf("%v", second.answer)
			}
			if first.pod != second.pod {
				return
			}
		}
		t.Error("no resume of 20 came to the other pod")
	})
}

// owned is an answer, and the pod that gave it.
type owned struct {
	answer answer
	pod    string
}

// owner sends, and finds the pod whose count of turns has grown.
func owner(t *testing.T, c *conversation) owned {
	t.Helper()
	before := turns(t)
	a := c.must(t)
	var pod string
	eventually(t, 10*time.Second, "a pod has the turn", func() bool {
		for name, n := range turns(t) {
			if n > before[name] {
				pod = name
			}
		}
		return pod != ""
	})
	return owned{a, pod}
}

// TestTrace asserts that the spans of a turn arrive at the collector, in the trace of its caller.
func TestTrace(t *testing.T) {
	const trace = "4bf92f3577b34da6a3ce929d0e0e4736"
	c := talk(plan{Nonce: nonce(), Calls: [][]string{{"look"}}})
	c.headers = map[string]string{"Traceparent": "00-" + trace + "-00f067aa0ba902b7-01"}
	if a := c.must(t); !a.done("did look") {
		t.Fatal(a)
	}
	var names []string
	var services map[string]int // the spans of each: the service's and Envoy's
	eventually(t, 30*time.Second, "spans at the collector", func() bool {
		names, services = nil, map[string]int{}
		for _, s := range get(t, address.collector+"/spans?trace="+trace).Array() {
			names = append(names, s.Get("name").String())
			services[s.Get("service").String()]++
		}
		return len(services) == 2 && services["mcp-via-llm"] > 0 && slices.ContainsFunc(names, func(n string) bool { return strings.Contains(n, "look") })
	})
	t.Logf("spans: %q of %v", names, services)
}

// TestHelmTest asserts that the chart's own test passes, and so what NOTES say.
func TestHelmTest(t *testing.T) {
	out, err := command("helm", "test", release, "-n", namespace, "--logs")
	if err != nil || !strings.Contains(out, "I have ") || !strings.Contains(out, "(rounds: ") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestHealth asserts that probes and Prometheus see what they need, and no more.
func TestHealth(t *testing.T) {
	for _, pod := range pods(t) {
		for path, want := range map[string]int{"healthz": http.StatusOK, "readyz": http.StatusOK, "metrics": http.StatusOK, "debug/turns": http.StatusNotFound} {
			_, err := kubectl("get", "--raw", proxied(pod, 9004, path))
			if (err == nil) != (want == http.StatusOK) {
				t.Errorf("%s: %s: %v", pod, path, err)
			}
		}
	}
}
