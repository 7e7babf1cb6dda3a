package mcp

import (
	"errors"
	"path"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/yosida95/uritemplate/v3"
)

// uriTemplate is a URI template (RFC 6570) that is filled in with strings. The
// library reads it; its own expansion percent-encodes code points where the RFC wants
// the bytes of UTF-8.
type uriTemplate struct {
	raw       string
	variables []string
	needed    map[string]bool // without which the URI is not whole
}

var errTemplate = errors.New("its URI template cannot be read")

func parseURITemplate(raw string) (*uriTemplate, error) {
	parsed, err := uritemplate.New(raw)
	if err != nil {
		return nil, errTemplate
	}
	t := &uriTemplate{raw: raw, variables: parsed.Varnames(), needed: map[string]bool{}}
	for _, e := range uriExpression.FindAllStringSubmatch(raw, -1) {
		for spec := range strings.SplitSeq(e[2], ",") {
			// Fragments, labels, parameters and queries may be left out: they expand
			// together with what introduces them, or to nothing.
			if e[1] == "" || e[1] == "+" || e[1] == "/" {
				name, _ := variable(spec)
				t.needed[name] = true
			}
		}
	}
	return t, nil
}

var uriExpression = regexp.MustCompile(`\{([+#./;?&]?)([^{}]*)\}`)

// variable reads a varspec: a name, and how many characters of the value count, or -1.
func variable(spec string) (name string, prefix int) {
	name, length, cut := strings.Cut(strings.TrimSuffix(spec, "*"), ":")
	if n, err := strconv.Atoi(length); cut && err == nil {
		return name, n
	}
	return name, -1
}

// operator is how an expression expands: RFC 6570, appendix A.
type operator struct {
	first, separator string
	named            bool
	ifEmpty          string
	reserved         bool // reserved characters stay
}

var operators = map[string]operator{
	"":  {separator: ","},
	"+": {separator: ",", reserved: true},
	"#": {first: "#", separator: ",", reserved: true},
	".": {first: ".", separator: "."},
	"/": {first: "/", separator: "/"},
	";": {first: ";", separator: ";", named: true},
	"?": {first: "?", separator: "&", named: true, ifEmpty: "="},
	"&": {first: "&", separator: "&", named: true, ifEmpty: "="},
}

// expand fills the template in. A variable without a value is undefined.
func (t *uriTemplate) expand(values map[string]string) string {
	return uriExpression.ReplaceAllStringFunc(t.raw, func(text string) string {
		e := uriExpression.FindStringSubmatch(text)
		op := operators[e[1]]
		var parts []string
		for spec := range strings.SplitSeq(e[2], ",") {
			name, prefix := variable(spec)
			value, defined := values[name]
			if !defined {
				continue
			}
			if runes := []rune(value); prefix >= 0 && prefix < len(runes) {
				value = string(runes[:prefix])
			}
			part := op.escape(value)
			switch {
			case op.named && part == "":
				part = name + op.ifEmpty
			case op.named:
				part = name + "=" + part
			}
			parts = append(parts, part)
		}
		if parts == nil {
			return ""
		}
		return op.first + strings.Join(parts, op.separator)
	})
}

const (
	uriUnreserved = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"
	uriReserved   = ":/?#[]@!$&'()*+,;="
)

var uriTriplet = regexp.MustCompile(`^%[0-9A-Fa-f]{2}`)

func (op operator) escape(value string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for i := 0; i < len(value); i++ {
		c := value[i]
		stays := c < utf8.RuneSelf && strings.IndexByte(uriUnreserved, c) >= 0 ||
			op.reserved && (strings.IndexByte(uriReserved, c) >= 0 || uriTriplet.MatchString(value[i:]))
		if stays {
			b.WriteByte(c)
		} else {
			b.Write([]byte{'%', hex[c>>4], hex[c&15]})
		}
	}
	return b.String()
}

// uriParts is the expression of RFC 3986, appendix B, which fits every text.
var uriParts = regexp.MustCompile(`(?s)^(?:([^:/?#]+):)?(?:(//)([^/?#]*))?([^?#]*)(?:\?([^#]*))?(?:#(.*))?`)

// climbs finds ".." where a server that knows only paths would see it.
var climbs = regexp.MustCompile(`(^|[/?#])\.\.($|[/?#])`)

// normalURI is one text for the URIs that a server may take for the same: those that RFC
// 3986, section 6.2 and RFC 8089 say are, and those that differ only in what servers often
// overlook: escaped characters, backslashes, repeated and trailing slashes, the fragment,
// user names, and a query of a file. It serves to refuse, so rather too many are equal.
// Nothing in it is escaped, so it is no address to read from. Beyond http, what looks like
// a query or fragment and climbs counts as part of the path: many servers know no queries.
func normalURI(uri string) string { return uriOf(uri, false) }

// literalURI is the normal form as it is for a server that sees only the ".." which stand
// in the path as such. Where the two differ it is open which of them a server reads.
func literalURI(uri string) string { return uriOf(uri, true) }

func uriOf(uri string, literal bool) string {
	parts := uriParts.FindStringSubmatch(uri)
	scheme, host, query := strings.ToLower(parts[1]), strings.ToLower(unescape(parts[3])), unescape(parts[5])
	host = host[strings.LastIndexByte(host, '@')+1:]
	host = strings.TrimSuffix(host, map[string]string{"http": ":80", "https": ":443"}[scheme])
	host = strings.TrimSuffix(host, ":")
	web, file := scheme == "http" || scheme == "https", scheme == "file"
	location := parts[4]
	if !literal {
		location = slashes(unescape(location))
		tail := ""
		if query != "" {
			tail = "?" + slashes(query)
		}
		if parts[6] != "" {
			tail += "#" + slashes(unescape(parts[6]))
		}
		if !web && climbs.MatchString(tail) {
			location, query = location+tail, ""
		}
	}
	if file {
		query, host = "", strings.TrimSuffix(host, "localhost")
	}
	begin := ""
	if scheme != "" {
		begin = scheme + ":"
	}
	switch {
	case file || parts[2] != "" || strings.HasPrefix(location, "/"):
		if scheme != "" || parts[2] != "" {
			begin += "//" + host
		}
		if location = path.Clean("/" + location); location == "/" && !web && !file {
			location = ""
		}
	case location != "":
		location = path.Clean(location)
	}
	if literal {
		location = slashes(unescape(location))
	}
	if query != "" {
		query = "?" + query
	}
	return strings.ToValidUTF8(begin+location+query, "\uFFFD")
}

func slashes(text string) string { return strings.ReplaceAll(text, `\`, "/") }

// sameURI is equal for URIs whose normal form is, and for those that differ in the slashes
// before their path alone, where there is no host.
func sameURI(uri string) string {
	normal := normalURI(uri)
	scheme, rest, found := strings.Cut(normal, ":")
	switch {
	case !found && !strings.HasPrefix(normal, "/"):
		return "/" + normal
	case found && !strings.HasPrefix(rest, "/"):
		return scheme + ":///" + rest
	}
	return normal
}

var anyTriplet = regexp.MustCompile(`%[0-9A-Fa-f]{2}`)

// unescape decodes what is percent-encoded, even if it was so more than once, and
// leaves a stray % as it is.
func unescape(text string) string {
	for range 3 {
		text = anyTriplet.ReplaceAllStringFunc(text, func(t string) string {
			n, _ := strconv.ParseUint(t[1:], 16, 8) // two hexadecimal digits
			return string([]byte{byte(n)})
		})
	}
	return text
}
