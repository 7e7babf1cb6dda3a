package extproc

import "net/http"

// Aside returns a round tripper for requests that a handler makes beside those of
// its exchange: all go to the loop listener, also before the client's request is
// released and after the exchange has ended. As with [Transport], the exchange is
// found in the request's context.
func Aside() http.RoundTripper { return aside{} }

type aside struct{}

// RoundTrip implements http.RoundTripper.
func (aside) RoundTrip(r *http.Request) (*http.Response, error) {
	x, ok := r.Context().Value(exchangeKey).(*exchange)
	if !ok {
		closeBody(r)
		return nil, errNoExchange
	}
	return x.loopTrip(r)
}
