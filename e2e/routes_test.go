package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-via-llm/mcp-via-llm/e2e/llm"
)

// TestRoutes asserts that a route turns the filter on, and that it chooses the client profile: by its gRPC metadata
// x-mcp-client, or by its name.
func TestRoutes(t *testing.T) {
	on(t, all(), func(t *testing.T, v variant) {
		_, url := bench(t)
		r := start(t, v, setup{
			brain: llm.Always(llm.Text("hello")),
			config: fmt.Sprintf(`
servers:
  calc:  {command: [%q], optional: false}
  bench: {url: %q, optional: false, tools: {allow: ["e*"]}}
clients:
  default: {servers: [calc]}
  team-a:  {servers: [bench]}
  team-b:  {servers: [calc, bench], models: ["test-*"]}
routes: {"httproute/team-b/*": team-b}
`, addServer, url),
			edit: withRoutes(
				testRoute{name: "plain"},
				testRoute{name: "metadata", filter: true, client: "team-a"},
				testRoute{name: "httproute/team-b/rule/0", filter: true},
				testRoute{name: "nobody", filter: true, client: "nobody"},
			),
		})
		for _, c := range []struct {
			name, body string
			headers    []string
			want       []string
		}{
			{"the default", ask(false, "hi"), nil, []string{"calc__add_numbers"}},
			{"without the filter", ask(false, "hi"), []string{"x-test-route: plain"}, []string{}},
			{"by metadata", ask(false, "hi"), []string{"x-test-route: metadata"}, []string{"bench__echo"}},
			{"by name", ask(false, "hi"), []string{"x-test-route: httproute/team-b/rule/0"}, []string{"bench__echo", "calc__add_numbers"}},
			{"narrowed", ask(false, "hi"), []string{"x-test-route: httproute/team-b/rule/0", "x-mcp-servers: calc"}, []string{"calc__add_numbers"}},
			{"not widened", ask(false, "hi"), []string{"x-mcp-servers: calc,bench"}, []string{"calc__add_numbers"}},
			{"another model", strings.Replace(ask(false, "hi"), "test-model", "other", 1), []string{"x-test-route: httproute/team-b/rule/0"}, []string{}},
		} {
			t.Run(c.name, func(t *testing.T) {
				r.LLM.Use(llm.Always(llm.Text("hello")))
				if got := post(t, r, c.body, c.headers...); got.status != 200 {
					t.Fatalf("status %d, body %s", got.status, got.body)
				}
				request := r.LLM.Requests()[0]
				if !slices.Equal(request.ToolNames(), c.want) {
					t.Errorf("the LLM got the functions %q, want %q", request.ToolNames(), c.want)
				}
				if request.Header.Get("X-Mcp-Servers") != "" {
					t.Error("x-mcp-servers reached the LLM")
				}
			})
		}
		t.Run("an unknown client", func(t *testing.T) {
			r.LLM.Use(llm.Sequence())
			got := post(t, r, ask(false, "hi"), "x-test-route: nobody")
			if got.status != 500 || len(r.LLM.Requests()) != 0 {
				t.Errorf("status %d, %d requests at the LLM, want 500 and none", got.status, len(r.LLM.Requests()))
			}
			eventually(t, turnLimit, "the log names the unknown client", func() bool { return strings.Contains(r.Service.Log(), `\"nobody\"`) })
		})
	})
}
