package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/tidwall/gjson"
)

var (
	tooLarge   = fmt.Sprintf("the answer is larger than %d MiB", maxMessage>>20)
	brokenJSON = "the server answered with broken JSON"
)

// inspect looks at the answer before the SDK does. What would end the session
// in the SDK although it concerns one request becomes an error of that request.
func (w *wire) inspect(ex *exchange, resp *http.Response) error {
	code := resp.StatusCode
	ok := code >= 200 && code < 300
	if ex.method != "" && ok {
		w.last.Store(nil)
	}
	media := declared(resp)
	if ok && ex.id != "" && media != mediaJSON && media != mediaEvents {
		media = sniffed(resp, media)
	}
	switch {
	case code >= 300 && code < 400 && resp.Header.Get("Location") != "": // for the http.Client
	case !ok:
		return w.inspectError(ex, resp)
	case media == mediaEvents:
		if ex.standing {
			resp.Body.(*wireBody).ended = func() {
				if w.ctx.Err() == nil {
					w.onEnd(!ex.get)
				}
			}
		}
		resp.Body = w.newStream(resp.Body, ex)
	case ex.id != "": // else a notification or a GET, whose answer does not matter
		return w.inspectJSON(ex, resp, media)
	}
	return nil
}

// inspectJSON reads the whole answer to a request, which the SDK would do without
// a limit.
func (w *wire) inspectJSON(ex *exchange, resp *http.Response, media string) error {
	var body, answer []byte
	odd, unexpected := "", fmt.Sprintf("the server answered with content type %.60q", declared(resp))
	if media != mediaJSON {
		odd = unexpected
	} else {
		var err error
		if body, err = io.ReadAll(io.LimitReader(resp.Body, maxMessage+1)); err != nil {
			return err
		}
		switch body = flat(bytes.TrimPrefix(body, byteOrderMark)); {
		case len(body) > maxMessage:
			odd = tooLarge
		case !validJSON(body):
			odd = brokenJSON
		case declared(resp) != mediaJSON && !bytes.Contains(body, []byte(`"jsonrpc"`)): // any JSON
			odd = unexpected
		}
	}
	if odd == "" {
		for _, msg := range messages(body) {
			if isAnswer(msg) && !sameID(msg, gjson.Parse(ex.id).String()) {
				continue // nobody else reads this body
			}
			if passed := w.pass(msg, ex); passed != nil && isAnswer(msg) {
				answer = passed
			}
		}
		if w.settled(ex, resp) {
			return errTaken
		}
		if answer == nil {
			odd = "the server did not answer the request"
		}
	}
	if odd != "" {
		answer = rpcError(ex.id, odd)
		if ex.cp != nil {
			ex.cp.isOdd(odd)
		}
	}
	setBody(resp, answer)
	return nil
}

// errTaken ends a request in the SDK whose answer was taken: nobody looks at what the SDK
// would make of it, after two more goroutines and half a dozen decoders.
var errTaken = errors.New("the answer is there")

// settled reports whether the SDK needs to know no more of a call than that it is over.
// An answer that names another session than its request is the SDK's to judge.
func (w *wire) settled(ex *exchange, resp *http.Response) bool {
	session := resp.Header.Get(headerSession)
	return !w.sse && ex.cp != nil && ex.cp.run != nil && ex.cp.taken() && (session == "" || session == ex.header.Get(headerSession))
}

// pass gives what the SDK may see of a message that came in answer to ex, nil for
// nothing. An answer without an id, or with a spelling of the request's own, is the
// answer to the request: the SDK would wait for another for ever. One with the id of
// another request is that one's, on the wrong stream, or nobody's.
func (w *wire) pass(msg gjson.Result, ex *exchange) []byte {
	method := msg.Get("method")
	switch {
	case method.Type == gjson.String:
		if !w.sse && w.hear(msg, ex) {
			return nil
		}
		return requestAs(msg)
	case !isAnswer(msg):
		return nil
	case w.sse: // captureConn sees to it
		return answerAs(answerID(msg), msg)
	case ex.cp != nil && sameID(msg, ex.cp.requestID()):
		defer w.to.answered(ex.cp.requestID()) // the SDK numbers its requests
		return ex.cp.take(msg)
	case ex.cp == nil && ex.id != "" && sameID(msg, gjson.Parse(ex.id).String()):
		return w.answerTo(ex, msg)
	}
	id := answerID(msg) // an old server may answer on the common stream
	defer w.to.answered(id)
	if cp, ok := w.pending.Load(id); ok {
		return cp.(*capture).take(msg)
	}
	if ex.id != "" {
		return nil
	}
	return answerAs(id, msg)
}

// hear passes on what a server asks or tells, and reports whether it was taken.
func (w *wire) hear(msg gjson.Result, ex *exchange) bool {
	heard := incoming{method: msg.Get("method").String(), params: json.RawMessage(msg.Get("params").Raw)}
	if id := msg.Get("id"); id.Type != gjson.Null {
		heard.id = id.Raw
	}
	if ex.cp != nil {
		heard.from = ex.cp.run
	}
	heard.reply = w.replyTo(ex, heard.id)
	return w.to.hear(heard)
}

