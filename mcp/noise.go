package mcp

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/tidwall/gjson"
)

// 2025-11-25, "Transports: stdio", allows nothing but messages on stdout, one a line. A
// progress bar or a print without a newline puts others in front of one all the same.

// maxStarts bounds how often a line is searched for a message.
const maxStarts = 32

var (
	// unseen is what a terminal does not show: control characters and sequences (ECMA-48,
	// sections 5.3 to 5.6), and a byte order mark.
	unseen = regexp.MustCompile("^(?:\\x1b\\[[0-?]*[ -/]*[@-~]|\\x1b\\][^\\x07\\x1b]*(?:\\x07|\\x1b\\\\)|\\x1b[ -Z^-~]|[\\x00-\\x20\\x7f]|\xef\xbb\xbf)+")
	// beginsMessage is how a message begins, unlike a line of a log in JSON.
	beginsMessage = regexp.MustCompile(`^\{\s*"(?:jsonrpc|id|result|error)"\s*:`)
)

func plain(line []byte) []byte { return bytes.TrimSpace(line[len(unseen.Find(line)):]) }

// buried finds the messages in a line that is no JSON as a whole: several, or with other
// text around. The first sure of them have no other text in front. broken is where one
// begins that does not decode, nil if none does: what is inside it is data, and not
// looked at.
func buried(line []byte) (msgs []jsonrpc.Message, sure int, broken []byte) {
	clean := true // nothing but messages came so far
	for range maxStarts {
		start := bytes.IndexByte(line, '{')
		if start < 0 {
			return msgs, sure, nil
		}
		clean = clean && len(plain(line[:start])) == 0
		line = line[start:]
		var object json.RawMessage
		decoder := json.NewDecoder(bytes.NewReader(line))
		if decoder.Decode(&object) != nil {
			if beginsMessage.Match(line) {
				if clean {
					broken = line
				}
				return msgs, sure, broken
			}
			clean, line = false, line[1:]
			continue
		}
		line = line[decoder.InputOffset():]
		part := gjson.ParseBytes(object)
		msg := message(part)
		if clean = clean && msg != nil; msg != nil && (clean || serverSays(part)) {
			msgs = append(msgs, msg)
		}
		if clean {
			sure = len(msgs)
		}
	}
	return msgs, sure, nil
}

// serverSays reports whether a message amid other text may be the server's own: such text
// is often its log, which may quote what it got.
func serverSays(msg gjson.Result) bool {
	if isAnswer(msg) {
		return answerID(msg) != nobodys
	}
	switch method := msg.Get("method").String(); method {
	case "notifications/initialized", methodCancelled, "notifications/roots/list_changed":
		return false
	default:
		kind, _, _ := strings.Cut(method, "/")
		return kind == "notifications" || kind == "sampling" || kind == "elicitation" || method == "roots/list"
	}
}
