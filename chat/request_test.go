package chat

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/tidwall/gjson"
	"pgregory.net/rapid"
)

func parse(t interface{ Fatal(...any) }, body string) *Request {
	r, err := ParseRequest([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestBuild(t *testing.T) {
	tool := []byte(`{"type":"function"}`)
	for _, tt := range []struct {
		name, body string
		edit       Edit
		want       string
	}{
		{"nothing", ` {"messages" : [ ] } `, Edit{}, ` {"messages" : [ ] } `},
		{"tools where there are none", `{"messages":[]}`, Edit{Tools: tool}, `{"messages":[],"tools":[{"type":"function"}]}`},
		{"tools after the client's", `{"tools":[ {"a":1} ],"messages":[]}`, Edit{Tools: tool}, `{"tools":[ {"a":1} ,{"type":"function"}],"messages":[]}`},
		{"tools null", `{"tools":null,"messages":[]}`, Edit{Tools: tool}, `{"tools":[{"type":"function"}],"messages":[]}`},
		{"tools empty", `{"tools":[],"messages":[]}`, Edit{Tools: tool}, `{"tools":[{"type":"function"}],"messages":[]}`},
		{"messages", `{"messages":[1],"x":"]"}`, Edit{Append: [][]byte{[]byte("2"), []byte("3")}}, `{"messages":[1,2,3],"x":"]"}`},
		{"the last of two members counts", `{"messages":[1],"messages":[2]}`, Edit{Append: [][]byte{[]byte("3")}}, `{"messages":[1],"messages":[2,3]}`},
		{"an escaped name", `{"m\u0065ssages":[1]}`, Edit{Append: [][]byte{[]byte("2")}}, `{"m\u0065ssages":[1,2]}`},
		{"usage", `{"messages":[],"stream":true}`, Edit{AskUsage: true}, `{"messages":[],"stream":true,"stream_options":{"include_usage":true}}`},
		{"usage null", `{"stream_options":null,"messages":[],"stream":true}`, Edit{AskUsage: true}, `{"stream_options":{"include_usage":true},"messages":[],"stream":true}`},
		{"usage refused", `{"stream_options":{"include_usage": false,"x":1},"messages":[],"stream":true}`, Edit{AskUsage: true}, `{"stream_options":{"include_usage": true,"x":1},"messages":[],"stream":true}`},
		{"usage asked for", `{"stream_options":{"include_usage":true},"messages":[],"stream":true}`, Edit{AskUsage: true}, `{"stream_options":{"include_usage":true},"messages":[],"stream":true}`},
		{"usage without a stream", `{"messages":[]}`, Edit{AskUsage: true}, `{"messages":[]}`},
		{"no calls", `{"messages":[]}`, Edit{Choice: NoCalls}, `{"messages":[],"tool_choice":"none"}`},
		{"no calls, in place", `{"tool_choice":"auto","messages":[]}`, Edit{Choice: NoCalls}, `{"tool_choice":"none","messages":[]}`},
		{"Mistral's word", `{"tool_choice":"any","messages":[]}`, Edit{Choice: FreeChoice}, `{"tool_choice":"auto","messages":[]}`},
		{"all at once", `{"messages":[1],"tools":[2],"stream":true,"tool_choice":"required"}` + "\n", Edit{Tools: tool, Append: [][]byte{[]byte("3")}, Choice: FreeChoice, AskUsage: true},
			`{"messages":[1,3],"tools":[2,{"type":"function"}],"stream":true,"tool_choice":"auto","stream_options":{"include_usage":true}}` + "\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, string(parse(t, tt.body).Build(tt.edit))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// jsonValue draws JSON text as somebody else may have written it.
func jsonValue(depth int) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		kinds := 7
		if depth == 0 {
			kinds = 5
		}
		pad := rapid.SampledFrom([]string{"", " ", "\n\t", "\r\n"}).Draw(t, "pad")
		switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
		case 0:
			return pad + rapid.SampledFrom([]string{"null", "true", "false"}).Draw(t, "word")
		case 1:
			return rapid.SampledFrom([]string{"9223372036854775807", "-0", "1.0", "1e400", "9007199254740993", "0.1e-7"}).Draw(t, "number")
		case 2, 3, 4:
			return rapid.SampledFrom([]string{`""`, `"}]"`, `"\u003c<>&"`, `"\ud83d\ude00 😀"`, `"a\\\"b"`, `"\/"`, `"x < y && y > z"`}).Draw(t, "string")
		case 5:
			return "[" + pad + strings.Join(rapid.SliceOfN(jsonValue(depth-1), 0, 3).Draw(t, "array"), ","+pad) + pad + "]"
		}
		var members []string
		for i := range rapid.IntRange(0, 3).Draw(t, "members") {
			members = append(members, fmt.Sprintf("\"k%d\"%s:%s", i, pad, jsonValue(depth-1).Draw(t, "value")))
		}
		return "{" + strings.Join(members, pad+",") + "}"
	})
}

// Whatever a client sends, the bytes that are not ours to edit reach the model
// as they were.
func TestBuildIsLossless(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var members []string
		for _, name := range rapid.Permutation([]string{"messages", "model", "seed", "tools", "metadata"}).Draw(t, "order") {
			value := jsonValue(3).Draw(t, name)
			if name == "messages" || name == "tools" {
				value = "[" + strings.Join(rapid.SliceOfN(jsonValue(2), 0, 3).Draw(t, name), " , ") + " ]"
			}
			members = append(members, fmt.Sprintf("%q: %s", name, value))
		}
		body := "{ " + strings.Join(members, " ,") + " }\n"
		r := parse(t, body)
		if got := string(r.Build(Edit{})); got != body {
			t.Fatalf("nothing to edit, but\n%q became\n%q", body, got)
		}
		built := string(r.Build(Edit{Tools: []byte(`{"t":1}`), Append: [][]byte{[]byte(`{"m":1}`)}, Choice: NoCalls}))
		if !gjson.Valid(built) {
			t.Fatalf("not JSON: %s", built)
		}
		// Taking out what was put in gives the client's bytes back.
		back := strings.Replace(built, `,"tool_choice":"none"}`, "}", 1)
		for _, added := range []string{`{"t":1}`, `{"m":1}`} {
			if with := "," + added; strings.Contains(back, with) {
				back = strings.Replace(back, with, "", 1)
			} else {
				back = strings.Replace(back, added, "", 1)
			}
		}
		if back != body {
			t.Fatalf("\n%q became\n%q", body, back)
		}
	})
}

