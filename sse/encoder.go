package sse

import "bytes"

// Append appends one event with the given data to dst, framed with LF line ends
// and one space after the colon, the form that every client reads.
func Append(dst, data []byte) []byte {
	for line := range bytes.SplitSeq(data, []byte("\n")) {
		dst = append(dst, "data: "...)
		dst = append(dst, line...)
		dst = append(dst, '\n')
	}
	return append(dst, '\n')
}

// Comment is a keep-alive: a comment line with one line end, no blank line
// after it. Several client libraries take a blank line after a comment for an
// event without data and fail; none minds a comment in front of an event.
const Comment = ": keep-alive\n"
