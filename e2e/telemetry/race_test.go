//go:build race

package telemetry_test

// raceFlags build the service with the race detector when the tests are.
var raceFlags = []string{"-race"}
