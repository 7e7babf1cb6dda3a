package main

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
)

// version can be set at build time: -ldflags "-X main.version=v1.2.3".
var version string

type versionCommand struct{}

func (versionCommand) Run(out output) error {
	number, commit := build()
	fmt.Fprintf(out.stdout, "mcp-via-llm %s (commit %s, %s)\n", number, commit, runtime.Version())
	return nil
}

// build tells what the binary was made from, as the Go tool recorded it.
func build() (number, commit string) {
	number, commit = version, "unknown"
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return cmp.Or(number, "unknown"), commit
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			commit = s.Value
		}
	}
	return cmp.Or(number, info.Main.Version, "unknown"), commit
}
