// Package sse reads and writes server-sent events (WHATWG HTML, section 9.2.6)
// as the chat completions streaming format uses them: framing only, no
// reconnection and no last-event id.
package sse

import (
	"bytes"
	"fmt"
)

// Event is one block of a stream: the lines up to and including a blank line.
// Its slices are valid only until the function that received it returns.
type Event struct {
	Type string // value of the last "event" field; empty means "message"
	Data []byte // the "data" fields joined by "\n"; nil if the block has none
	Raw  []byte // the block's bytes exactly as they arrived
}

// TooLargeError says that one event has more than Limit bytes.
type TooLargeError struct{ Limit int }

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("server-sent event is larger than %d bytes", e.Limit)
}

// Decoder is a push decoder: bytes cut anywhere go in, whole events come out.
// It accepts LF, CRLF and CR line ends and one leading byte order mark. The Raw
// parts of all its events, joined, are the bytes that were pushed.
//
// The zero value has no size limit. A Decoder must not be used after an error.
type Decoder struct {
	MaxEvent int // largest event in bytes, zero for no limit

	buf    []byte // bytes of the block that is not complete yet
	line   int    // where the current line begins in buf
	scan   int    // bytes of buf before this have no line end after line
	begun  bool   // the first line was seen (only it may carry a BOM)
	skipLF bool   // the last byte taken was a CR; an LF now belongs to it
	typ    string
	data   []byte
	joined bool // data is the decoder's own memory, not a part of buf
}

var bom = []byte("\xef\xbb\xbf")

// Push takes the next bytes and calls yield for every event they complete. An
// error from yield ends the work and is returned.
func (d *Decoder) Push(p []byte, yield func(Event) error) error {
	if d.skipLF && len(p) > 0 {
		d.skipLF = false
		if p[0] == '\n' {
			d.buf = append(d.buf, '\n')
			d.line, d.scan = len(d.buf), len(d.buf)
			p = p[1:]
		}
	}
	d.buf = append(d.buf, p...)
	start := 0 // where the current block begins in buf
	for {
		end := bytes.IndexAny(d.buf[d.scan:], "\r\n")
		if end < 0 {
			d.scan = len(d.buf)
			break
		}
		end += d.scan
		next := end + 1
		if d.buf[end] == '\r' {
			if next == len(d.buf) {
				d.skipLF = true
			} else if d.buf[next] == '\n' {
				next++
			}
		}
		line := d.buf[d.line:end]
		d.line, d.scan = next, next
		if !d.begun {
			d.begun = true
			line = bytes.TrimPrefix(line, bom)
		}
		if len(line) > 0 {
			d.field(line)
			continue
		}
		if d.MaxEvent > 0 && next-start > d.MaxEvent {
			return &TooLargeError{d.MaxEvent}
		}
		if err := d.dispatch(d.buf[start:next], yield); err != nil {
			return err
		}
		start = next
	}
	d.compact(start)
	if d.MaxEvent > 0 && len(d.buf) > d.MaxEvent {
		return &TooLargeError{d.MaxEvent}
	}
	return nil
}

// End says that no more bytes will come. A block that lacks its blank line is
// yielded as it is: providers leave out the one after the last event.
func (d *Decoder) End(yield func(Event) error) error {
	if line := d.buf[d.line:]; len(line) > 0 {
		if !d.begun {
			line = bytes.TrimPrefix(line, bom)
		}
		d.field(line)
	}
	raw := d.buf
	d.buf, d.line, d.scan = nil, 0, 0
	if len(raw) == 0 {
		return nil
	}
	return d.dispatch(raw, yield)
}

// compact drops the first n bytes of buf, which belong to yielded events. What
// is left of an unfinished block moves to the front, so data that points into
// it is copied out first.
func (d *Decoder) compact(n int) {
	if n == 0 {
		return
	}
	if d.data != nil && !d.joined {
		d.data, d.joined = bytes.Clone(d.data), true
	}
	d.buf = d.buf[:copy(d.buf, d.buf[n:])]
	d.line -= n
	d.scan -= n
}

func (d *Decoder) dispatch(raw []byte, yield func(Event) error) error {
	ev := Event{Type: d.typ, Data: d.data, Raw: raw}
	d.typ, d.data, d.joined = "", nil, false
	return yield(ev)
}

func (d *Decoder) field(line []byte) {
	name, value := line, line[len(line):]
	if i := bytes.IndexByte(line, ':'); i >= 0 {
		name, value = line[:i], bytes.TrimPrefix(line[i+1:], []byte(" "))
	}
	switch string(name) {
	case "data":
		if d.data == nil {
			d.data, d.joined = value[:len(value):len(value)], false
			return
		}
		if !d.joined {
			d.data, d.joined = bytes.Clone(d.data), true
		}
		d.data = append(append(d.data, '\n'), value...)
	case "event":
		d.typ = string(value)
	}
}
