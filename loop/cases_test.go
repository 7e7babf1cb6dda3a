package loop

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tidwall/gjson"
	"go.yaml.in/yaml/v3"
)

// behaviour is a case in testdata/cases: what a provider was seen to send, and
// what has to come of it.
type behaviour struct {
	Title string
	Input []struct {
		Name   string
		Kind   string
		Body   string
		Bytes  string
		Chunks []string
		B64    []string `yaml:"chunks_b64"`
		Want   *want
	}
}

type want struct {
	Turn         string
	Calls        []wantCall
	Executed     []wantCall
	IDs          []string
	Text         *string
	ReplayHas    string     `yaml:"replay_has"`
	ErrorMessage string     `yaml:"error_message"`
	ClientCalls  []wantCall `yaml:"client_calls"`
	ClientFinish string     `yaml:"client_finish"`
	DoneCount    int        `yaml:"done_count"`
	RoleCount    int        `yaml:"role_count"`
	Usage        []int64
}

type wantCall struct {
	Name string
	Args map[string]any
}

const closing = "Here you are."

// TestProviderBehaviour gives every scripted answer to a turn, in the pieces the
// case names, whole, and one byte at a time, and looks at what the tools, the
// model and the client see.
func TestProviderBehaviour(t *testing.T) {
	files, err := filepath.Glob("testdata/cases/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal("no cases", err)
	}
	checked := 0
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var c behaviour
		if err := yaml.Unmarshal(raw, &c); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for _, in := range c.Input {
			if in.Want == nil || in.Kind == "generate" {
				continue
			}
			checked++
			whole := in.Body + in.Bytes + strings.Join(in.Chunks, "")
			var sizes []int
			for _, chunk := range in.Chunks {
				sizes = append(sizes, len(chunk))
			}
			for _, chunk := range in.B64 {
				b, err := base64.StdEncoding.DecodeString(chunk)
				if err != nil {
					t.Fatal(err)
				}
				whole, sizes = whole+string(b), append(sizes, len(b))
			}
			for how, cuts := range map[string][]int{"as given": sizes, "whole": nil, "byte by byte": {1}, "by seven": {7}} {
				if in.Kind == "upstream_json" && how != "whole" {
					continue
				}
				name := strings.TrimSuffix(filepath.Base(file), ".yaml") + "/" + in.Name + "/" + how
				t.Run(name, func(t *testing.T) { checkBehaviour(t, in.Kind, whole, cuts, in.Want) })
			}
		}
	}
	if checked < 20 {
		t.Errorf("only %d inputs were checked", checked)
	}
}

func checkBehaviour(t *testing.T, kind, body string, cuts []int, w *want) {
	isStream := kind != "upstream_json"
	var answers []answerFunc
	parts := []string{body}
	if strings.HasSuffix(kind, "_sequence") {
		parts = strings.Split(body, "# U")[1:]
		for i := range parts {
			_, parts[i], _ = strings.Cut(parts[i], "\n")
		}
	}
	for _, p := range parts {
		if isStream {
			answers = append(answers, streamed(p, cuts...))
		} else {
			answers = append(answers, whole(p))
		}
	}
	if isStream {
		answers = append(answers, streamed(`data: {"choices":[{"index":0,"delta":{"content":"`+closing+`"},"finish_reason":"stop"}]}`+"\n\ndata: [DONE]\n\n"))
	} else {
		answers = append(answers, whole(`{"choices":[{"index":0,"message":{"role":"assistant","content":"`+closing+`"},"finish_reason":"stop"}]}`))
	}
	g := newRig(answers...)
	request := fmt.Sprintf(`{"model":"m","stream":%v,"messages":[{"role":"user","content":"x"}],"tools":[{"type":"function","function":{"name":"book_table"}}]`, isStream)
	if w.Usage != nil {
		request += `,"stream_options":{"include_usage":true}`
	}
	response := g.post(request + "}")
	got := read(response.Body.String())

	executed := w.Calls
	if w.Executed != nil {
		executed = w.Executed
	}
	checkCalls(t, "MCP calls", executed, g.tools.made())
	switch w.Turn {
	case "tools":
		if g.model.count() != 2 {
			t.Errorf("the model was asked %d times, want 2", g.model.count())
		}
	case "final":
		if n := len(w.Executed); n == 0 && g.model.count() != 1 {
			t.Errorf("the model was asked %d times, want 1", g.model.count())
		}
	case "truncated":
		// Nothing was sent yet, so the error has a status of its own.
		if response.Code != 502 || gjson.Get(response.Body.String(), "error.code").String() != "upstream_truncated" {
			t.Errorf("a cut stream gave the client %d %s", response.Code, response.Body)
		}
	case "error":
		message := gjson.Get(response.Body.String(), "error.message").String()
		if len(got.errors) == 1 {
			message = gjson.Get(got.errors[0], "message").String()
		}
		if message != w.ErrorMessage {
			t.Errorf("error message = %q, want %q; body %s", message, w.ErrorMessage, response.Body)
		}
		if got.dones != 0 {
			t.Error("the stream goes on after its error")
		}
	case "tool_error":
		result := gjson.Get(g.model.asked(2), `messages.#(role=="tool").content`).String()
		if !strings.HasPrefix(result, "Error") {
			t.Errorf("the model was told %q, want an error", result)
		}
		if args := gjson.Get(g.model.asked(2), "messages.1.tool_calls.0.function.arguments").String(); args != "{}" {
			t.Errorf("replayed arguments = %q, want {}", args)
		}
	}
	checkReplay(t, w, g.model.asked(2))
	checkClient(t, w, got, isStream && response.Code == 200)
}

