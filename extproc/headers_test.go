package extproc

import (
	"io"
	"net/http"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/protobuf/types/known/structpb"
	"pgregory.net/rapid"
)

// apply is Envoy's side of a mutation.
func apply(h http.Header, m *pb.HeaderMutation) http.Header {
	h = h.Clone()
	for _, name := range m.GetRemoveHeaders() {
		h.Del(name)
	}
	for _, o := range m.GetSetHeaders() {
		key := http.CanonicalHeaderKey(o.GetHeader().GetKey())
		if o.GetAppend().GetValue() {
			h[key] = append(h[key], headerValue(o.GetHeader()))
		} else {
			h[key] = []string{headerValue(o.GetHeader())}
		}
	}
	return h
}

func sameHeader(a, b http.Header) bool {
	for _, pair := range [][2]http.Header{{a, b}, {b, a}} {
		for key, values := range pair[0] {
			if len(values) != len(pair[1][key]) {
				return false
			}
			for i := range values {
				if values[i] != pair[1][key][i] {
					return false
				}
			}
		}
	}
	return true
}

// TestDiff: a mutation makes `to` of `from`, touches no protected field, and
// there is none where nothing changes.
func TestDiff(t *testing.T) {
	names := rapid.SampledFrom([]string{"A", "B", "Content-Length", "Content-Type", "Set-Cookie", "X-Long-Name"})
	headers := rapid.Custom(func(t *rapid.T) http.Header {
		h := http.Header{}
		for range rapid.IntRange(0, 5).Draw(t, "n") {
			h[names.Draw(t, "name")] = rapid.SliceOfN(rapid.StringN(0, 4, -1), 1, 3).Draw(t, "values")
		}
		return h
	})
	rapid.Check(t, func(t *rapid.T) {
		from, to := headers.Draw(t, "from"), headers.Draw(t, "to")
		from["Connection"], to["X-Envoy-X"] = []string{"close"}, []string{"1"}
		got := apply(from, diff(from, to, protected))
		delete(got, "Connection")
		delete(to, "X-Envoy-X")
		if !sameHeader(got, to) {
			t.Fatalf("%v by %v became %v", from, to, got)
		}
		if m := diff(from, from.Clone(), protected); m != nil {
			t.Fatalf("no change made %v", m)
		}
	})
}

func TestHeaderValue(t *testing.T) {
	for want, v := range map[string]*corev3.HeaderValue{
		"raw": {RawValue: []byte("raw"), Value: "old"},
		"old": {Value: "old"},
		"":    {},
	} {
		if got := headerValue(v); got != want {
			t.Errorf("%v: %q", v, got)
		}
	}
	for text, want := range map[string]int64{"5": 5, "": -1, "-5": -1, "x": -1} {
		if got := contentLength(http.Header{"Content-Length": {text}}); got != want {
			t.Errorf("%q: %d", text, got)
		}
	}
	for text, want := range map[string]int{"200": 200, "": 502, "20": 502, "2000": 502, "abc": 502} {
		if got := statusOf(headerMap(":status", text)); got != want {
			t.Errorf("%q: %d", text, got)
		}
	}
}

func TestAttributes(t *testing.T) {
	group, err := structpb.NewStruct(map[string]any{"a": "text", "b": 3, "c": []any{true, "x"}})
	if err != nil {
		t.Fatal(err)
	}
	got := attributes(&pb.ProcessingRequest{Attributes: map[string]*structpb.Struct{"envoy.filters.http.ext_proc": group}})
	if len(got) != 3 || got["a"] != "text" || got["b"] != "3" || got["c"] != `[true,"x"]` {
		t.Errorf("%v", got)
	}
}

func TestMarker(t *testing.T) {
	marker := newMarker([]byte("key"))
	if newMarker([]byte("key")) == marker {
		t.Error("two markers are equal")
	}
	for value, want := range map[string]bool{
		marker:                     true,
		marker + "0":               false,
		"0" + marker:               false,
		marker[:17]:                false,
		"":                         false,
		newMarker([]byte("other")): false,
	} {
		h := http.Header{"X-Mcp-Via-Llm-Hop": {value}, "X": {"1"}}
		present, valid := takeMarker(h, []byte("key"))
		if !present || valid != want || len(h) != 1 {
			t.Errorf("%q: %v %v %v", value, present, valid, h)
		}
	}
	if present, valid := takeMarker(http.Header{}, nil); present || valid {
		t.Error("a marker from nowhere")
	}
}

// TestPipe: any pushes, read in any pieces, are the same bytes.
func TestPipe(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rooms := 0
		var trailer http.Header
		var p pipe
		p.init(func() { rooms++ })
		p.onEOF = func(h http.Header) { trailer = h }
		var want, got []byte
		ended := false
		for range rapid.IntRange(0, 20).Draw(t, "steps") {
			if rapid.Bool().Draw(t, "push") {
				data := make([]byte, rapid.SampledFrom([]int{0, 1, 100, pipeLimit}).Draw(t, "size"))
				for i := range data {
					data[i] = byte(len(want) + i)
				}
				want = append(want, data...)
				p.push(data)
			} else if len(got) < len(want) {
				full := p.full()
				before := rooms
				buf := make([]byte, rapid.SampledFrom([]int{1, 1000, 2 * pipeLimit}).Draw(t, "buffer"))
				n, err := p.Read(buf)
				if n == 0 || err != nil {
					t.Fatal(n, err)
				}
				got = append(got, buf[:n]...)
				if told := rooms > before; told != (full && !p.full()) {
					t.Fatalf("full %v then %v, told %v", full, p.full(), told)
				}
			}
		}
		p.finish(http.Header{"T": {"1"}})
		p.push([]byte("late"))
		rest, err := io.ReadAll(&p)
		ended = err == nil
		if got = append(got, rest...); string(got) != string(want) || !ended || trailer.Get("T") != "1" {
			t.Fatalf("%d bytes of %d, %v, %v", len(got), len(want), err, trailer)
		}
		_ = p.Close()
		if _, err := p.Read(make([]byte, 1)); err != http.ErrBodyReadAfterClose {
			t.Fatal(err)
		}
	})
}
