package mcp

import (
	"encoding/json"
	"math"
	"strconv"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/tidwall/gjson"
)

// Servers write answers that JSON-RPC 2.0 (section 5) does not allow: an error that is
// a text, a code that is a word, an id of another type, no version. The SDK leaves
// these out, or ends the session at them. All transports put them right here.

// nobodys is the id of an answer that has none, as raw JSON.
const nobodys = `""`

// isAnswer reports whether a message answers a request.
func isAnswer(msg gjson.Result) bool {
	return msg.Get("method").Type != gjson.String && (msg.Get("result").Exists() || fault(msg) != nil)
}

// answerID is the id of an answer as the SDK writes it in its requests, raw JSON: these
// are numbers, which servers repeat as texts or fractions too.
func answerID(msg gjson.Result) string {
	id := msg.Get("id")
	if n, err := strconv.ParseInt(id.String(), 10, 64); err == nil {
		return strconv.FormatInt(n, 10)
	}
	if id.Type == gjson.String {
		return id.Raw
	}
	return nobodys
}

// fault is the error that an answer brings, nil if it brings a result. An error counts
// for more than a result beside it, unless it says nothing.
func fault(msg gjson.Result) *jsonrpc.Error {
	e, hasResult := msg.Get("error"), msg.Get("result").Exists()
	none := !e.Exists() || e.Type == gjson.Null || e.Type == gjson.False
	switch {
	case none && !hasResult && msg.Get("jsonrpc").String() == "2.0" && answerID(msg) != nobodys:
		return &jsonrpc.Error{Message: "the answer has neither a result nor an error"}
	case none, !e.IsObject() && says(e) == "" && hasResult:
		return nil
	}
	return faultOf(e)
}

// faultOf reads an error, of whatever type. A code that is no number goes into the
// text, and is 0 then.
func faultOf(e gjson.Result) *jsonrpc.Error {
	if !e.IsObject() {
		return &jsonrpc.Error{Message: says(e)}
	}
	out := &jsonrpc.Error{Message: says(e.Get("message"))}
	if data := e.Get("data"); data.Exists() && data.Type != gjson.Null {
		out.Data = json.RawMessage(data.Raw)
	}
	code := e.Get("code")
	if n, err := strconv.ParseFloat(code.String(), 64); err == nil && n == math.Trunc(n) && math.Abs(n) < 1<<53 {
		out.Code = int64(n)
	} else if text := says(code); text != "" && out.Message != "" {
		out.Message = text + ": " + out.Message
	} else if text != "" {
		out.Message = text
	}
	return out
}

// says is what a value tells a reader, "" if nothing.
func says(value gjson.Result) string {
	switch {
	case value.Type == gjson.String:
		return value.Str
	case !value.Exists(), value.Type == gjson.Null, value.Raw == "0", value.IsArray() && len(value.Array()) == 0:
		return ""
	}
	return value.Raw
}

// answerAs is an answer under the id, as the SDK takes it.
func answerAs(id string, msg gjson.Result) []byte {
	out := append([]byte(`{"jsonrpc":"2.0","id":`), id...)
	if rpc := fault(msg); rpc != nil {
		text, err := json.Marshal(rpc)
		if err != nil {
			text = []byte(`{"code":0,"message":""}`)
		}
		out = append(append(out, `,"error":`...), text...)
	} else {
		out = append(append(out, `,"result":`...), msg.Get("result").Raw...)
	}
	return append(out, '}')
}

// requestAs is a request or a notification as the SDK takes it, nil if it cannot be one.
func requestAs(msg gjson.Result) []byte {
	out := append([]byte(`{"jsonrpc":"2.0","method":`), msg.Get("method").Raw...)
	switch id := msg.Get("id"); {
	case id.Type == gjson.String, id.Type == gjson.Number:
		out = append(append(out, `,"id":`...), id.Raw...)
	case id.Exists() && id.Type != gjson.Null:
		return nil
	}
	if params := msg.Get("params"); params.IsObject() {
		out = append(append(out, `,"params":`...), params.Raw...)
	}
	return append(out, '}')
}

// response is an answer as the SDK has it in its memory.
func response(msg gjson.Result) *jsonrpc.Response {
	id := idOf(answerID(msg))
	if rpc := fault(msg); rpc != nil {
		return &jsonrpc.Response{ID: id, Error: rpc}
	}
	return &jsonrpc.Response{ID: id, Result: bytesOf(msg.Get("result").Raw)}
}
