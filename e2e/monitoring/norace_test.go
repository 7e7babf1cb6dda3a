//go:build !race

package monitoring_test

var raceFlags []string