func TestRequestsAreUnderstood(t *testing.T) {
	r := parse(t, `{"model":"m","messages":[],"stream":true,"stream_options":{"include_usage":true},"tools":[{"type":"function","function":{"name":"a"}},{"type":"custom","custom":{"name":"b"}},{"type":"web_search"}]}`)
	if r.Model != "m" || !r.Stream || !r.Usage || fmt.Sprint(r.Names) != "[a b]" || r.Untouchable != "" {
		t.Errorf("%+v", r)
	}
	for body, untouchable := range map[string]bool{
		`{"messages":[],"n":1}`: false, `{"messages":[],"n":2}`: true, `{"messages":[],"n":null}`: false,
		`{"messages":[],"functions":null}`: false, `{"messages":[],"functions":[]}`: true, `{"messages":[],"tool_choice":"none"}`: false,
		`{"messages":[],"tools":null}`: false, `{"messages":[],"tools":{}}`: true,
	} {
		if r := parse(t, body); untouchable != (r.Untouchable != "") {
			t.Errorf("%s: untouchable %q", body, r.Untouchable)
		}
	}
}

func TestDepthIsBounded(t *testing.T) {
	nested := func(n int) string {
		return `{"messages":[` + strings.Repeat("[", n) + strings.Repeat("]", n) + `]}`
	}
	if _, err := ParseRequest([]byte(nested(1000))); err != nil {
		t.Error(err)
	}
	if _, err := ParseRequest([]byte(nested(maxDepth))); err == nil {
		t.Error("too deep a body was taken")
	}
	wide := `{"messages":[` + strings.Repeat(`{},`, 2*maxDepth) + `"[[[["]}`
	if _, err := ParseRequest([]byte(wide)); err != nil {
		t.Error("many objects are not deep nesting:", err)
	}
}

