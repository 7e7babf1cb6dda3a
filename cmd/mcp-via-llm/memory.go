package main

import (
	"errors"
	"log/slog"
	"os"
	"runtime/debug"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// gcPercent lets the heap grow further between collections than Go's default of
// 100: most of what a turn allocates is gone when it ends, and a collection among
// short turns costs them more than the memory is worth.
const gcPercent = 200

// tuneMemory fits the runtime to its container: nine tenths of the container's
// memory are Go's own limit. GOGC and GOMEMLIMIT, where they are set, stay as they
// are. The number of processors needs nothing: Go takes it from the container
// since 1.25.
func tuneMemory(log *slog.Logger) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	if _, err := memlimit.Set(); err != nil && !errors.Is(err, memlimit.ErrNoCgroup) {
		log.Warn("the container's memory limit is not known; set GOMEMLIMIT", "err", err)
	}
}
