package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"
)

// captureConn serves captures, and hears the server, on transports where all
// messages arrive on one stream: stdio and 2024-11-05. (The SDK wants its own
// connection type for Streamable HTTP; there the RoundTripper does it.)
type captureConn struct {
	sdk.Connection
	to      listener
	pending sync.Map // jsonrpc.ID to *capture

	mu    sync.Mutex
	asked map[string]string // methods of the requests without an answer, by raw id
}

// listener is told what a server sends. A session is one.
type listener interface {
	hear(incoming) bool
	answered(id string)                                             // the answer to that request came, after captures took it
	forgotten()                                                     // the server does not know the session any more
	doubted()                                                       // it may be so
	introduced(method string, odd []string, refusal *jsonrpc.Error) // how it answered initialize or server/discover, see hello
}

func (c *captureConn) Write(ctx context.Context, msg jsonrpc.Message) error {
	req, ok := msg.(*jsonrpc.Request)
	if ok {
		c.note(req)
	}
	if cp := captureOf(ctx); ok && cp != nil {
		if req.Method == methodCancelled {
			defer cp.cancelled()
		} else if req.IsCall() {
			id := req.ID
			c.pending.Store(id, cp)
			cp.begin(rawID(id))
			cp.onAnswer(func() { c.pending.Delete(id) })
		}
	}
	return c.Connection.Write(ctx, msg)
}

func (c *captureConn) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		msg, err := c.Connection.Read(ctx)
		if err != nil {
			return nil, err
		}
		switch m := msg.(type) {
		case *jsonrpc.Response:
			if !c.settle(m) {
				continue
			}
			if cp, ok := c.pending.Load(m.ID); ok {
				cp.(*capture).takeResponse(m)
			}
			c.to.answered(rawID(m.ID))
		case *jsonrpc.Request:
			heard := incoming{id: rawID(m.ID), method: m.Method, params: m.Params}
			heard.reply = func(ctx context.Context, result json.RawMessage, refusal *jsonrpc.Error) error {
				answer := &jsonrpc.Response{ID: m.ID, Result: result}
				if refusal != nil {
					answer.Error = refusal
				}
				return c.Connection.Write(ctx, answer)
			}
			if c.to.hear(heard) {
				continue
			}
		}
		return msg, nil
	}
}

// note keeps in mind what is asked.
func (c *captureConn) note(req *jsonrpc.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case req.IsCall():
		if c.asked == nil {
			c.asked = map[string]string{}
		}
		c.asked[rawID(req.ID)] = req.Method
	case req.Method == methodCancelled:
		delete(c.asked, gjson.GetBytes(req.Params, "requestId").Raw)
	}
}

// settle finds out what an answer is to. One without an id answers the only request
// that has none yet; if there are more, it is nobody's.
func (c *captureConn) settle(m *jsonrpc.Response) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if rawID(m.ID) == nobodys {
		if len(c.asked) != 1 {
			return false
		}
		for only := range c.asked {
			m.ID = idOf(only)
		}
	}
	id := rawID(m.ID)
	if method := c.asked[id]; introduces(method) {
		var odd []string
		var refusal *jsonrpc.Error
		if !errors.As(m.Error, &refusal) {
			m.Result, odd = hello(m.Result)
		}
		c.to.introduced(method, odd, refusal)
	}
	delete(c.asked, id)
	return true
}

// takeResponse is take for an answer that is decoded so far.
func (cp *capture) takeResponse(m *jsonrpc.Response) {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	if cp.over {
		return // some servers answer twice
	}
	cp.result, cp.over = m.Result, true
	if m.Error != nil { // some servers add a result of null to it
		cp.result, m.Result = nil, nil
	}
	errors.As(m.Error, &cp.rpc)
	if errors.Is(m.Error, errMessageTooLarge) {
		cp.odd = tooLarge
	}
	if errors.Is(m.Error, errBrokenJSON) {
		cp.odd = brokenJSON
	}
	if cp.run != nil && m.Result != nil {
		m.Result = json.RawMessage("{}")
	}
}
