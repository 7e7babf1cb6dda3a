package schema

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxWords bounds what is said of one lost constraint, in characters.
const maxWords = 300

// phrases say a keyword in words, with its value in the place of "~".
var phrases = map[string]string{
	"minimum": "at least ~", "maximum": "at most ~", "exclusiveMinimum": "greater than ~", "exclusiveMaximum": "less than ~",
	"multipleOf": "a multiple of ~", "minLength": "at least ~ characters", "maxLength": "at most ~ characters",
	"pattern": "matches the regular expression ~", "format": "format ~", "minItems": "at least ~ items", "maxItems": "at most ~ items",
	"minProperties": "at least ~ members", "maxProperties": "at most ~ members", "const": "always ~", "enum": "one of ~",
	"default": "default ~", "example": "example ~", "examples": "examples ~", "contains": "contains an item that fits ~",
	"prefixItems": "first items fit ~", "propertyNames": "member names fit ~", "patternProperties": "members whose names match ~",
	"additionalProperties": "other members fit ~", "unevaluatedProperties": "other members fit ~", "items": "items fit ~",
	"not": "must not fit ~", "anyOf": "fits one of ~", "oneOf": "fits exactly one of ~", "allOf": "fits all of ~",
	"dependentSchemas": "depending on members, fits ~", "dependencies": "depending on members ~",
	"dependentRequired": "members that need others ~", "contentEncoding": "encoded as ~", "contentMediaType": "media type ~",
}

// words says a keyword that a dialect does not know; "" for one that forbids
// nothing.
func words(name string, v *node) string {
	switch {
	case name == "uniqueItems" && v.is("true"):
		return "no two items alike"
	case (name == "additionalProperties" || name == "unevaluatedProperties") && v.is("false"):
		return "no other members"
	case (name == "additionalProperties" || name == "unevaluatedProperties") && (v.is("true") || v.isObject() && len(v.members) == 0):
		return ""
	case name == "items" && v.is("false"), name == "default" && v.is("null"):
		return ""
	}
	phrase := phrases[name]
	if phrase == "" {
		return ""
	}
	said := v.String()
	switch {
	case v.isString() && (name == "format" || name == "pattern" || strings.HasPrefix(name, "content")):
		said = v.str()
	case v.isArray() && (name == "enum" || name == "examples"):
		parts := make([]string, len(v.items))
		for i, item := range v.items {
			parts[i] = item.String()
		}
		said = strings.Join(parts, ", ")
	}
	return strings.Replace(phrase, "~", clip(said, maxWords), 1)
}

// tell adds sentences to a schema's description.
func tell(n *node, said ...string) {
	old := n.get("description").str()
	all := old
	for _, s := range said {
		if s != "" {
			all = joined(all, sentence(s))
		}
	}
	if all != old {
		n.set("description", text(all))
	}
}

// joined puts one text after another, with the end of a sentence between them.
func joined(a, b string) string {
	a, b = strings.TrimSpace(a), strings.TrimSpace(b)
	if a == "" || b == "" {
		return a + b
	}
	if last, _ := utf8.DecodeLastRuneInString(a); unicode.IsLetter(last) || unicode.IsDigit(last) || strings.ContainsRune(")\"'`”", last) {
		a += "."
	}
	return a + " " + b
}

func sentence(s string) string {
	first, size := utf8.DecodeRuneInString(s)
	return strings.ToUpper(string(first)) + s[size:] + "."
}

// clip bounds a text to limit characters, with an ellipsis in place of the rest.
func clip(s string, limit int) string {
	if len(s) <= limit || utf8.RuneCountInString(s) <= limit {
		return s
	}
	if limit < 1 {
		return ""
	}
	return string([]rune(s)[:limit-1]) + "…"
}