// answerTo is the answer to a request that nobody captures.
func (w *wire) answerTo(ex *exchange, msg gjson.Result) []byte {
	if introduces(ex.method) {
		refusal := fault(msg)
		var result []byte
		var odd []string
		if refusal == nil {
			result, odd = hello([]byte(msg.Get("result").Raw))
		}
		if w.to.introduced(ex.method, odd, refusal); refusal == nil {
			return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":%s}`, ex.id, result)
		}
	}
	return answerAs(ex.id, msg)
}

// sameID says whether a message answers the request with the id, as text: some
// servers give numbers as strings, or null.
func sameID(msg gjson.Result, id string) bool {
	own := msg.Get("id")
	return own.Type == gjson.Null || own.String() == id
}

// inspectError reads an error answer. A session that the server does not know
// must end, whatever the body says: the SDK takes a JSON-RPC error in it for an
// answer to the request and would use the dead session for ever. Only of a call may
// that be right. Another refusal concerns one request and must not end the session for
// all.
func (w *wire) inspectError(ex *exchange, resp *http.Response) error {
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	if err != nil {
		return err
	}
	body = bytes.TrimPrefix(body, byteOrderMark)
	code := resp.StatusCode
	rpc := rpcErrorIn(body)
	last := &statusError{code: code}
	if ex.method == methodInitialize && rpc == nil && aboutVersions.Match(body) {
		w.to.introduced(ex.method, nil, &jsonrpc.Error{Message: string(body)})
	}
	if rpc == nil && (ex.cp == nil || ex.cp.run == nil) { // of a call it might quote the arguments
		last.said = oneLine(body, w.header)
	}
	if ex.method != "" || w.sse && ex.get { // there the GET is what connects
		if ex.method == methodInitialize || ex.method == methodDiscover {
			last.rpc = rpc // of other methods it might quote what was sent
		}
		w.last.Store(last)
	}
	// 2025-11-25, "Session Management": 404 means that the session is gone. Other
	// servers say 400 and name the session. Either way the request was not taken.
	misses, noted := ex.cp != nil && ex.cp.misses, strings.HasPrefix(ex.method, "notifications/")
	lost := ex.inSession && !misses && (code == http.StatusNotFound || code == http.StatusBadRequest && namesSession(string(body)) &&
		(rpc == nil || rpc.Code != jsonrpc.CodeInvalidParams)) // there a session is an argument
	resumes := ex.get && ex.cp != nil
	if ex.cp != nil && !resumes {
		ex.cp.refused(last, lost)
	}
	switch {
	case lost && rpc != nil && ex.cp != nil && ex.cp.run != nil && !w.sse: // or the tool's own, see conn.call
		body = ex.cp.take(gjson.ParseBytes(body))
	case lost && (noted || ex.method == "" && !ex.get): // or it does not know what this is about
		w.to.doubted()
		resp.StatusCode, body = http.StatusAccepted, nil
	case lost:
		w.to.forgotten()
		body = nil
	case resumes && ex.cp.run != nil:
		ex.cp.abandon(notResumed)
		return errAborted
	case ex.get && w.opened.Load() && (code >= 500 || code == http.StatusTooManyRequests):
		return &statusError{code: code} // of the common stream: the SDK tries again
	case w.sse && ex.cp != nil && ex.cp.run != nil: // the SDK would end the session
		ex.cp.abandon("")
		resp.StatusCode = http.StatusAccepted
	case rpc != nil && ex.cp != nil:
		body = ex.cp.take(gjson.ParseBytes(body))
	case rpc != nil && ex.id != "":
		body = w.answerTo(ex, gjson.ParseBytes(body))
	case rpc != nil && !noted, code == http.StatusNotFound && !misses, code == http.StatusUnauthorized, code == http.StatusForbidden:
	case ex.id != "":
		body = rpcError(ex.id, http.StatusText(code))
	case noted: // nor does this end it
		resp.StatusCode, body = http.StatusAccepted, nil
	}
	setBody(resp, body)
	return nil
}

const notResumed = "the stream with its answer broke off and could not be resumed"

// sessionNamed is how servers say that they do not know a session, or want one.
var sessionNamed = regexp.MustCompile(`(?i)\bsession|not initialized`)

func namesSession(text string) bool { return sessionNamed.MatchString(text) }

// rpcErrorIn is the JSON-RPC error in a body, nil if there is none.
func rpcErrorIn(body []byte) *jsonrpc.Error {
	if !validJSON(body) {
		return nil
	}
	e := gjson.GetBytes(body, "error")
	if !e.IsObject() {
		return nil
	}
	return faultOf(e)
}

func rpcError(id, message string) []byte {
	text, _ := json.Marshal(message) // a string always encodes
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32603,"message":%s}}`, id, text)
}

// setBody replaces the body of an answer by JSON.
func setBody(resp *http.Response, body []byte) {
	resp.Body.Close()
	resp.Body = io.NopCloser(bytes.NewReader(body))
	resp.ContentLength = int64(len(body))
	resp.Header.Set("Content-Type", mediaJSON)
}

// wireBody frees what a request holds when its answer is read or given up.
type wireBody struct {
	io.ReadCloser
	done  func()
	ended func() // if set, called when the stream ends
}

func (b *wireBody) Close() error {
	err := b.ReadCloser.Close()
	b.done()
	if b.ended != nil {
		b.ended()
		b.ended = nil
	}
	return err
}
