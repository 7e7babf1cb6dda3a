package sessions_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// The ways in which a request may end while parts are taken away.
const (
	outcomeAnswer    = "answer"
	outcomeStoreAway = "store away" // 503 or, in a stream that has begun, an error event
	outcomeGone      = "replica gone"
)

// outcome names how a request has ended; "" if it is none that is promised.
func (a answer) outcome() string {
	switch {
	case a.complete():
		return outcomeAnswer
	case a.status == http.StatusServiceUnavailable && a.code == "store_unavailable", a.code == "error event store_unavailable":
		return outcomeStoreAway
	case a.code == "error event shutting_down" || a.code == "shutting_down":
		return outcomeGone
	case a.err != nil && a.code == "":
		return outcomeGone // refused, reset or cut
	case a.status == http.StatusServiceUnavailable && a.code == "":
		return outcomeGone // Envoy says so, and not in JSON
	}
	return ""
}

// insist sends the conversation again, as the official SDKs do, until there is an answer, takes that, and counts how
// the attempts ended. It stops at an end that is not promised.
func (c *conversation) insist(t *testing.T, ended func(outcome string)) answer {
	t.Helper()
	begin, pause := time.Now(), 100*time.Millisecond
	for {
		a := c.send(t.Context())
		outcome := a.outcome()
		if ended != nil {
			ended(outcome)
		}
		c.ends = append(c.ends, fmt.Sprintf("%s %s: %d bytes, %d %s %v", time.Now().Format("05.000"), outcome, len(a.body), a.status, a.code, a.err))
		switch {
		case outcome == outcomeAnswer:
			c.take(a)
			return a
		case outcome == "":
			t.Errorf("%s: an end that nobody promised: %v", c.id, a)
			return a
		case time.Since(begin) > 2*requestLimit:
			t.Errorf("%s: no answer:\n%s", c.id, strings.Join(c.ends, "\n"))
			return a
		}
		time.Sleep(pause)
		pause = min(2*pause, time.Second)
	}
}
