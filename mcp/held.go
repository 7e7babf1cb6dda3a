package mcp

import (
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// holdTime is how long an answer behind other text waits for a clean one.
const holdTime = 500 * time.Millisecond

// heldAnswers are answers that stand behind other text on a line. A server may print them
// so, or quote in its log what another server told it, with an id that is ours by chance:
// then its own answer comes on a line of its own.
type heldAnswers struct {
	mu      sync.Mutex
	waiting map[jsonrpc.ID]*time.Timer
	quotes  bool // it does the latter
}

// hold has use called with an answer after a while, if no clean one comes.
func (h *heldAnswers) hold(answer *jsonrpc.Response, use func(jsonrpc.Message) bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.quotes || h.waiting[answer.ID] != nil {
		return
	}
	if h.waiting == nil {
		h.waiting = map[jsonrpc.ID]*time.Timer{}
	}
	h.waiting[answer.ID] = time.AfterFunc(holdTime, func() {
		h.mu.Lock()
		_, mine := h.waiting[answer.ID]
		delete(h.waiting, answer.ID)
		h.mu.Unlock()
		if mine {
			use(answer)
		}
	})
}

// clean drops what is held with the id of a clean answer, and believes no more of the kind.
func (h *heldAnswers) clean(id jsonrpc.ID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if timer := h.waiting[id]; timer != nil {
		timer.Stop()
		delete(h.waiting, id)
		h.quotes = true
	}
}

// end drops all.
func (h *heldAnswers) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, timer := range h.waiting {
		timer.Stop()
	}
	h.waiting, h.quotes = nil, true
}
