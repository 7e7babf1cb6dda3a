package admin

import (
	"mime"
	"net/http"
	"strconv"
	"strings"
)

// wantsPage says whether a request is for HTML: text/html is named in its Accept
// header, and application/json is not, or with less weight (RFC 9110, section
// 12.5.1). Everybody else is a program.
func wantsPage(r *http.Request) bool {
	var html, json float64
	for part := range strings.SplitSeq(strings.Join(r.Header.Values("Accept"), ","), ",") {
		name, parameters, err := mime.ParseMediaType(part)
		if err != nil {
			continue
		}
		weight, err := strconv.ParseFloat(parameters["q"], 64)
		if err != nil {
			weight = 1
		}
		switch name {
		case "text/html":
			html = weight
		case "application/json":
			json = weight
		}
	}
	return html > json
}
