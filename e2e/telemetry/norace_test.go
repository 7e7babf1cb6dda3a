//go:build !race

package telemetry_test

var raceFlags []string
