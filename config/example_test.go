package config

import (
	"errors"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

var (
	commented = regexp.MustCompile(`^( *)# ( *)([a-z_]+: (?:\{|#).*)`)
	goesOn    = regexp.MustCompile(`^( *)# ( +)(\S.*)`)
)

// The settings that the full example has as comments are settings. That they name
// files which are not here, and more proofs than one, is no fault of theirs.
func TestFullExampleUncommented(t *testing.T) {
	t.Setenv("GITHUB_TOKEN", "x")
	t.Setenv("MCP_SECRET", "x")
	content, err := os.ReadFile("../examples/config/full.yaml")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(content), "\n")
	seen := map[string]int{}
	for i, line := range lines {
		head := commented.FindStringSubmatch(line)
		if head == nil {
			continue
		}
		text := append([]string{}, lines...)
		text[i] = head[1] + head[2] + head[3]
		for j := i + 1; j < len(lines); j++ {
			rest := goesOn.FindStringSubmatch(lines[j])
			if rest == nil || len(rest[1]+rest[2]) <= len(head[1]+head[2]) {
				break
			}
			text[j] = rest[1] + rest[2] + rest[3]
		}
		key, _, _ := strings.Cut(head[3], ":")
		seen[key]++
		_, err := Load(write(t, strings.Join(text, "\n")))
		if err != nil && regexp.MustCompile(`unknown key|duplicate|must be|YAML|fault`).MatchString(err.Error()) {
			t.Errorf("%s: %v", strings.TrimSpace(head[3]), err)
		}
	}
	if seen["tls"] != 2 || seen["auth"] != 3 || seen["redis"] != 1 || seen["service_tls"] != 1 || seen["tracing"] != 1 {
		t.Errorf("commented settings: %v", seen)
	}
}

// A key of a kind that the decoder does not know would panic when it is given.
func TestEveryKindOfKeyIsDecoded(t *testing.T) {
	d := &decoder{report: &report{lines: map[string]int{}, raw: map[string]string{}}, expander: &expander{}}
	done := map[reflect.Type]bool{}
	var look func(reflect.Type)
	look = func(in reflect.Type) {
		if done[in] {
			return
		}
		done[in] = true
		switch in.Kind() {
		case reflect.Pointer, reflect.Map, reflect.Slice:
			look(in.Elem())
		case reflect.Struct:
			for i := range in.NumField() {
				if f := in.Field(i); f.Anonymous || f.Tag.Get("yaml") != "" {
					look(f.Type)
				}
			}
		default:
			for _, text := range []string{"1", "1.5", "true", "1s", "x", "-1", ".nan", "99999999999999999999"} {
				root, _ := parse([]byte(text))
				d.value(root, in.String(), reflect.New(in).Elem())
			}
		}
	}
	look(reflect.TypeFor[Config]())
	if !done[reflect.TypeFor[float64]()] || !done[reflect.TypeFor[bool]()] {
		t.Errorf("seen: %v", done)
	}
}

func TestFaultIsAProblemOfTheFile(t *testing.T) {
	r := &report{file: "f"}
	r.guard(func() { reflect.New(reflect.TypeFor[float32]()).Elem().SetInt(1) })
	r.guard(func() { panic("hunter2") })
	want := "f:1: cannot be loaded, by a fault of the service: reflect: call of reflect.Value.SetInt on float32 Value\nf:1: cannot be loaded, by a fault of the service (string)"
	if err := r.err(); err == nil || err.Error() != want {
		t.Errorf("got %v", err)
	}
	if problem := (*Problem)(nil); !errors.As(r.err(), &problem) {
		t.Error("it is not a problem of the file")
	}
}
