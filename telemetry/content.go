package telemetry

import (
	"os"
	"strings"
)

// ContentLimit is the most that one attribute holds of what was said, in bytes.
const ContentLimit = 16 << 10

// Content says where messages, arguments and results are recorded. By default
// nowhere: they are what people and their tools say.
type Content struct{ Spans, Events bool }

// contentFromEnv reads the variable: true or SPAN_ONLY, EVENT_ONLY, SPAN_AND_EVENT;
// anything else is nothing.
func contentFromEnv() Content {
	switch strings.ToUpper(os.Getenv(capture)) {
	case "TRUE", "SPAN_ONLY":
		return Content{Spans: true}
	case "EVENT_ONLY":
		return Content{Events: true}
	case "SPAN_AND_EVENT":
		return Content{Spans: true, Events: true}
	}
	return Content{}
}
