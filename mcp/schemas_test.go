package mcp

import (
	"net/http"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/mcp-via-llm/mcp-via-llm/schema"
)

// oddTools is a list as real servers send them: schemas that are missing, bare,
// alternatives at the root, with keywords for which some providers refuse a request.
const oddTools = `{"tools":[
{"name":"now","inputSchema":{"type":"object"}},{"name":"ping","inputSchema":{}},{"name":"none"},{"name":"null","description":null,"inputSchema":null},
{"name":"tag","inputSchema":{"type":"object","properties":{"ids":{"type":"array"},"v":{"type":["string","array"]},"o":{"anyOf":[{"type":"object"},{"type":"array"}]},"n":{"type":"string","description":null}}}},
{"name":"fetch","inputSchema":{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","additionalProperties":false,"properties":{"format":{"type":"string","format":"uri"},"n":{"type":"integer","exclusiveMinimum":0},"m":{"oneOf":[{"type":"string"},{"type":"null"}]}},"required":["format"]}},
{"name":"attach","description":"Attaches.","inputSchema":{"type":"object","anyOf":[{"properties":{"content":{"type":"string"}},"required":["content"]},{"properties":{"url":{"type":"string"}},"required":["url"]}]}},
{"name":"close","inputSchema":{"type":"object","properties":{"why":{"type":"string"}},"allOf":[{"if":{"properties":{"why":{"const":"dup"}}},"then":{"required":["of"]}}]}},
{"name":"huge","inputSchema":{"type":"object","properties":{"` + "HUGE" + `":{}}}}]}`

func oddSchemas(t *testing.T) *Host {
	s := newScript(t)
	s.answer("POST tools/list", func(w http.ResponseWriter, _ *http.Request, m heard) {
		result(w, m, strings.NewReplacer("\n", "", "HUGE", strings.Repeat("h", schema.MaxBytes)).Replace(oddTools))
	})
	return newTestHost(t, config("s", stateful, s.front))
}

// Whatever the dialect, every tool but the one that is too large is there, in a form
// that its provider takes.
func TestOddSchemas(t *testing.T) {
	t.Parallel()
	h := oddSchemas(t)
	const bare = `{"type":"object","properties":{}}`
	for _, test := range []struct {
		dialect schema.Dialect
		want    map[string]string
	}{
		{schema.OpenAI, map[string]string{
			"now": bare, "ping": bare, "none": bare, "null": bare,
			"tag":    `{"type":"object","properties":{"ids":{"type":"array","items":{}},"v":{"type":["string","array"],"items":{}},"o":{"anyOf":[{"type":"object","properties":{}},{"type":"array","items":{}}]},"n":{"type":"string"}}}`,
			"fetch":  `{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","additionalProperties":false,"properties":{"format":{"type":"string","format":"uri"},"n":{"type":"integer","exclusiveMinimum":0},"m":{"oneOf":[{"type":"string"},{"type":"null"}]}},"required":["format"]}`,
			"attach": `{"type":"object","properties":{"content":{"type":"string"},"url":{"type":"string"}}}`,
			"close":  `{"type":"object","properties":{"why":{"type":"string"}}}`,
		}},
		{schema.Gemini, map[string]string{
			"now": bare, "ping": bare, "none": bare, "null": bare,
			"fetch":  `{"type":"object","properties":{"format":{"type":"string","description":"Format uri."},"n":{"type":"integer","minimum":1},"m":{"type":"string","nullable":true}},"required":["format"],"description":"No other members."}`,
			"attach": `{"type":"object","properties":{"content":{"type":"string"},"url":{"type":"string"}}}`,
		}},
		{schema.Permissive, map[string]string{"now": bare, "ping": bare, "none": bare, "null": bare,
			"tag": strings.TrimSuffix(strings.Split(strings.Split(oddTools, `"tag","inputSchema":`)[1], "\n")[0], "},")}},
	} {
		b := h.Toolset(t.Context(), Query{Servers: []string{"s"}, Schema: test.dialect}).Bind(nil)
		offered := map[string]gjson.Result{}
		for _, tool := range gjson.Parse("[" + string(b.JSON()) + "]").Array() {
			offered[strings.TrimPrefix(tool.Get("function.name").String(), "s__")] = tool.Get("function")
		}
		if len(offered) != 8 || offered["huge"].Exists() {
			t.Errorf("%s: %d tools: %q", test.dialect, len(offered), injected(b))
		}
		for name, want := range test.want {
			if got := offered[name].Get("parameters").Raw; got != want {
				t.Errorf("%s: %s\n got %s\nwant %s", test.dialect, name, got, want)
			}
		}
		if got := offered["null"].Get("description").Raw; got != `""` {
			t.Errorf("%s: no description is %s", test.dialect, got)
		}
		if got := offered["attach"].Get("description").String(); test.dialect != schema.Permissive && got != "Attaches.\nGive at least one of these combinations: content; url." {
			t.Errorf("%s: the rule is told as %q", test.dialect, got)
		}
	}
}

// What the flattened schema forgets is still asked for, and the model hears it.
func TestArgumentsByTheServersSchema(t *testing.T) {
	t.Parallel()
	h := oddSchemas(t)
	for _, dialect := range schema.Dialects() {
		b := h.Toolset(t.Context(), Query{Servers: []string{"s"}, Schema: schema.Dialect(dialect)}).Bind(nil)
		for _, test := range []struct{ name, arguments, tells string }{
			{"attach", `{}`, "missing property 'content'"},
			{"attach", `{"url":"u","content":null}`, ""},
			{"close", `{"why":"dup"}`, "missing property 'of'"},
			{"close", `{"why":"dup","of":1}`, ""},
			{"fetch", `{"format":"x","n":0}`, "/n: "},
			{"fetch", `{"format":"x","n":null,"m":null}`, ""},
			{"now", ``, ""},
		} {
			res := b.Call(t.Context(), "s__"+test.name, test.arguments)
			if want := map[bool]string{true: OutcomeOK, false: OutcomeInvalidArguments}[test.tells == ""]; res.Outcome != want || !strings.Contains(res.Text, test.tells) {
				t.Errorf("%s: %s %s: %+v", dialect, test.name, test.arguments, res)
			}
		}
	}
}
