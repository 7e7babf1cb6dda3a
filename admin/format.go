package admin

import (
	"fmt"
	"html/template"
	"strconv"
	"strings"
	"time"

	"github.com/mcp-via-llm/mcp-via-llm/mcp"
)

var functions = template.FuncMap{
	"count": count, "list": list, "turnsAt": turnsAt, "serversAt": serversAt, "share": share,
	"took": took, "ago": ago, "stamp": stamp, "bytes": size, "short": short, "mini": mini, "thousands": thousands[int],
}

func list(all ...any) []any { return all }

// table is the rows of a table and the moment at which they were as they are.
type table struct {
	Now     time.Time
	Turns   []Turn
	Servers []mcp.ServerStatus
}

func turnsAt(now time.Time, all []Turn) table               { return table{Now: now, Turns: all} }
func serversAt(now time.Time, all []mcp.ServerStatus) table { return table{Now: now, Servers: all} }

// share is how much of a whole something is, in percent.
func share(part, all int) string {
	if all == 0 {
		return "0%"
	}
	return strconv.FormatFloat(100*float64(part)/float64(all), 'f', 2, 64) + "%"
}

// took writes a time as people read it, with about three digits.
func took(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return "<1 ms"
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < 10*time.Second:
		return fmt.Sprintf("%.2f s", d.Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%d min %d s", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%d days", int(d.Hours())/24)
}

// ago tells how long before now a moment was.
func ago(now, t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	d := now.Sub(t)
	switch {
	case d < time.Second:
		return "just now"
	case d < time.Minute:
		return strconv.Itoa(int(d.Seconds())) + " s ago"
	}
	return took(d) + " ago"
}

// stamp writes a moment for machines (HTML, time element).
func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

func size(n int) string {
	switch {
	case n < 1000:
		return fmt.Sprintf("%d B", n)
	case n < 1_000_000:
		return fmt.Sprintf("%.1f kB", float64(n)/1e3)
	}
	return fmt.Sprintf("%.1f MB", float64(n)/1e6)
}

// thousands sets a number in groups, by thin spaces that do not break.
func thousands[N int | int64](n N) string {
	s := strconv.FormatInt(int64(n), 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "\u202f" + s[i:]
	}
	return s
}

// count writes a number of things; one of them is without the s.
func count(n int, things string) string {
	if n == 1 {
		things = strings.TrimSuffix(things, "s")
	}
	return strconv.Itoa(n) + " " + things
}

// short cuts a text of somebody else's, at a character's end.
func short(limit int, s string) string {
	runes := []rune(strings.Join(strings.Fields(s), " "))
	if len(runes) <= limit {
		return string(runes)
	}
	return string(runes[:limit-1]) + "…"
}
