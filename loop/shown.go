package loop

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/tidwall/gjson"
)

// shownArguments limits what a question shows of the arguments of one call, in
// characters: enough to judge them by, and not the whole of a file to be written.
const shownArguments = 6000

// shownText are the lengths, in characters, at which the texts in arguments are cut:
// the first at which all of them can be shown.
var shownText = []int{4000, 1000, 250, 60}

// readable gives arguments as an indented block of JSON. Every member is in it, with
// the beginning of its value at least; ok says whether that was possible. As a JSON
// text has no line ends inside its strings, nothing in it can close the block or pass
// for the question's own words; characters that one cannot see are escaped.
func readable(arguments string) (block string, ok bool) {
	if strings.TrimSpace(arguments) == "" {
		arguments = "{}"
	}
	if !gjson.Valid(arguments) {
		return "", false
	}
	for _, cut := range shownText {
		p := printer{cut: cut}
		if p.value(gjson.Parse(arguments), "\n"); p.n <= shownArguments {
			return "```json\n" + p.b.String() + "\n```", true
		}
	}
	return "", false
}

// printer writes JSON for people, until that is too much.
type printer struct {
	b   strings.Builder
	n   int // characters written
	cut int // characters that are shown of a text
}

func (p *printer) write(s string) {
	for _, r := range s {
		if p.n++; p.n > shownArguments {
			return
		}
		if r == '\n' || r == ' ' || unicode.IsPrint(r) {
			p.b.WriteRune(r)
		} else {
			fmt.Fprintf(&p.b, "\\u{%x}", r)
		}
	}
}

// value writes a value. line begins a line as deep as the value is.
func (p *printer) value(v gjson.Result, line string) {
	switch {
	case p.n > shownArguments: // however deep it still is
		return
	case v.Type == gjson.String:
		p.text(v, line)
		return
	case !v.IsObject() && !v.IsArray():
		p.write(v.Raw)
		return
	}
	first, brackets := true, "[]"
	if v.IsObject() {
		brackets = "{}"
	}
	p.write(brackets[:1])
	v.ForEach(func(key, value gjson.Result) bool {
		if !first {
			p.write(",")
		}
		first = false
		p.write(line + "  ")
		if v.IsObject() {
			p.write(key.Raw + ": ")
		}
		p.value(value, line+"  ")
		return p.n <= shownArguments
	})
	if !first {
		p.write(line)
	}
	p.write(brackets[1:])
}

// text writes a text, or its beginning, and outside its quotes how much is missing.
// Where a long one is JSON itself its members count: it may be the arguments of
// another tool, see Tools.Runs.
func (p *printer) text(v gjson.Result, line string) {
	at, shown, all := 0, len(v.Raw)-1, 0 // in v.Raw, without its quotes
	for i, r := range v.Raw[1 : len(v.Raw)-1] {
		if i+1 < at {
			continue // of an escape sequence
		}
		if all++; all == p.cut+1 {
			shown = i + 1
		}
		at = i + 2
		if r == '\\' {
			if at++; v.Raw[i+2] == 'u' {
				at += 4
			}
		}
	}
	if all <= p.cut {
		p.write(v.Raw)
		return
	}
	if inner := strings.TrimSpace(v.String()); gjson.Valid(inner) && inner[0] != '"' {
		p.write("(in a text) ")
		p.value(gjson.Parse(inner), line)
		return
	}
	p.write(fmt.Sprintf(`%s…" (%d more characters are not shown)`, v.Raw[:shown], all-p.cut))
}
