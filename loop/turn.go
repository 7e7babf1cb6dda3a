package loop

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/mcp-via-llm/mcp-via-llm/chat"
)

// turn is one client request and its response.
type turn struct {
	h      *handler
	w      http.ResponseWriter
	r      *http.Request
	client *Client
	req    *chat.Request
	tools  Tools

	start  time.Time
	rec    record
	added  [][]byte // messages put after the client's own, for the model only
	acted  bool     // an MCP call ran that may have changed something
	status int      // of the provider's first answer, if that was not streamed

	// One of the two makes the client's answer out of those of the segments.
	relay  *chat.Relay
	whole  *chat.Whole
	answer *answer
}

func newTurn(h *handler, w http.ResponseWriter, r *http.Request, c *Client, req *chat.Request, tools Tools) *turn {
	t := &turn{h: h, w: w, r: r, client: c, req: req, tools: tools, start: time.Now(), answer: newAnswer(w, h.MaxResponseBytes)}
	dialect := chat.Dialects[c.Dialect]
	known := func(name string) bool { return tools.Has(name) || slices.Contains(req.Names, name) }
	t.relay = &chat.Relay{Known: known, Hidden: t.hidden, Usage: req.Usage, Dialect: dialect, Requested: req.Model}
	t.whole = &chat.Whole{Hidden: t.hidden, Dialect: dialect}
	t.rec.report = Report{ID: r.Header.Get("X-Request-Id"), Client: c.Name, Model: req.Model, Stream: req.Stream, Start: t.start,
		Unavailable: tools.Unavailable(), Segments: []SegmentReport{}, Calls: []CallReport{}}
	return t
}

// hidden says whether a call of a function stays inside. The client's own names
// are the client's; a name that nobody knows is too, if the client has functions
// and the name is not in our namespace. Anything else is for us to answer.
func (t *turn) hidden(name string) bool {
	switch {
	case t.tools.Has(name):
		return true
	case slices.Contains(t.req.Names, name):
		return false
	}
	return len(t.req.Names) == 0 || t.tools.Owns(name)
}

func (t *turn) run() {
	ctx := t.r.Context()
	if t.client.LoopTimeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, t.client.LoopTimeout, errLoopTimeout)
		defer cancel()
	}
	if t.req.Stream && t.client.Keepalive > 0 {
		idle, stop := context.WithCancel(ctx)
		var wg sync.WaitGroup
		wg.Go(func() { t.answer.keepAlive(idle, t.client.Keepalive) })
		defer wg.Wait()
		defer stop()
	}
	if err := t.loop(ctx); errors.Is(err, errCopied) {
		t.end(StopError, t.rec.report.Segments[0].Status, err)
	} else if err != nil {
		t.fail(ctx, err)
	}
}

// loop goes from segment to segment until there is an answer for the client.
func (t *turn) loop(ctx context.Context) error {
	dialect := chat.Dialects[t.client.Dialect]
	edit := chat.Edit{Tools: t.tools.JSON(), AskUsage: !dialect.NoUsage}
	for round := 1; ; round++ {
		last := round > t.client.MaxIterations
		if last && len(edit.Tools) > 0 {
			edit.Choice = chat.NoCalls
		}
		reply, err := t.segment(ctx, t.req.Build(edit))
		if err != nil {
			return err
		}
		hidden, own := t.split(reply.Calls)
		if len(hidden) == 0 || last || reply.CutShort() {
			return t.finish(reply, own, last)
		}
		results := t.runCalls(ctx, hidden)
		if err := ctx.Err(); err != nil {
			return err
		}
		if len(own) > 0 {
			return t.finish(reply, own, last)
		}
		t.added = append(t.added, []byte(reply.Message))
		for i, call := range hidden {
			t.added = append(t.added, chat.ToolMessage(call.ID, results[i].Text))
		}
		edit.Append, edit.Choice = t.added, chat.FreeChoice
	}
}

// split parts the calls that stay inside from those that the client gets.
func (t *turn) split(calls []chat.Call) (hidden, own []chat.Call) {
	for _, c := range calls {
		if t.hidden(c.Name) {
			hidden = append(hidden, c)
		} else {
			own = append(own, c)
		}
	}
	return hidden, own
}

// finish gives the client the end of its answer.
func (t *turn) finish(reply *chat.Reply, own []chat.Call, capped bool) error {
	stop, reason := StopAnswer, reply.Finish
	switch {
	case len(own) > 0:
		stop = StopClientCalls
		if !reply.CutShort() {
			reason = "tool_calls"
		}
	case reason == "" || reason == "tool_calls":
		reason = "stop"
	}
	if capped && len(own) == 0 {
		stop = StopMaxIterations
	}
	t.rec.report.ClientCalls = len(own)
	extensions := t.rec.extensions(stop)
	if t.req.Stream {
		t.answer.seize()
		for _, data := range append(t.relay.Finish(reason, t.rec.usage, extensions), "[DONE]") {
			if err := t.answer.final(data); err != nil {
				return err
			}
		}
		t.end(stop, http.StatusOK, nil)
		return nil
	}
	body := t.whole.Finish(reason, t.rec.usage, extensions)
	if int64(len(body)) > t.h.MaxResponseBytes {
		return errTooLarge
	}
	for _, name := range chat.BodyHeaders {
		t.w.Header().Del(name)
	}
	t.w.Header().Set("Content-Type", "application/json")
	t.w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	t.w.WriteHeader(t.status)
	if _, err := t.w.Write(body); err != nil {
		return err
	}
	t.end(stop, t.status, nil)
	return nil
}

// end closes the report.
func (t *turn) end(stop string, status int, err error) {
	r := &t.rec.report
	r.Duration, r.Status, r.StopReason, r.Usage = time.Since(t.start), status, stop, json.RawMessage(t.rec.usage)
	if len(t.rec.usage) == 0 {
		r.Usage = nil
	}
	if err != nil {
		r.Error = err.Error()
	}
	t.h.OnTurn(r)
}
