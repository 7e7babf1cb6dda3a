package loop

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcp-via-llm/mcp-via-llm/sessions"
)

// Memory is what the model has seen and clients have not, and the MCP calls of
// mixed turns that run while the client is at its own. It outlives handlers, and
// with a shared store it is the same on every replica.
type Memory struct {
	store sessions.Store
	log   *slog.Logger
	event func(event string) // counts; never nil
	local bool               // the store is in this process: no operation has to be given up

	ctx     context.Context // of calls in the background
	stop    context.CancelFunc
	closing context.Context // ends as Close begins
	close   context.CancelFunc
	running sync.WaitGroup

	pendingTurns, pendingCalls atomic.Int64
}

// Pending counts the mixed turns whose MCP calls run in the background now, and
// those calls.
func (m *Memory) Pending() (turns, calls int) {
	return int(m.pendingTurns.Load()), int(m.pendingCalls.Load())
}

// Events that a Memory counts.
const (
	EventHit       = "hit"        // a visible message was replaced by what the model had seen
	EventMiss      = "miss"       // a visible message with nothing behind it
	EventEdited    = "edited"     // one whose text the client has changed
	EventPending   = "pending"    // calls of a turn that goes on with another request of the client began, or wait for the user
	EventResumed   = "resumed"    // its resume found the results
	EventExpired   = "expired"    // its resume found that they had expired
	EventApproved  = "approved"   // the user agreed to calls
	EventDenied    = "denied"     // the user agreed to none of them, or too late
	EventTakenOver = "taken_over" // its resume went on with the calls of a replica that was gone
	EventClaimed   = "claimed"    // a turn went on from the journal of one that broke
	EventDegraded  = "degraded"   // the store was away and the turn went on without it
)

// Events are all of them.
var Events = []string{
	EventHit, EventMiss, EventEdited, EventPending, EventResumed, EventExpired, EventApproved, EventDenied, EventTakenOver, EventClaimed, EventDegraded,
}

const (
	leaseTTL  = 15 * time.Second       // a replica that is silent for so long is gone
	heartbeat = leaseTTL / 3           // how often a lease is renewed
	pollEvery = 500 * time.Millisecond // how often a resume looks, besides being told
	storeTime = 250 * time.Millisecond // what a store that is away may cost
)

// NewMemory makes the memory over a store. event is told what happens; it may be nil.
func NewMemory(store sessions.Store, log *slog.Logger, event func(string)) *Memory {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	if event == nil {
		event = func(string) {}
	}
	m := &Memory{store: store, log: log, event: event}
	_, _, m.local = sessions.Size(store)
	m.ctx, m.stop = context.WithCancel(context.Background())
	m.closing, m.close = context.WithCancel(m.ctx)
	return m
}

// Close waits for the calls in the background until ctx ends, and then cancels
// them: other replicas find them without an owner.
func (m *Memory) Close(ctx context.Context) {
	m.close()
	done := make(chan struct{})
	go func() { m.running.Wait(); close(done) }()
	select {
	case <-done:
	case <-ctx.Done():
	}
	m.stop()
	<-done
}

// inTime gives a context in which what a store that is away may cost is bounded.
func (m *Memory) inTime(ctx context.Context) (context.Context, context.CancelFunc) {
	if m.local {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, storeTime)
}

// session is where a turn finds its memory.
type session struct {
	*Memory
	scope sessions.Scope
	ttl   time.Duration
}

// recall finds the records of a conversation's replies, by place. If the request
// brings results of calls whose record has expired, it finds what is left of it.
// Where it looks at all it also lists the bag; else the members are nil.
func (s *session) recall(ctx context.Context, c *conversation, bag string) (_ map[int]*record, members []string, _ error) {
	replies := c.replies()
	if len(replies) == 0 {
		return nil, nil, nil
	}
	found, members, err := s.find(ctx, c, replies, bag)
	if err != nil {
		return nil, nil, err
	}
	out, last := map[int]*record{}, replies[len(replies)-1]
	for i, fields := range found {
		at := replies[i]
		r, err := decodeRecord(fields)
		switch {
		case err != nil:
			s.log.WarnContext(ctx, "a stored record cannot be read", "err", err)
			s.event(EventMiss)
		case r == nil && at == last && c.endsInResult():
			if out[at], err = s.expired(ctx, c.anchor(at)); err != nil {
				return nil, nil, err
			}
			if out[at] == nil {
				delete(out, at)
				s.event(EventMiss)
			}
		case r == nil:
			s.event(EventMiss)
		case r.edited(c.messages[at]):
			s.event(EventEdited)
		default:
			s.event(EventHit)
			out[at] = r
		}
	}
	return out, members, nil
}

// expired finds what is left of a mixed turn whose record is gone: its calls, and
// no results.
func (s *session) expired(ctx context.Context, anchor string) (*record, error) {
	found, err := s.load(ctx, graveKey(anchor))
	if err != nil {
		return nil, err
	}
	r, err := decodeRecord(found[0])
	if r != nil {
		r.buried = true
		s.event(EventExpired)
	}
	return r, err
}

// keep stores the record of a turn that has ended.
func (s *session) keep(ctx context.Context, anchor string, r *record) error {
	fields, err := encodeRecord(r)
	if err != nil {
		return err
	}
	ctx, cancel := s.inTime(ctx)
	defer cancel()
	return s.store.Put(ctx, s.scope, turnKey(anchor), fields, s.ttl)
}

func (s *session) load(ctx context.Context, keys ...string) ([]sessions.Fields, error) {
	found, err := s.store.Load(ctx, s.scope, s.ttl, keys...)
	if err == nil {
		err = complete(found, keys)
	}
	return found, err
}

func complete(found []sessions.Fields, keys []string) error {
	if len(found) != len(keys) {
		return fmt.Errorf("the store gave %d records for %d keys", len(found), len(keys))
	}
	return nil
}

func turnKey(anchor string) string  { return "t:" + anchor }
func graveKey(anchor string) string { return "x:" + anchor }

// leaseName is of the calls of a record that the user is asked about, or of the
// others: they begin at different times.
func leaseName(attempt string, asked bool) string {
	if asked {
		return "y:" + attempt
	}
	return "o:" + attempt
}
