// Package limits looks at the variables that limit spans and log records
// (OpenTelemetry specification, "Attribute Limits") before OpenTelemetry does. A part
// of it, go.opentelemetry.io/auto/sdk, reads them while the program is initialized,
// and writes a line of text to standard error about a value that is none. Packages
// are initialized in the order of their paths (Go specification, "Program
// initialization"), so this one, which imports nothing but the standard library, is
// the earlier one.
package limits

import (
	"os"
	"strconv"
	"strings"
)

// Names are the variables.
var Names = []string{
	"OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT", "OTEL_ATTRIBUTE_COUNT_LIMIT", "OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT", "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT",
	"OTEL_SPAN_EVENT_COUNT_LIMIT", "OTEL_SPAN_LINK_COUNT_LIMIT", "OTEL_EVENT_ATTRIBUTE_COUNT_LIMIT", "OTEL_LINK_ATTRIBUTE_COUNT_LIMIT",
	"OTEL_LOGRECORD_ATTRIBUTE_VALUE_LENGTH_LIMIT", "OTEL_LOGRECORD_ATTRIBUTE_COUNT_LIMIT",
}

// Wrong are the values that were no integers, by name. They are not in the
// environment any more.
var Wrong = take()

func take() map[string]string {
	wrong := map[string]string{}
	for _, name := range Names {
		value := strings.TrimSpace(os.Getenv(name))
		if _, err := strconv.Atoi(value); err == nil || value == "" {
			continue
		}
		wrong[name] = value
		os.Unsetenv(name) //nolint:errcheck // the name is a proper one
	}
	return wrong
}
