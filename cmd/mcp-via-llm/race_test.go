//go:build race

package main

// buildFlags make the binary like the test: with the race detector.
var buildFlags = []string{"build", "-race"}
