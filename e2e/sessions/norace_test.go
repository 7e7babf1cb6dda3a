//go:build !race

package sessions_test

var raceFlags []string
