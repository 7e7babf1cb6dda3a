package sse

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// decode pushes the chunks and returns "type|data" for every event with data,
// and all raw bytes joined.
func decode(t interface{ Fatal(...any) }, d *Decoder, chunks ...[]byte) (events []string, raw []byte) {
	take := func(ev Event) error {
		raw = append(raw, ev.Raw...)
		if ev.Data != nil {
			events = append(events, ev.Type+"|"+string(ev.Data))
		}
		return nil
	}
	for _, c := range chunks {
		if err := d.Push(c, take); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.End(take); err != nil {
		t.Fatal(err)
	}
	return events, raw
}

func TestFramingDialects(t *testing.T) {
	for _, tt := range []struct {
		name, in string
		want     []string
	}{
		{"LF", "data: a\n\ndata: b\n\n", []string{"|a", "|b"}},
		{"CRLF", "data: a\r\n\r\ndata: b\r\n\r\n", []string{"|a", "|b"}},
		{"bare CR", "data: a\r\rdata: b\r\r", []string{"|a", "|b"}},
		{"no space after the colon", "data:a\n\n", []string{"|a"}},
		{"only one space is framing", "data:  a\n\n", []string{"| a"}},
		{"one leading BOM", "\ufeffdata: a\n\ndata: \ufeffb\n\n", []string{"|a", "|\ufeffb"}},
		{"several data lines", "data: {\"a\":\ndata: 1}\n\n", []string{"|{\"a\":\n1}"}},
		{"named event", "event: error\ndata: x\n\n", []string{"error|x"}},
		{"comments, ids and retries", ": hi\nid: 4\nretry: 9\ndata: a\n\n: only a comment\n\n", []string{"|a"}},
		{"field without a colon", "data\n\n", []string{"|"}},
		{"empty data", "data:\n\ndata: a\n\n", []string{"|", "|a"}},
		{"last event unterminated", "data: a\n\ndata: [DONE]", []string{"|a", "|[DONE]"}},
		{"last line end missing", "data: a\n\ndata: b\n", []string{"|a", "|b"}},
		{"unfinished comment", "data: a\n\n: x", []string{"|a"}},
		{"nothing", "", nil},
		{"lone BOM", "\ufeff", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, raw := decode(t, &Decoder{}, []byte(tt.in))
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
			if string(raw) != tt.in {
				t.Errorf("raw = %q, want the input %q", raw, tt.in)
			}
		})
	}
}

// Any cut of a stream gives the same events and the same bytes, down to one
// byte at a time.
func TestAnyChunking(t *testing.T) {
	alphabet := []string{"data: ", "data:", "event: e", ": c", "id: 1", "\n", "\r", "\r\n", "x", "é", "🍊", "\ufeff", "{}", " "}
	rapid.Check(t, func(t *rapid.T) {
		in := []byte(strings.Join(rapid.SliceOfN(rapid.SampledFrom(alphabet), 0, 60).Draw(t, "in"), ""))
		want, raw := decode(t, &Decoder{}, in)
		if !bytes.Equal(raw, in) {
			t.Fatalf("raw %q differs from input %q", raw, in)
		}
		var chunks [][]byte
		for rest := in; len(rest) > 0; {
			n := rapid.IntRange(1, min(len(rest), 9)).Draw(t, "n")
			chunks, rest = append(chunks, rest[:n]), rest[n:]
		}
		got, raw := decode(t, &Decoder{}, chunks...)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("chunks %q (-want +got):\n%s", chunks, diff)
		}
		if !bytes.Equal(raw, in) {
			t.Fatalf("chunked raw %q differs from input %q", raw, in)
		}
	})
}

func TestLargeEvents(t *testing.T) {
	big := strings.Repeat("x", 3_000_000)
	got, _ := decode(t, &Decoder{MaxEvent: 4 << 20}, []byte("data: "+big+"\n\n"))
	if len(got) != 1 || len(got[0]) != len(big)+1 {
		t.Fatalf("a line of 3 MB was not read whole")
	}
	for _, in := range []string{"data: " + big, "data: " + big + "\n\n"} {
		err := (&Decoder{MaxEvent: 1 << 20}).Push([]byte(in), func(Event) error { return nil })
		var tooLarge *TooLargeError
		if !errors.As(err, &tooLarge) || tooLarge.Limit != 1<<20 {
			t.Errorf("error = %v, want TooLargeError", err)
		}
	}
	// Many small events in one push are not one large event.
	if err := (&Decoder{MaxEvent: 64}).Push([]byte(strings.Repeat("data: a\n\n", 1000)), func(Event) error { return nil }); err != nil {
		t.Error(err)
	}
}

func TestYieldErrorEndsTheWork(t *testing.T) {
	stop := fmt.Errorf("enough")
	n := 0
	err := (&Decoder{}).Push([]byte("data: a\n\ndata: b\n\n"), func(Event) error { n++; return stop })
	if err != stop || n != 1 {
		t.Errorf("err = %v after %d events", err, n)
	}
}

func TestAppend(t *testing.T) {
	if got := string(Append(nil, []byte("{\"a\":\n1}"))); got != "data: {\"a\":\ndata: 1}\n\n" {
		t.Errorf("got %q", got)
	}
}

func FuzzDecoder(f *testing.F) {
	f.Add([]byte("data: a\r\n\r\n: c\ndata: b\n\n"), 3)
	f.Fuzz(func(t *testing.T, in []byte, cut int) {
		want, raw := decode(t, &Decoder{}, in)
		if !bytes.Equal(raw, in) {
			t.Fatalf("raw %q differs from input %q", raw, in)
		}
		if len(in) == 0 {
			return
		}
		if cut %= len(in); cut < 0 {
			cut = -cut
		}
		if got, _ := decode(t, &Decoder{}, in[:cut], in[cut:]); !cmp.Equal(want, got) {
			t.Fatalf("cut at %d: %q, want %q", cut, got, want)
		}
	})
}

func BenchmarkDecoder(b *testing.B) {
	const event = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"word \"}}]}\n\n"
	for _, size := range []int{1 << 10, 100 << 10, 1 << 20} {
		in := []byte(strings.Repeat(event, size/len(event)+1))
		b.Run(fmt.Sprintf("%d KiB", size>>10), func(b *testing.B) {
			b.SetBytes(int64(len(in)))
			b.ReportAllocs()
			for b.Loop() {
				d := Decoder{MaxEvent: 1 << 20}
				for rest := in; len(rest) > 0; {
					n := min(4096, len(rest))
					if err := d.Push(rest[:n], func(Event) error { return nil }); err != nil {
						b.Fatal(err)
					}
					rest = rest[n:]
				}
			}
		})
	}
}
