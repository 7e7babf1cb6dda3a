package chat

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tidwall/gjson"
	"pgregory.net/rapid"
)

// There is one leading system message, with the client's words last.
func TestInstructions(t *testing.T) {
	tool := [][]byte{[]byte(`{"role":"tool"}`)}
	for _, tt := range []struct {
		name, messages string
		edit           Edit
		want           string
	}{
		{"no messages", `[ ]`, Edit{}, `[{"role":"system","content":"Say \"ahoy\" <&>"} ]`},
		{"no messages of the client's", `[]`, Edit{Append: tool}, `[{"role":"system","content":"Say \"ahoy\" <&>"},{"role":"tool"}]`},
		{"a user", `[ {"role":"user","content":"hi"}]`, Edit{}, `[{"role":"system","content":"Say \"ahoy\" <&>"}, {"role":"user","content":"hi"}]`},
		{"a system message", `[{"role":"system" , "content" : "Be brief."},{"role":"user"}]`, Edit{Append: tool},
			`[{"role":"system" , "content" : "Say \"ahoy\" <&>\n\nBe brief."},{"role":"user"},{"role":"tool"}]`},
		{"developer, in parts", `[{"role":"developer","content":[ {"type":"text","text":"Be brief."}]}]`, Edit{},
			`[{"role":"developer","content":[{"type":"text","text":"Say \"ahoy\" <&>"}, {"type":"text","text":"Be brief."}]}]`},
		{"no parts", `[{"role":"system","content":[]}]`, Edit{}, `[{"role":"system","content":[{"type":"text","text":"Say \"ahoy\" <&>"}]}]`},
		{"empty", `[{"role":"system","content":""}]`, Edit{}, `[{"role":"system","content":"Say \"ahoy\" <&>"}]`},
		{"null", `[{"role":"system","content":null,"name":"x"}]`, Edit{}, `[{"role":"system","content":"Say \"ahoy\" <&>","name":"x"}]`},
		{"the last of two members counts", `[{"role":"system","content":1,"content":"b"}]`, Edit{}, `[{"role":"system","content":1,"content":"Say \"ahoy\" <&>\n\nb"}]`},
		{"a late one stays", `[{"role":"user","content":"a"},{"role":"system","content":"b"}]`, Edit{},
			`[{"role":"system","content":"Say \"ahoy\" <&>"},{"role":"user","content":"a"},{"role":"system","content":"b"}]`},
		{"a second one stays", `[{"role":"system","content":"a"},{"role":"system","content":"b"}]`, Edit{},
			`[{"role":"system","content":"Say \"ahoy\" <&>\n\na"},{"role":"system","content":"b"}]`},
		{"what is no message", `[7]`, Edit{}, `[{"role":"system","content":"Say \"ahoy\" <&>"},7]`},
		{"content that is none", `[{"role":"system","content":7}]`, Edit{}, `[{"role":"system","content":"Say \"ahoy\" <&>"},{"role":"system","content":7}]`},
		{"history in the place of the first message", `[{"role":"assistant"},{"role":"user"}]`, Edit{Replace: []Replacement{{From: 0, To: 1, With: tool}}},
			`[{"role":"system","content":"Say \"ahoy\" <&>"},{"role":"tool"},{"role":"user"}]`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.edit.System = `Say "ahoy" <&>`
			got := string(parse(t, `{"messages":`+tt.messages+`}`).Build(tt.edit))
			if diff := cmp.Diff(`{"messages":`+tt.want+`}`, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Whatever the client's conversation, what comes out is JSON, all that differs is
// the text that went in, and no system message is added where the first one is.
func TestInstructionsAreLossless(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		message := rapid.Custom(func(t *rapid.T) string {
			return fmt.Sprintf(`{ "role":%q,"content":%s}`, rapid.SampledFrom([]string{"system", "developer", "user", "assistant"}).Draw(t, "role"), jsonValue(2).Draw(t, "content"))
		})
		body := `{"messages": [` + strings.Join(rapid.SliceOfN(message, 0, 4).Draw(t, "messages"), " , ") + ` ] }`
		const text = "\"inst\\ructions\"\n"
		built := string(parse(t, body).Build(Edit{System: text}))
		if !gjson.Valid(built) {
			t.Fatalf("not JSON: %s", built)
		}
		first := gjson.Get(built, "messages.0")
		if role := first.Get("role").String(); role != "system" && role != "developer" {
			t.Fatalf("begins with %s", first.Raw)
		}
		said := first.Get("content.0.text").String()
		if first.Get("content").Type == gjson.String {
			said = first.Get("content").String()
		}
		if !strings.HasPrefix(said, text) {
			t.Fatalf("the first message says %s", first.Raw)
		}
		quoted := quote(text)
		back := built
		for _, added := range []string{`{"role":"system","content":` + quoted + `},`, `{"role":"system","content":` + quoted + `}`,
			`{"type":"text","text":` + quoted + `},`, `{"type":"text","text":` + quoted + `}`, quoted[1:len(quoted)-1] + `\n\n`, quoted[1 : len(quoted)-1]} {
			if strings.Contains(back, added) {
				back = strings.Replace(back, added, "", 1)
				break
			}
		}
		if back != body && strings.Replace(back, `"content":`, `"content":null`, 1) != body && strings.Replace(back, `""`, "null", 1) != body {
			t.Fatalf("\n%q became\n%q", body, built)
		}
	})
}
