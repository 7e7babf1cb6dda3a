//go:build race

package e2e

// raceFlags build the service with the race detector when the tests are.
var raceFlags = []string{"-race"}
