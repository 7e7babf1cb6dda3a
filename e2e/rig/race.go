//go:build race

package rig

// RaceFlags build programs with the race detector when the tests have it.
var RaceFlags = []string{"-race"}
