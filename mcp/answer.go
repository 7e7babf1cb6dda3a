package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"

	"github.com/tidwall/gjson"
)

// inspect looks at the answer before the SDK does. What would end the session
// in the SDK although it concerns one request becomes an error of that request.
func (w *wire) inspect(ex exchange, resp *http.Response) error {
	code := resp.StatusCode
	ok := code >= 200 && code < 300
	if ex.method != "" {
		w.last.Store(0)
		if !ok {
			w.last.Store(int32(code))
		}
	}
	media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	switch {
	case code >= 300 && code < 400: // for the http.Client
	case !ok:
		return inspectError(ex, resp)
	case media == "text/event-stream":
		if ex.standing {
			resp.Body.(*wireBody).ended = func() {
				if w.ctx.Err() == nil {
					w.onEnd(!ex.get)
				}
			}
		}
		if ex.cp != nil {
			resp.Body = &captureStream{ReadCloser: resp.Body, cp: ex.cp}
		}
	case ex.id != "": // else a notification or a GET, whose answer does not matter
		return inspectJSON(ex, resp, media)
	}
	return nil
}

// inspectJSON reads the whole answer to a request, which the SDK would do without
// a limit.
func inspectJSON(ex exchange, resp *http.Response, media string) error {
	var body []byte
	odd := ""
	if media != "application/json" {
		odd = fmt.Sprintf("the server answered with content type %.60q", media)
	} else {
		var err error
		if body, err = io.ReadAll(io.LimitReader(resp.Body, maxMessage+1)); err != nil {
			return err
		}
		switch {
		case len(body) > maxMessage:
			odd = fmt.Sprintf("the answer is larger than %d MiB", maxMessage>>20)
		case !gjson.ValidBytes(body):
			odd = "the server answered with broken JSON"
		}
	}
	switch {
	case odd != "":
		body = rpcError(ex.id, odd)
		if ex.cp != nil {
			ex.cp.isOdd(odd)
		}
	case ex.cp != nil:
		ex.cp.take(body)
	}
	setBody(resp, body)
	return nil
}

// inspectError reads an error answer. A session that the server does not know
// must end, whatever the body says: the SDK takes a JSON-RPC error in it for an
// answer to the request and would use the dead session for ever. Another refusal
// concerns one request and must not end the session for all.
func inspectError(ex exchange, resp *http.Response) error {
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	if err != nil {
		return err
	}
	code := resp.StatusCode
	// 2025-11-25, "Session Management": 404 means that the session is gone.
	// Other servers say 400 and name the session.
	lost := ex.inSession && code == http.StatusNotFound
	unknown := ex.inSession && code == http.StatusBadRequest && bytes.Contains(bytes.ToLower(body), []byte("session"))
	isRPC := gjson.ValidBytes(body) && gjson.GetBytes(body, "error").IsObject()
	if ex.cp != nil {
		ex.cp.refused(code, lost)
	}
	switch {
	case lost, unknown:
		body = nil
	case isRPC && ex.cp != nil:
		ex.cp.take(body)
	case isRPC, code == http.StatusNotFound, code == http.StatusUnauthorized, code == http.StatusForbidden:
	case ex.id != "":
		body = rpcError(ex.id, http.StatusText(code))
	}
	setBody(resp, body)
	return nil
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
	resp.Header.Set("Content-Type", "application/json")
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
