package loop

import (
	"crypto/rand"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// questionText asks the user whether calls may run. The tag at its end is not for
// the user: a yes to the same words in another conversation must not count here.
func questionText(calls []heldCall, open time.Duration) string {
	var b strings.Builder
	if len(calls) == 1 {
		b.WriteString("May I run this tool?\n")
	} else {
		fmt.Fprintf(&b, "May I run these %d tools?\n", len(calls))
	}
	for i, c := range calls {
		arguments, _ := readable(c.arguments) // of others nobody is asked
		fmt.Fprintf(&b, "\n%d. `%s`\n\n%s\n", i+1, c.name, arguments)
	}
	if len(calls) == 1 {
		b.WriteString("\nPlease answer **yes** or **no**, alone in one message.")
	} else {
		b.WriteString("\nPlease answer **yes** (to all), **approve 1** (or any of the numbers, such as **approve 1, 2**: only those), or **no**, alone in one message.")
	}
	b.WriteString(alsoYes + " Anything else counts as no.")
	if open > 0 {
		fmt.Fprintf(&b, " The question is open for %s.", brief(open))
	}
	return b.String() + " (question " + rand.Text()[:12] + ")"
}

// alsoYes tells of all words that agree.
var alsoYes = " (As yes count also: " + strings.Join(yesWords[1:], ", ") + ".)"

var questionTag = regexp.MustCompile(`\(question [A-Z2-7]{12}\)$`)

// brief is a duration without its zero minutes and seconds.
func brief(d time.Duration) string {
	s := strings.Replace(d.Round(time.Second).String(), "m0s", "m", 1)
	return strings.Replace(s, "h0m", "h", 1)
}

// The answers that agree, and those that only say no. What is neither says no, too,
// and the model is told what it was.
var (
	yesWords = []string{"yes", "y", "yes please", "yes to all", "ok", "okay", "approve", "approved", "approve all", "allow", "allow all", "confirm", "confirmed",
		"go ahead", "ja", "ja bitte", "oui", "si", "sí", "sì", "sim", "да", "はい", "是"}
	noWords = []string{"no", "n", "no thanks", "deny", "denied", "deny all", "reject", "nein", "non", "não", "нет", "いいえ", "不"}
	someYes = []string{"yes", "approve", "allow"}
)

// answered is how a user's answer reads.
type answered struct {
	approved []int // numbers of the calls, from 0
	bare     bool  // the message is an answer and nothing else
}

// readAnswer reads an answer to a question about n calls. Only a message that as a
// whole is one of a few words agrees to anything, whatever its case and
// punctuation; a question mark is none.
func readAnswer(text string, n int) answered {
	var words []string
	for _, w := range strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return unicode.IsSpace(r) || r == ',' || r == '&' }) {
		if w = strings.Trim(w, ".!:;'\"*_`()。！“”"); w != "" {
			words = append(words, w)
		}
	}
	whole := strings.Join(words, " ")
	switch {
	case slices.Contains(noWords, whole):
		return answered{bare: true}
	case slices.Contains(yesWords, whole):
		all := make([]int, n)
		for i := range all {
			all[i] = i
		}
		return answered{all, true}
	case len(words) < 2 || !slices.Contains(someYes, words[0]):
		return answered{}
	}
	var some []int
	for i, w := range words[1:] {
		if w == "and" && i > 0 && i < len(words)-2 || w == "to" && i == 0 && len(words) > 2 {
			continue
		}
		number, err := strconv.Atoi(strings.TrimPrefix(w, "#"))
		if err != nil || number < 1 || number > n {
			return answered{}
		}
		if !slices.Contains(some, number-1) {
			some = append(some, number-1)
		}
	}
	slices.Sort(some)
	return answered{some, true}
}
