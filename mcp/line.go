package mcp

import (
	"bufio"
	"encoding/json"
	"errors"
	"regexp"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/tidwall/gjson"
)

const (
	// maxSkip bounds how much of an oversize line is read to find its end, in bytes;
	// a server that sends more is stopped.
	maxSkip = 256 << 20
	// lineEnd is how much of its end is looked at.
	lineEnd = 256
)

// errBrokenJSON is in the place of an answer that does not decode.
var errBrokenJSON = errors.New(brokenJSON)

var errMessageTooLarge = errors.New("the server sent a message over the size limit")

// endsOf keeps the same of a line that is no JSON.
func endsOf(line []byte) *oversize {
	return &oversize{head: line[:min(len(line), lineEnd)], tail: line[max(0, len(line)-lineEnd):]}
}

// oversize is what is kept of a line over the limit.
type oversize struct{ head, tail []byte }

// readLine reads a line of at most limit bytes; what is longer is read to its end
// and not kept. The last line may lack its end.
func readLine(r *bufio.Reader, limit int) (line []byte, over *oversize, err error) {
	for read := 0; ; {
		part, err := r.ReadSlice('\n')
		read += len(part)
		switch {
		case over != nil:
			over.tail = append(over.tail, part...)
			over.tail = over.tail[max(0, len(over.tail)-lineEnd):]
		case read > limit:
			over = &oversize{head: slices.Clone(line[:min(len(line), lineEnd)])}
			over.tail = slices.Clone(part[max(0, len(part)-lineEnd):])
			line = nil
		default:
			line = append(line, part...)
		}
		if read > maxSkip {
			return nil, over, errMessageTooLarge
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, over, err
		}
	}
}

// lastID is the id of a response whose last member it is, as some SDKs write it.
var lastID = regexp.MustCompile(`"id"\s*:\s*(\d+|"[^"\\]*")\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$`)

// answers gives the id of the response that the line was, if it shows.
func (o *oversize) answers() (id jsonrpc.ID, ok bool) {
	raw := gjson.GetBytes(o.head, "id").Raw
	if raw == "" {
		if found := lastID.FindSubmatch(o.tail); found != nil {
			raw = string(found[1])
		}
	}
	var value any
	if json.Unmarshal([]byte(raw), &value) != nil || gjson.GetBytes(o.head, "method").Exists() {
		return id, false
	}
	id, err := jsonrpc.MakeID(value)
	return id, err == nil && id.IsValid()
}
