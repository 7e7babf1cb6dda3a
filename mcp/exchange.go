package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/tidwall/gjson"
)

// exchange is what matters of a request, to judge its answer by.
type exchange struct {
	get       bool
	standing  bool        // its answer is a stream that is meant to stay open
	id        string      // of the JSON-RPC request that it answers, as raw JSON; "" for none
	method    string      // of the JSON-RPC message
	inSession bool        // it named a session
	header    http.Header // of the request
	cp        *capture    // takes the answer, if somebody wants it
	call      *capture    // of the call that a notification is about
}

func (w *wire) exchange(req *http.Request) *exchange {
	ex := &exchange{get: req.Method == http.MethodGet, cp: captureOf(req.Context()), header: req.Header}
	ex.inSession = ex.header.Get(headerSession) != "" && !ex.get
	if req.Method == http.MethodPost && req.GetBody != nil {
		if body, err := req.GetBody(); err == nil {
			raw, _ := io.ReadAll(body) // of memory; it does not fail
			msg := gjson.GetManyBytes(raw, "id", "method")
			if ex.method = msg[1].String(); ex.method != "" {
				ex.id = msg[0].Raw
			}
		}
	}
	if w.sse {
		ex.id = ""                                // the GET is the connection itself, and brings all answers
		ex.inSession = !ex.get && w.opened.Load() // its URL names the session
	} else {
		ex.standing = ex.get && ex.cp == nil || ex.method == methodListen
	}
	switch {
	case ex.cp == nil:
	case ex.method == methodCancelled:
		ex.cp, ex.call = nil, ex.cp
	default:
		ex.cp.begin(ex.id)
		if ex.id != "" {
			w.pending.Store(ex.id, ex.cp)
			ex.cp.onAnswer(func() { w.pending.Delete(ex.id) })
		}
	}
	return ex
}

// endOfStream is how long a stream may stay open after the answer of a call, which ends
// it (2025-11-25, "Sending Messages to the Server"): the end is there at once, or never.
const endOfStream = time.Second

// ending is the context of the request. A call ends when it has its answer, but a
// stream that brought it is read to its end: else the TCP connection were lost.
func (ex *exchange) ending(ctx context.Context) (context.Context, context.CancelFunc) {
	if ex.cp == nil || ex.cp.run == nil {
		return context.WithCancel(ctx)
	}
	out, cancel := context.WithCancel(context.WithoutCancel(ctx))
	untie := context.AfterFunc(ctx, func() {
		if !ex.cp.taken() {
			cancel()
			return
		}
		timer := time.AfterFunc(endOfStream, cancel)
		context.AfterFunc(out, func() { timer.Stop() })
	})
	return out, func() { untie(); cancel() }
}

// replyTo gives what answers a request of the server that came on the stream of ex.
func (w *wire) replyTo(ex *exchange, id string) func(context.Context, json.RawMessage, *jsonrpc.Error) error {
	return func(ctx context.Context, result json.RawMessage, refusal *jsonrpc.Error) error {
		answer := struct {
			Version string          `json:"jsonrpc"`
			ID      json.RawMessage `json:"id"`
			Result  json.RawMessage `json:"result,omitempty"`
			Error   *jsonrpc.Error  `json:"error,omitempty"`
		}{"2.0", json.RawMessage(id), result, refusal}
		body, err := json.Marshal(answer)
		if err != nil {
			return err
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.origin.String(), bytes.NewReader(body))
		if err != nil {
			return err
		}
		for _, name := range []string{headerSession, headerVersion} { // of which it is
			if value := ex.header.Get(name); value != "" {
				req.Header.Set(name, value)
			}
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		resp, err := w.client.Do(req)
		if err != nil {
			return err
		}
		resp.Body.Close()
		if resp.StatusCode >= 300 {
			return &statusError{code: resp.StatusCode}
		}
		return nil
	}
}

// noStream answers that there is no standing stream, in the place of a server
// that did not answer. The SDK would repeat the request, and neither Connect nor
// Close return meanwhile.
func noStream(req *http.Request) *http.Response {
	return &http.Response{
		StatusCode: http.StatusMethodNotAllowed, Header: http.Header{},
		Body: http.NoBody, Request: req, ProtoMajor: 1, ProtoMinor: 1,
	}
}
