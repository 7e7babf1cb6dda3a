package policy

import (
	"bytes"
	"io"
	"os"
)

// auditFile is the open audit log. The zero value is closed.
type auditFile struct {
	path string
	file *os.File
	torn bool // the last line was written in part
}

func (f *auditFile) close() {
	if f.file != nil {
		f.file.Close() //nolint:errcheck // each write has told of its own errors
	}
	f.file = nil
}

// write appends lines to the file of that path, and reports how many are there
// whole. A line that is there in part is written again on a line of its own.
func (f *auditFile) write(path string, stderr io.Writer, lines [][]byte) (whole int, err error) {
	to := stderr
	if path != Stderr {
		if err := f.open(path); err != nil {
			return 0, err
		}
		to = f.file
	}
	if f.torn {
		if _, err := to.Write([]byte("\n")); err != nil {
			return 0, err
		}
		f.torn = false
	}
	n, err := to.Write(bytes.Join(lines, nil))
	for whole < len(lines) && n >= len(lines[whole]) {
		n -= len(lines[whole])
		whole++
	}
	f.torn = n > 0
	return whole, err
}

// open opens the file, unless it is open and still the one that the path leads to:
// one that was moved away is left, and a new one begun.
func (f *auditFile) open(path string) error {
	if f.file != nil && f.path == path {
		at, err := os.Stat(path)
		own, ownErr := f.file.Stat()
		if err == nil && ownErr == nil && os.SameFile(at, own) {
			return nil
		}
	}
	f.close()
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	f.path, f.file, f.torn = path, file, endsTorn(file, path)
	return nil
}

// endsTorn says whether a file ends within a line, such as after a crash. Where
// that cannot be seen, it does not.
func endsTorn(appending *os.File, path string) bool {
	info, err := appending.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
		return false
	}
	file, err := os.Open(path) // for reading, which the other is not
	if err != nil {
		return false
	}
	defer file.Close()
	last := make([]byte, 1)
	_, err = file.ReadAt(last, info.Size()-1)
	return err == nil && last[0] != '\n'
}
