package schema

import (
	"errors"
	"regexp"
	"regexp/syntax"
	"strings"
)

// Providers compile patterns, by engines of their own, and refuse the whole request
// for one that does not compile: OpenAI's knows no Unicode classes, for one.

var (
	// What RE2 does not know and ECMA 262 (JSON Schema, "pattern") and Python do.
	aroundOrBack = regexp.MustCompile(`\(\?<?[=!]`)
	backOrCode   = regexp.MustCompile(`\\[1-9]|\\u[0-9A-Fa-f]{4}|\\c[A-Za-z]`)
)

// portable reports whether the usual engines compile a pattern.
func portable(pattern string) bool {
	if strings.Contains(pattern, `\p`) || strings.Contains(pattern, `\P`) {
		return false
	}
	_, err := regexp.Compile(backOrCode.ReplaceAllString(aroundOrBack.ReplaceAllString(pattern, "(?:"), "x"))
	var problem *syntax.Error
	return err == nil || errors.As(err, &problem) && problem.Code == syntax.ErrInvalidRepeatSize // RE2's own limit
}

// keepPortable puts a pattern that is not portable into words.
func keepPortable(s *node) {
	if v := s.get("pattern"); v != nil && !portable(v.str()) {
		s.take("pattern")
		tell(s, words("pattern", v))
	}
}