func checkReplay(t *testing.T, w *want, asked string) {
	t.Helper()
	if w.IDs != nil {
		var ids, answered []string
		for _, call := range gjson.Get(asked, "messages.1.tool_calls").Array() {
			ids = append(ids, call.Get("id").String())
		}
		for _, m := range gjson.Get(asked, `messages.#(role=="tool")#.tool_call_id`).Array() {
			answered = append(answered, m.String())
		}
		if !slices.Equal(ids, w.IDs) || !slices.Equal(answered, w.IDs) {
			t.Errorf("replayed ids %v, answered ids %v, want %v", ids, answered, w.IDs)
		}
	}
	if path, value, ok := strings.Cut(w.ReplayHas, "="); ok {
		path = strings.NewReplacer("[", ".", "]", "").Replace(path)
		if got := gjson.Get(asked, "messages.1."+path).String(); got != value {
			t.Errorf("replayed %s = %q, want %q", path, got, value)
		}
	}
}

func checkClient(t *testing.T, w *want, got *stream, isStream bool) {
	t.Helper()
	if w.Text != nil {
		if text := strings.ReplaceAll(got.text, "\n", ""); text != *w.Text {
			t.Errorf("text = %q, want %q", text, *w.Text)
		}
	}
	if w.ClientFinish != "" && !slices.Equal(got.finishes, []string{w.ClientFinish}) {
		t.Errorf("finish reasons = %v, want %s", got.finishes, w.ClientFinish)
	}
	if w.ClientCalls != nil {
		var calls []madeCall
		for i := range got.names {
			calls = append(calls, madeCall{got.names[i], got.arguments[i]})
		}
		checkCalls(t, "client calls", w.ClientCalls, calls)
	}
	if w.Usage != nil {
		if len(got.usage) != 1 {
			t.Fatalf("usage was sent %d times, want once", len(got.usage))
		}
		u := gjson.Parse(got.usage[0])
		if have := []int64{u.Get("prompt_tokens").Int(), u.Get("completion_tokens").Int(), u.Get("total_tokens").Int()}; !slices.Equal(have, w.Usage) {
			t.Errorf("usage = %v, want %v", have, w.Usage)
		}
	}
	if isStream && len(got.errors) == 0 && w.Turn != "error" {
		if got.dones != 1 || got.roles != 1 || len(got.finishes) != 1 || len(got.ids) != 1 || len(got.extensions) != 1 {
			t.Errorf("%d [DONE], %d roles, finishes %v, ids %v, %d extensions; want one of each", got.dones, got.roles, got.finishes, got.ids, len(got.extensions))
		}
		for _, name := range got.names {
			if strings.HasPrefix(name, "mcp_") {
				t.Errorf("the client sees a call of %s", name)
			}
		}
	}
}

func checkCalls(t *testing.T, what string, want []wantCall, got []madeCall) {
	t.Helper()
	var have []wantCall
	for _, c := range got {
		args, _ := gjson.Parse(c.Arguments).Value().(map[string]any)
		have = append(have, wantCall{c.Name, args})
	}
	byName := func(a, b wantCall) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) }
	want = slices.Clone(want)
	slices.SortFunc(want, byName) // parallel calls begin in any order
	slices.SortFunc(have, byName)
	for i := range want {
		if want[i].Args == nil {
			want[i].Args = map[string]any{}
		}
	}
	if diff := cmp.Diff(want, have); diff != "" && len(want)+len(have) > 0 {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}
