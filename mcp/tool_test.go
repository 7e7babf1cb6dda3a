package mcp

import (
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/mcp-via-llm/mcp-via-llm/schema"
)

func parseTool(t *testing.T, raw string) *tool {
	t.Helper()
	got, err := newTool(gjson.Parse(raw), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// offered is the tool as an element of a request's tools.
func offered(t *testing.T, tool *tool, dialect schema.Dialect) string {
	t.Helper()
	f := tool.in(dialect, slog.New(slog.DiscardHandler)).function
	if f == nil {
		t.Fatal("left out")
	}
	return string(element("s__x", f))
}

func TestFunction(t *testing.T) {
	for _, test := range []struct {
		name, raw string
		dialect   schema.Dialect
		want      string
	}{
		{"plain", `{"name":"x","description":"a <b> & \"c\"","inputSchema":{"type":"object", "properties":{}},"annotations":{"readOnlyHint":true}}`, schema.OpenAI,
			`{"type":"function","function":{"name":"s__x","description":"a <b> & \"c\"","parameters":{"type":"object", "properties":{}}}}`},
		{"nothing said", `{"name":"x","description":null}`, schema.OpenAI,
			`{"type":"function","function":{"name":"s__x","description":"","parameters":{"type":"object","properties":{}}}}`},
		{"title instead", `{"name":"x","title":"T","inputSchema":null}`, schema.Gemini,
			`{"type":"function","function":{"name":"s__x","description":"T","parameters":{"type":"object","properties":{}}}}`},
		{"strict", `{"name":"x","inputSchema":{"type":"object"}}`, schema.OpenAIStrict,
			`{"type":"function","function":{"name":"s__x","description":"","parameters":{"type":"object","properties":{},"required":[],"additionalProperties":false},"strict":true}}`},
	} {
		if got := offered(t, parseTool(t, test.raw), test.dialect); got != test.want {
			t.Errorf("%s: %s", test.name, got)
		}
	}
}

// What the provider does not get is logged once, when it is first asked for.
func TestOfferedOnce(t *testing.T) {
	var out strings.Builder
	log := slog.New(slog.NewTextHandler(&out, nil))
	tool := parseTool(t, `{"name":"x","inputSchema":{"type":"object","properties":{"a":{}}}}`)
	first := tool.in(schema.OpenAIStrict, log).function
	if again := tool.in(schema.OpenAIStrict, log).function; again != first || first == nil || first.Strict {
		t.Error("made twice, or strict")
	}
	large := parseTool(t, `{"name":"y","inputSchema":{"type":"object","properties":{"`+strings.Repeat("y", schema.MaxBytes)+`":{}}}}`)
	for range 2 {
		if large.in(schema.OpenAI, log).function != nil {
			t.Error("offered")
		}
	}
	if lines := strings.Split(strings.TrimSpace(out.String()), "\n"); len(lines) != 2 || !strings.Contains(lines[0], "not in strict mode") || !strings.Contains(lines[1], "tool left out") {
		t.Errorf("%q", lines)
	}
}

func TestArguments(t *testing.T) {
	strict := parseTool(t, `{"name":"x","inputSchema":{"type":"object","required":["n"],"properties":{"n":{"type":"integer","maximum":9007199254740993},"k":{"enum":["a","b"]},"f":{"multipleOf":0.1}}}}`)
	free := parseTool(t, `{"name":"now","inputSchema":{"type":"object"}}`)
	for _, test := range []struct {
		name string
		tool *tool
		text string
		want string // the arguments; "" for an error
		tell string // what the error says
	}{
		{"empty", free, "", "{}", ""},
		{"blank", free, " \n", "{}", ""},
		{"null", free, "null", "{}", ""},
		{"object", free, `{"z":1,"a":"<b>&"}`, `{"z":1,"a":"<b>&"}`, ""},
		{"number", free, "5", "", "must be one JSON object"},
		{"array", free, "[]", "", "must be one JSON object"},
		{"text", free, `"{}"`, "", "must be one JSON object"},
		{"a member twice", free, `{"path":"/etc","n":[1],"path":"/ok"}`, "", `the member "path" is there twice`},
		{"a member twice, written otherwise", free, `{"path":"/etc","p\u0061th":"/ok"}`, "", `the member "path" is there twice`},
		{"a member twice, deep down", free, `{"a":[{},{"b":{"c":1,"d":{},"c":null}}]}`, "", `the member "c" is there twice`},
		{"a member once in each object", free, `{"a":[{"a":1},{"a":[{"a":"a"}],"b":"a"}],"b":{"a":{}}}`, `{"a":[{"a":1},{"a":[{"a":"a"}],"b":"a"}],"b":{"a":{}}}`, ""},
		{"two objects", free, "{}{}", "", "not valid JSON"},
		{"cut off", free, `{"a":`, "", "not valid JSON"},
		{"exact limit", strict, `{"n":9007199254740993}`, `{"n":9007199254740993}`, ""},
		{"one over the limit", strict, `{"n":9007199254740994}`, "", "/n: "},
		{"missing", strict, "", "", "(root): missing property 'n'"},
		{"wrong type", strict, `{"n":"5"}`, "", "/n: got string, want integer"},
		{"enum", strict, `{"n":1,"k":"c"}`, "", "/k: value must be one of 'a', 'b'"},
		{"two problems", strict, `{"n":1.5,"k":"c"}`, "", "; /"},
		{"number beyond any arithmetic", strict, `{"n":1,"f":1e999999999}`, `{"n":1,"f":1e999999999}`, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			args, err := test.tool.arguments(test.text)
			if string(args) != test.want {
				t.Errorf("got %s, %v; want %s", args, err, test.want)
			}
			var bad *errArguments
			if test.want == "" && (!errors.As(err, &bad) || !strings.Contains(err.Error(), test.tell)) {
				t.Errorf("error %v, want %q", err, test.tell)
			}
		})
	}
}

// A tool is called by the schema that the model was shown, not by one that no
// arguments can fit.
func TestArgumentsFitWhatIsOffered(t *testing.T) {
	for _, input := range []string{`{"type":"array","items":{"type":"string"}}`, `{"type":"string"}`, `{"type":"null"}`, `true`, `false`, `null`, `[]`} {
		tool := parseTool(t, `{"name":"x","inputSchema":`+input+`}`)
		if args, err := tool.arguments(""); err != nil || string(args) != "{}" || tool.input != nil {
			t.Errorf("%s: %s, %v", input, args, err)
		}
	}
}

// A schema that cannot be used for checking leaves the tool usable.
func TestSchemaNotCompiled(t *testing.T) {
	for _, input := range []string{
		`{"type":"object","properties":{"a":{"$ref":"file:///etc/passwd"}}}`,
		`{"type":"object","properties":{"a":{"$ref":"http://127.0.0.1:1/schema.json"}}}`,
		`{"type":"object","properties":{"a":{"pattern":"(?=look)ahead"}}}`,
		`{"$schema":"https://example.com/own","type":"object"}`,
		`{"type":"object","properties":{"a":{"type":"no such type"}}}`,
	} {
		tool := parseTool(t, `{"name":"x","inputSchema":`+input+`}`)
		if _, err := tool.arguments(`{"a":1}`); err != nil {
			t.Errorf("%s: %v", input, err)
		}
	}
	local := parseTool(t, `{"name":"x","inputSchema":{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"a":{"$ref":"#/definitions/s"}},"definitions":{"s":{"type":"string"}}}}`)
	if _, err := local.arguments(`{"a":1}`); err == nil {
		t.Error("a local reference was not followed")
	}
}

// A schema from outside may cost little only.
func TestSchemaBombs(t *testing.T) {
	for name, input := range map[string]string{
		"too large": `{"type":"object","description":"` + strings.Repeat("x", schema.MaxInput) + `"}`,
		"too deep":  strings.Repeat(`{"items":`, 10000) + `{}` + strings.Repeat(`}`, 10000),
	} {
		if _, err := newTool(gjson.Parse(`{"name":"x","inputSchema":`+input+`}`), slog.New(slog.DiscardHandler)); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func FuzzArguments(f *testing.F) {
	f.Add(`{"n":1}`)
	f.Add("null")
	f.Add(`{"f":1e999999999}`)
	tool, err := newTool(gjson.Parse(`{"name":"x","inputSchema":{"type":"object","properties":{"n":{"type":"integer","multipleOf":3},"u":{"uniqueItems":true},"e":{"enum":[1,2.5]}}}}`), slog.New(slog.DiscardHandler))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string) {
		args, err := tool.arguments(text)
		if err == nil && !gjson.ParseBytes(args).IsObject() {
			t.Errorf("%q became %q", text, args)
		}
	})
}

// Only a JSON true counts: rules build on it.
func TestHintsMustBeTrue(t *testing.T) {
	for value, want := range map[string]bool{`true`: true, `false`: false, `"true"`: false, `1`: false, `"1"`: false, `[true]`: false, `{}`: false, `null`: false} {
		for _, hint := range []string{"readOnlyHint", "idempotentHint"} {
			tool := parseTool(t, `{"name":"x","inputSchema":{"type":"object"},"annotations":{"`+hint+`":`+value+`}}`)
			if tool.repeatable != want || tool.readOnly != (want && hint == "readOnlyHint") {
				t.Errorf("%s %s: %v %v", hint, value, tool.readOnly, tool.repeatable)
			}
		}
	}
}

// A schema that refers to itself without end is told of when the tool is listed, and
// not blamed on the arguments.
func TestCyclicSchema(t *testing.T) {
	var said strings.Builder
	tool, err := newTool(gjson.Parse(`{"name":"x","inputSchema":{"type":"object","properties":{"a":{"$ref":"#/properties/a"}}}}`), slog.New(slog.NewTextHandler(&said, nil)))
	if err != nil || !strings.Contains(said.String(), "refers to itself without end") {
		t.Errorf("%v, %s", err, &said)
	}
	if _, err := tool.arguments(`{"a":1}`); err != nil {
		t.Error(err)
	}
}
