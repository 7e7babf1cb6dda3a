package main

import (
	"runtime"
	"runtime/debug"
	"testing"
)

func TestRoomPercent(t *testing.T) {
	for live, want := range map[uint64]int{0: 3200, 8 << 20: 1600, 64 << 20: 200, 128 << 20: 100, 1 << 30: 100} {
		if got := roomPercent(live); got != want {
			t.Errorf("%d MiB: %d, want %d", live>>20, got, want)
		}
	}
}

// TestKeepRoom: GOGC follows the heap, from one collection to the next.
func TestKeepRoom(t *testing.T) {
	large := make([]byte, 2*minRoom)
	keepRoom(nil)
	for range 1000 { // finalizers run in a goroutine of their own
		if debug.SetGCPercent(7) == 100 {
			runtime.KeepAlive(large)
			return
		}
		runtime.GC()
	}
	t.Error("GOGC did not follow the heap")
}
