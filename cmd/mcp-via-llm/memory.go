package main

import (
	"errors"
	"log/slog"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// minRoom is by how many bytes the heap may grow between two collections at the
// least, while few turns wait. Most of what a turn allocates is gone when it ends, and
// Go's own rule, by which a small heap is collected whenever it has doubled, costs short
// turns a tenth of their time.
const minRoom = 64 << 20

// tuneMemory fits the runtime to its container and its work: nine tenths of the
// container's memory are Go's own limit, and below it a small heap has minRoom. GOGC
// and GOMEMLIMIT, where they are set, stay as they are. The number of processors
// needs nothing: Go takes it from the container since 1.25.
func tuneMemory(log *slog.Logger) {
	if os.Getenv("GOGC") == "" {
		keepRoom(nil)
	}
	if _, err := memlimit.Set(); err != nil && !errors.Is(err, memlimit.ErrNoCgroup) {
		log.Warn("the container's memory limit is not known; set GOMEMLIMIT", "err", err)
	}
}

// keepRoom sets GOGC anew after each collection, by what was left.
func keepRoom(*collected) {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"}}
	metrics.Read(sample)
	debug.SetGCPercent(roomPercent(sample[0].Value.Uint64(), sample[1].Value.Uint64()))
	runtime.SetFinalizer(&collected{}, keepRoom)
}

// collected is garbage at once: its finalizer runs after the next collection.
type collected struct{ _ *byte }

// roomPercent is the GOGC with which a heap may double, or grow by minRoom if that is
// more. Turns that wait make less room: they have about as much on the heap as in their
// stacks, more while they begin, and room for garbage would come on top for each. But a
// quarter of what a collection looks at it is, or turns that begin would wait for
// collections (with a tenth, 10,000 of them spent two thirds of their time on it).
func roomPercent(live, stacks uint64) int {
	room := max(int64(live)-2*int64(stacks), int64(live+stacks)/4, minRoom)
	return int(100 * uint64(room) / max(live+stacks, 4<<20))
}
