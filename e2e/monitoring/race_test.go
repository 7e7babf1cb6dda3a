//go:build race

package monitoring_test

// raceFlags build the service with the race detector when the tests are.
var raceFlags = []string{"-race"}
