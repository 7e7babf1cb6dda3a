package rig

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// AdoptOrphans makes this process the parent of every descendant that loses its own (prctl(2),
// PR_SET_CHILD_SUBREAPER), so that Orphans can find what a child process left running.
func AdoptOrphans() error {
	return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
}

// Orphans names the descendants that still run, once all processes of the caller have been stopped. It gives them a
// second to end by themselves, and kills what it found.
func Orphans() []string {
	deadline := time.Now().Add(time.Second)
	for {
		reap()
		left := children()
		if len(left) == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return killAll(left)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func reap() {
	for {
		pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		if pid <= 0 || err != nil {
			return
		}
	}
}

func children() []int {
	var pids []int
	lists, _ := filepath.Glob("/proc/self/task/*/children") // a fixed, valid pattern
	for _, list := range lists {
		data, err := os.ReadFile(list)
		if err != nil {
			continue // the thread has ended
		}
		for _, field := range strings.Fields(string(data)) {
			var pid int
			if _, err := fmt.Sscan(field, &pid); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

func killAll(pids []int) []string {
	var names []string
	for _, pid := range pids {
		command, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err != nil {
			continue // ended just now
		}
		names = append(names, fmt.Sprintf("%d %s", pid, strings.ReplaceAll(string(command), "\x00", " ")))
		syscall.Kill(pid, syscall.SIGKILL)
	}
	reap()
	return names
}