func FuzzParseRequest(f *testing.F) {
	f.Add(`{"messages":[1],"tools":[],"tool_choice":"required","stream":true}`)
	f.Fuzz(func(t *testing.T, body string) {
		r, err := ParseRequest([]byte(body))
		if err != nil {
			return
		}
		for _, e := range []Edit{{}, {Tools: []byte("{}"), Append: [][]byte{[]byte("{}")}, Choice: FreeChoice, AskUsage: true}} {
			if r.Untouchable != "" && e.Tools != nil {
				continue
			}
			if out := r.Build(e); !gjson.ValidBytes(out) {
				t.Fatalf("%q became %q", body, out)
			}
		}
	})
}

// What counts as JSON is what encoding/json says, bad UTF-8 and control characters included.
func FuzzValidJSON(f *testing.F) {
	for _, s := range []string{
		"", " {} ", `{"a":[1,-0,1E5,1e+1,0.5,true,null,"\u00e9\n\ud800"]}`, "{\"a\":\"\x01\"}", "\"a\tb\"", "\"\x7f\"", "\"\xff\"", "\ufeff{}", `"\u12"`, `"\x"`, `"`, `[1,2,]`, `{"a":}`, `{"a" 1}`,
		`{"a":1 "b":2}`, `{"a":1,}`, `{1:2}`, `{}{}`, `[`, `]`, `01`, `-`, `-01`, `.1`, `1.`, `1e`, `+1`, `nul`, `tru`, "1\x00", "\v1", "\u00a01",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if got, want := validJSON(s), json.Valid([]byte(s)); got != want {
			t.Errorf("%q: %v, want %v", s, got, want)
		}
	})
}

// history is a request of about the given size in bytes.
func history(size int) []byte {
	var b strings.Builder
	b.WriteString(`{"model":"m","stream":true,"messages":[{"role":"user","content":"x"}`)
	for b.Len() < size {
		b.WriteString(`,{"role":"assistant","content":"` + strings.Repeat("All work and no play. ", 20) + `"}`)
	}
	b.WriteString(`],"temperature":0.2}`)
	return []byte(b.String())
}

func BenchmarkRequest(b *testing.B) {
	tools := []byte(strings.TrimSuffix(strings.Repeat(`{"type":"function","function":{"name":"f","parameters":{"type":"object"}}},`, 100), ","))
	for _, size := range []int{1 << 10, 100 << 10, 1 << 20} {
		body := history(size)
		b.Run(fmt.Sprintf("%d KiB", size>>10), func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				r, err := ParseRequest(body)
				if err != nil {
					b.Fatal(err)
				}
				r.Build(Edit{Tools: tools, AskUsage: true})
			}
		})
	}
}

// BenchmarkInjection puts 1,000 tools into a small request. It reports what that takes more than the same request
// without them, in units of copying their bytes twice.
func BenchmarkInjection(b *testing.B) {
	tools := []byte(strings.TrimSuffix(strings.Repeat(`{"type":"function","function":{"name":"f","description":"`+strings.Repeat("word ", 40)+`","parameters":{"type":"object"}}},`, 1000), ","))
	r, err := ParseRequest(history(1 << 10))
	if err != nil {
		b.Fatal(err)
	}
	one := func(do func()) time.Duration {
		start := time.Now()
		do()
		return time.Since(start)
	}
	var with, without, twice time.Duration
	for b.Loop() {
		with += one(func() { r.Build(Edit{Tools: tools}) })
		without += one(func() { r.Build(Edit{Tools: tools[:0]}) })
		twice += one(func() { bytes.Clone(bytes.Clone(tools)) })
	}
	b.ReportMetric(float64(with-without)/float64(twice), "of-two-copies")
}
