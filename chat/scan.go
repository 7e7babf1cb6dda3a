package chat

import (
	"strings"

	"github.com/tidwall/gjson"
)

// each visits the members of an object, or the elements of an array, whose key is "".
// v must be of valid JSON: that it skips strings without a look at what is in them is why
// it is here. Of what is not valid it may visit anything.
func each(v gjson.Result, visit func(key string, value gjson.Result)) {
	s := v.Raw
	i := blanks(s, 0)
	if i == len(s) || s[i] != '{' && s[i] != '[' {
		return
	}
	object := s[i] == '{'
	for i++; ; {
		for i < len(s) && (s[i] == ',' || s[i] <= ' ') {
			i++
		}
		if i == len(s) || s[i] == '}' || s[i] == ']' {
			return
		}
		key := ""
		if object {
			end := skip(s, i)
			key = unquoted(s[i:end])
			if i = blanks(s, end); i == len(s) || s[i] != ':' {
				return
			}
			if i = blanks(s, i+1); i == len(s) {
				return
			}
		}
		end := skip(s, i)
		if end == i {
			return
		}
		value := valueOf(s[i:end])
		value.Index = v.Index + i
		visit(key, value)
		i = end
	}
}

// maxMembers is how many members can be read at once.
const maxMembers = 8

// members gives members of the object s by their names, in one pass. Of those with the
// same name the first counts.
func members(s string, names ...string) (found [maxMembers]gjson.Result) {
	if !strings.HasPrefix(s[blanks(s, 0):], "{") {
		return found
	}
	each(gjson.Result{Raw: s}, func(key string, value gjson.Result) {
		for i, name := range names {
			if key == name && !found[i].Exists() {
				found[i] = value
			}
		}
	})
	return found
}

// valueOf is gjson.Parse, which looks at each byte of a string.
func valueOf(raw string) gjson.Result {
	if text, ok := bare(raw); ok {
		return gjson.Result{Type: gjson.String, Raw: raw, Str: text}
	}
	return gjson.Parse(raw)
}

// unquoted is a member's name.
func unquoted(raw string) string {
	if text, ok := bare(raw); ok {
		return text
	}
	return gjson.Parse(raw).String()
}

// bare gives the text of a string in which nothing is escaped.
func bare(raw string) (text string, ok bool) {
	if len(raw) < 2 || raw[0] != '"' || raw[len(raw)-1] != '"' || strings.IndexByte(raw, '\\') >= 0 {
		return "", false
	}
	return raw[1 : len(raw)-1], true
}

// blanks gives the end of the white space at place i.
func blanks(s string, i int) int {
	for i < len(s) && s[i] <= ' ' {
		i++
	}
	return i
}

// skip gives the end of the value at place i.
func skip(s string, i int) int {
	switch s[i] {
	case '"':
		return skipString(s, i)
	case '{', '[':
		return skipNested(s, i)
	}
	for i < len(s) && s[i] > ' ' && s[i] != ',' && s[i] != '}' && s[i] != ']' {
		i++
	}
	return i
}

func skipNested(s string, i int) int {
	for depth := 0; i < len(s); {
		switch s[i] {
		case '"':
			i = skipString(s, i)
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
		i++
	}
	return i
}

// skipString looks for a quote with an even number of backslashes before it.
func skipString(s string, i int) int {
	for at := i + 1; ; {
		n := strings.IndexByte(s[at:], '"')
		if n < 0 {
			return len(s)
		}
		at += n + 1
		back := at - 2
		for back > i && s[back] == '\\' {
			back--
		}
		if (at-back)%2 == 0 {
			return at
		}
	}
}
