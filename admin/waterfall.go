package admin

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/mcp-via-llm/mcp-via-llm/loop"
)

// bar is a piece of a drawing. Places are in percent of its width.
type bar struct {
	X, Width string
	Class    string // of the style sheet
}

// scale puts times into a drawing.
type scale time.Duration

func (s scale) bar(class string, from, length time.Duration) bar {
	if s <= 0 {
		return bar{"0%", "100%", class}
	}
	percent := func(d time.Duration) string {
		return strconv.FormatFloat(min(100, max(0, 100*float64(d)/float64(s))), 'f', 2, 64) + "%"
	}
	return bar{percent(from), percent(length), class}
}

// row is one line of a turn's waterfall.
type row struct {
	Kind    string // segment, call, background call, wait
	Name    string
	Inner   bool // it belongs to the segment above
	Bars    []bar
	Offset  time.Duration
	Took    time.Duration
	Running bool
	Failed  bool
	Facts   []string
}

// waterfall is a turn as it is drawn.
type waterfall struct {
	Turn
	Rows  []row
	Ticks []tick
	End   string // where the turn has ended, if something went on after it
}

type tick struct{ X, Label string }

func newWaterfall(t Turn) waterfall {
	all := scale(length(t))
	w := waterfall{Turn: t, Ticks: ticks(time.Duration(all))}
	if !t.Running && time.Duration(all) > t.Duration {
		w.End = all.bar("", t.Duration, 0).X
	}
	var groups [][]row // by what leads each
	for _, wait := range t.Waits {
		groups = append(groups, []row{waitRow(all, wait)})
	}
	for i, s := range t.Segments {
		group := []row{segmentRow(all, i+1, s)}
		for _, c := range t.Calls {
			if c.Segment == i+1 {
				group = append(group, callRow(all, c))
			}
		}
		groups = append(groups, group)
	}
	for _, c := range t.Calls {
		if c.Segment < 1 || c.Segment > len(t.Segments) {
			groups = append(groups, []row{callRow(all, c)})
		}
	}
	slices.SortStableFunc(groups, func(a, b []row) int { return cmp.Compare(a[0].Offset, b[0].Offset) })
	w.Rows = slices.Concat(groups...)
	return w
}

// length is from a turn's start to the end of all that belongs to it.
func length(t Turn) time.Duration {
	end := t.Duration
	for _, c := range t.Calls {
		end = max(end, c.Offset+c.Duration)
	}
	return max(end, time.Microsecond)
}

func segmentRow(all scale, number int, s loop.SegmentReport) row {
	r := row{Kind: "segment", Name: fmt.Sprintf("Segment %d", number), Offset: s.Offset, Took: s.Duration, Running: s.Running, Failed: s.Error != ""}
	fact := func(form string, values ...any) { r.Facts = append(r.Facts, fmt.Sprintf(form, values...)) }
	if s.Replayed {
		fact("replayed from a broken attempt")
		fact("finish %q", short(40, s.Finish))
		return r
	}
	first := cmp.Or(s.Chunk, s.First)
	begun := first > 0
	if !begun || first > s.Duration {
		first = s.Duration
	}
	r.Bars = []bar{all.bar(classOf("model-waits", r.Failed && !begun), s.Offset, first), all.bar(classOf("model", r.Failed), s.Offset+first, s.Duration-first)}
	if s.Status != 0 {
		fact("status %d", s.Status)
		fact("headers after %s", took(s.First))
	}
	if s.Chunk > 0 {
		fact("first byte after %s", took(s.Chunk))
	}
	if s.Finish != "" {
		fact("finish %q", short(40, s.Finish))
	}
	if s.Tools > 0 {
		fact("%s", count(s.Tools, "tool calls"))
	}
	if s.Tokens.Input+s.Tokens.Output > 0 {
		fact("%s tokens in, %s out", thousands(s.Tokens.Input), thousands(s.Tokens.Output))
	}
	if s.Tokens.CacheRead > 0 {
		fact("%s read from the prompt cache", thousands(s.Tokens.CacheRead))
	}
	if s.Model != "" {
		fact("model %q", short(80, s.Model))
	}
	fact("request %s", size(s.Bytes))
	if s.Error != "" {
		fact("%s: %s", s.ErrorType, short(300, s.Error))
	}
	return r
}

// worthTelling is how long a call waits before its waiting is drawn.
const worthTelling = 5 * time.Millisecond

func callRow(all scale, c loop.CallReport) row {
	r := row{Kind: "call", Name: c.Name, Inner: c.Segment > 0, Offset: c.Offset, Took: c.Duration, Running: c.Running,
		Failed: c.Outcome != "" && c.Outcome != "ok"}
	class := "call"
	if c.Background {
		r.Kind, class = "background call", "background"
	}
	if c.Waited >= worthTelling {
		r.Bars = append(r.Bars, all.bar("waits", c.Offset-c.Waited, c.Waited))
		r.Facts = append(r.Facts, "waited "+took(c.Waited)+" for its turn")
	}
	if c.Duration > 0 || !c.Running {
		r.Bars = append(r.Bars, all.bar(classOf(class, r.Failed), c.Offset, c.Duration))
	}
	if c.Running {
		r.Facts = append(r.Facts, "running")
		return r
	}
	r.Facts = append(r.Facts, c.Outcome, "result "+size(c.Bytes))
	return r
}

func waitRow(all scale, w loop.WaitReport) row {
	names := map[string]string{loop.WaitCalls: "Waits for calls of an earlier turn", loop.WaitAttempt: "Waits for an earlier attempt"}
	return row{Kind: "wait", Name: cmp.Or(names[w.For], w.For), Bars: []bar{all.bar("waits", w.Offset, w.Duration)}, Offset: w.Offset, Took: w.Duration, Running: w.Running}
}

func classOf(class string, failed bool) string {
	if failed {
		return "failed"
	}
	return class
}

// strip is a turn on one line: segments above, waits and calls below.
type strip struct{ Upper, Lower []bar }

func mini(t Turn) strip {
	all := scale(length(t))
	var s strip
	for i, segment := range t.Segments {
		s.Upper = append(s.Upper, segmentRow(all, i+1, segment).Bars...)
	}
	for _, wait := range t.Waits {
		s.Upper = append(s.Upper, waitRow(all, wait).Bars...)
	}
	for _, call := range t.Calls {
		s.Lower = append(s.Lower, callRow(all, call).Bars...)
	}
	return s
}

// ticks are at round times, four to eight of them.
func ticks(all time.Duration) (out []tick) {
	step := time.Microsecond
	for i := 0; all/step > 8; i++ {
		if step *= 2; i%3 == 1 { // 1, 2, 5, 10
			step = step * 5 / 4
		}
	}
	for at := time.Duration(0); at <= all; at += step {
		out = append(out, tick{scale(all).bar("", at, 0).X, brief(at)})
	}
	return out
}

// brief labels a round time.
func brief(d time.Duration) string {
	switch {
	case d == 0:
		return "0"
	case d < time.Millisecond:
		return fmt.Sprintf("%d µs", d.Microseconds())
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) + " s"
}
