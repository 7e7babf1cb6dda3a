package main

import (
	"runtime"
	"runtime/debug"
	"testing"
)

func TestRoomPercent(t *testing.T) {
	for _, test := range []struct{ live, stacks, want uint64 }{
		{0, 0, 1600}, {8, 0, 800}, {32, 0, 200}, {64, 0, 100}, {1024, 0, 100}, {64, 192, 25}, {384, 256, 25}, {1024, 256, 40},
	} {
		if got := roomPercent(test.live<<20, test.stacks<<20); got != int(test.want) {
			t.Errorf("%d MiB and %d MiB of stacks: %d, want %d", test.live, test.stacks, got, test.want)
		}
	}
}

// TestKeepRoom: GOGC follows the heap, from one collection to the next.
func TestKeepRoom(t *testing.T) {
	large := make([]byte, 2*minRoom)
	keepRoom(nil)
	for range 1000 { // finalizers run in a goroutine of their own
		if now := debug.SetGCPercent(7); 90 < now && now <= 100 { // there are some stacks
			runtime.KeepAlive(large)
			return
		}
		runtime.GC()
	}
	t.Error("GOGC did not follow the heap")
}
