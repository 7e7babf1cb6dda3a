package credential

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"golang.org/x/oauth2"
)

// tokenError says why there is no token: the status and error of the endpoint,
// without the URL and without the secrets that were sent.
func tokenError(at *url.URL, err error, secrets []string) error {
	var answer *oauth2.RetrieveError
	var as *url.Error
	where := "the token endpoint at " + at.Hostname()
	switch {
	case errors.As(err, &answer):
		status := answer.Response.StatusCode
		text := fmt.Sprintf("%s answered HTTP %d", where, status)
		if answer.ErrorCode != "" {
			text += ": " + quoted(answer.ErrorCode+" "+answer.ErrorDescription, secrets)
		}
		passing := status >= 500 || status == http.StatusTooManyRequests || status == http.StatusRequestTimeout
		return &Error{Text: text, Refused: !passing}
	case errors.As(err, &as):
		return &Error{Text: fmt.Sprintf("%s cannot be reached: %v", where, as.Err), Refused: errors.Is(err, errForbidden) || errors.Is(err, errRedirect)}
	}
	return &Error{Text: where + " gave no token that can be used"}
}

// quoted makes a foreign text fit for a log.
func quoted(text string, secrets []string) string {
	for _, secret := range secrets {
		if secret != "" {
			text = strings.ReplaceAll(text, secret, "…")
		}
	}
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.TrimSpace(text))
	if len(text) > 200 {
		text = strings.ToValidUTF8(text[:200], "") + "…"
	}
	return text
}
