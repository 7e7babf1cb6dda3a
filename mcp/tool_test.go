package mcp

import (
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/tidwall/gjson"
)

func parseTool(t *testing.T, raw string) *tool {
	t.Helper()
	got, err := newTool(gjson.Parse(raw), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestParameters(t *testing.T) {
	const exact = "{ \"type\": \"object\",\n \"required\":[\"n\"], \"properties\" : {\"n\":{\"type\":\"integer\",\"maximum\":9223372036854775807},\"a\":{}} }"
	for _, test := range []struct{ name, schema, want string }{
		{"kept byte for byte", exact, exact},
		{"missing", ``, emptySchema},
		{"null", `null`, emptySchema},
		{"true", `true`, emptySchema},
		{"not an object schema", `{"type":"string"}`, emptySchema},
		{"empty", `{}`, `{"type":"object","properties":{}}`},
		{"bare object", `{"type":"object"}`, `{"type":"object","properties":{}}`},
		{"bare object with more", `{"type":"object","additionalProperties":false }`, `{"type":"object","additionalProperties":false,"properties":{}}`},
		{"no type", `{"properties":{"a":{}}}`, `{"properties":{"a":{}},"type":"object"}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			raw := `{"name":"x"}`
			if test.schema != "" {
				raw = `{"name":"x","inputSchema":` + test.schema + `}`
			}
			tool := parseTool(t, raw)
			if tool.parameters != test.want {
				t.Errorf("got %s, want %s", tool.parameters, test.want)
			}
			if !json.Valid(tool.function("s__x")) {
				t.Errorf("not JSON: %s", tool.function("s__x"))
			}
		})
	}
}

func TestDescription(t *testing.T) {
	for _, test := range []struct{ name, raw, want string }{
		{"kept", `{"name":"x","description":"a <b> & \"c\""}`, `a <b> & "c"`},
		{"null", `{"name":"x","description":null}`, ""},
		{"title instead", `{"name":"x","title":"T"}`, "T"},
		{"long", `{"name":"x","description":"` + strings.Repeat("é", 2780) + `"}`, strings.Repeat("é", 1023) + "…"},
	} {
		t.Run(test.name, func(t *testing.T) {
			tool := parseTool(t, test.raw)
			got := gjson.GetBytes(tool.function("s__x"), "function.description").String()
			if got != test.want || utf8.RuneCountInString(got) > maxDescription {
				t.Errorf("got %q", got)
			}
		})
	}
	if fn := string(parseTool(t, `{"name":"x","description":"<b>","annotations":{"readOnlyHint":true}}`).function("s__x")); fn !=
		`{"type":"function","function":{"name":"s__x","description":"<b>","parameters":{"type":"object","properties":{}}}}` {
		t.Error(fn)
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
	for _, schema := range []string{`{"type":"array","items":{"type":"string"}}`, `{"type":"string"}`, `{"type":"null"}`, `true`, `false`, `null`, `[]`} {
		tool := parseTool(t, `{"name":"x","inputSchema":`+schema+`}`)
		if args, err := tool.arguments(""); err != nil || string(args) != "{}" || tool.parameters != emptySchema {
			t.Errorf("%s: %s, %v, offered %s", schema, args, err, tool.parameters)
		}
	}
}

// A schema that cannot be used for checking leaves the tool usable.
func TestSchemaNotCompiled(t *testing.T) {
	for _, schema := range []string{
		`{"type":"object","properties":{"a":{"$ref":"file:///etc/passwd"}}}`,
		`{"type":"object","properties":{"a":{"$ref":"http://127.0.0.1:1/schema.json"}}}`,
		`{"type":"object","properties":{"a":{"pattern":"(?=look)ahead"}}}`,
		`{"$schema":"https://example.com/own","type":"object"}`,
		`{"type":"object","properties":{"a":{"type":"no such type"}}}`,
	} {
		tool := parseTool(t, `{"name":"x","inputSchema":`+schema+`}`)
		if tool.input != nil {
			t.Errorf("%s compiled", schema)
		}
		if _, err := tool.arguments(`{"a":1}`); err != nil {
			t.Errorf("%s: %v", schema, err)
		}
	}
	local := parseTool(t, `{"name":"x","inputSchema":{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"a":{"$ref":"#/definitions/s"}},"definitions":{"s":{"type":"string"}}}}`)
	if _, err := local.arguments(`{"a":1}`); err == nil {
		t.Error("a local reference was not followed")
	}
}

func TestSchemaTooLarge(t *testing.T) {
	raw := `{"name":"x","inputSchema":{"type":"object","description":"` + strings.Repeat("x", maxSchema) + `"}}`
	if _, err := newTool(gjson.Parse(raw), slog.New(slog.DiscardHandler)); err == nil {
		t.Error("accepted")
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
