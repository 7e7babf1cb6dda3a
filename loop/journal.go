package loop

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/mcp-via-llm/mcp-via-llm/chat"
	"github.com/mcp-via-llm/mcp-via-llm/excerpt"
	"github.com/mcp-via-llm/mcp-via-llm/sessions"
)

// journal guards one attempt at a turn: each MCP call is stored as it finishes.
// While the attempt lives the journal is its own, however many requests begin
// with the same words. When it breaks (an error, a disconnect, a replica that
// dies) the same request sent again claims the journal, once, and goes on from
// there: nothing that finished runs twice. A turn that ends well leaves none.
type journal struct {
	s       *session
	bag     string // of all attempts at this request
	attempt string // "" until it is needed, as is the owner
	owner   string
	abort   context.CancelCauseFunc // ends the attempt when another one has taken its journal over
	listed  []string                // attempts that were in the bag a moment ago; nil: look

	written bool // its first segment is in the store
	patient bool // the client says that it sent this request before

	rounds []journalRound // what a claimed journal has

	mu   sync.Mutex
	open bool // it is in the store
	lost bool // something that happened is not in it
	end  func()
}

// journalRound is a segment with hidden calls, and what became of them. The last
// one may be that of a mixed turn, whose calls have a record of their own.
type journalRound struct {
	message, finish, usage string // of the model's reply
	results                map[int]Result
	asks                   map[int]bool // calls that run only when the user has agreed, by place
	targets                []string     // of the calls, as heldCall has them
	pause                  *pause       // how the turn ended with this segment; nil if it did not come to that
}

// unanswered gives the calls that run only when the user has agreed, as long as
// nothing else became of them.
func (r *journalRound) unanswered() map[int]bool {
	asks := map[int]bool{}
	for i := range r.asks {
		if _, done := r.results[i]; !done {
			asks[i] = true
		}
	}
	return asks
}

// newJournal makes the journal of an attempt at a request.
func newJournal(s *session, request string) *journal {
	return &journal{s: s, bag: "b:" + request, abort: func(error) {}, end: func() {}}
}

// name gives the attempt a name and an owner: most turns have no journal and need none.
func (j *journal) name() {
	if j.attempt == "" {
		j.attempt, j.owner = rand.Text(), rand.Text()
	}
}

var errTakenOver = errors.New("the same request was sent again and goes on from this turn's journal")

func (j *journal) key() string   { return "j:" + j.attempt }
func (j *journal) lease() string { return "a:" + j.attempt }

// claim takes over the journal of a broken attempt, if there is one. A replica
// that was killed holds its lease for a while: a request that was sent before
// waits for that, and others begin afresh. waits is told when the claim begins to wait,
// and what it gives when that is over.
func (j *journal) claim(ctx context.Context, waits func() (over func())) error {
	waiting := false
	for end := time.Now().Add(leaseTTL + pollEvery); ; {
		alive, err := j.tryClaim(ctx)
		if err != nil || len(j.rounds) > 0 || !alive || !j.patient || time.Now().After(end) {
			return err
		}
		if !waiting {
			waiting = true
			defer waits()()
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pollEvery):
		}
	}
}

// tryClaim says whether other attempts at the request are alive.
func (j *journal) tryClaim(ctx context.Context) (alive bool, err error) {
	ctx, cancel := j.s.inTime(ctx)
	defer cancel()
	attempts := j.listed
	if j.listed = nil; attempts == nil {
		if attempts, err = j.s.store.Members(ctx, j.s.scope, j.bag); err != nil {
			return false, err
		}
	}
	if len(attempts) == 0 {
		return false, nil
	}
	j.name()
	fresh := j.attempt
	defer func() {
		if len(j.rounds) == 0 {
			j.attempt = fresh // never that of somebody else
		}
	}()
	for _, attempt := range attempts {
		j.attempt = attempt
		// An attempt that lives has its lease; whoever gets it is alone with it.
		got, err := j.s.store.Acquire(ctx, j.s.scope, j.lease(), j.owner, leaseTTL)
		if err != nil {
			return false, err
		}
		if !got {
			alive = true
			continue
		}
		found, err := j.s.load(ctx, j.key())
		if err != nil {
			return false, err
		}
		rounds, err := decodeJournal(found[0])
		if err == nil && len(rounds) > 0 {
			j.rounds, j.written = rounds, true
			j.begun()
			j.s.event(EventClaimed)
			return false, nil
		}
		// Nothing to go on from: a turn that ended well, or one that expired.
		if _, err := j.s.store.Remove(ctx, j.s.scope, j.bag, attempt); err != nil {
			return false, err
		}
		if err := j.s.store.Release(ctx, j.s.scope, j.lease(), j.owner); err != nil {
			return false, err
		}
	}
	return alive, nil
}

// begun says that the journal is in the store, and keeps its lease.
func (j *journal) begun() {
	ctx, cancel := context.WithCancel(context.Background())
	stop := repeat(heartbeat, func() time.Duration {
		held, err := j.s.store.Renew(ctx, j.s.scope, j.lease(), j.owner, leaseTTL)
		if err == nil && !held { // taken over, or erased with all else of the client
			held, err = j.s.store.Acquire(ctx, j.s.scope, j.lease(), j.owner, leaseTTL)
		}
		if err == nil && !held {
			j.abort(errTakenOver)
			return 0
		}
		return heartbeat
	})
	j.open, j.end = true, func() { cancel(); stop() }
}

// segment notes a reply whose calls are about to run, save those in asks. place
// counts from 0.
func (j *journal) segment(ctx context.Context, place int, reply *chat.Reply, asks map[int]bool, targets []string) {
	fields, err := encodeSegment(place, reply, asks, targets)
	if err == nil && !j.open {
		j.name()
		if err = j.store(ctx, func(ctx context.Context) error {
			if _, err := j.s.store.Acquire(ctx, j.s.scope, j.lease(), j.owner, leaseTTL); err != nil {
				return err
			}
			return j.s.store.Add(ctx, j.s.scope, j.bag, j.attempt, j.s.ttl)
		}); err == nil {
			j.begun()
		}
	}
	j.note(ctx, j.write(ctx, fields, err))
}

var errErased = errors.New("the turn's journal was erased")

// write adds to the journal, unless an earlier step has failed with err. What was
// erased stays so.
func (j *journal) write(ctx context.Context, fields sessions.Fields, err error) error {
	if err != nil {
		return err
	}
	return j.store(ctx, func(ctx context.Context) error {
		if !j.written {
			j.written = true
			return j.s.store.Put(ctx, j.s.scope, j.key(), fields, j.s.ttl)
		}
		there, err := j.s.store.Update(ctx, j.s.scope, j.key(), fields, j.s.ttl)
		if err == nil && !there {
			err = errErased
		}
		return err
	})
}

// call notes the result of a call. It is stored even if the turn has just been
// cancelled: what has happened must not happen again.
func (j *journal) call(ctx context.Context, segment, place int, result Result) {
	fields, err := encodeCall(segment, place, result)
	j.note(ctx, j.write(ctx, fields, err))
}

// pause notes how the turn is about to end with a segment, before anything comes
// of it: sent again, the request finds what was begun.
func (j *journal) pause(ctx context.Context, segment int, p *pause) {
	fields, err := encodePause(segment, p)
	j.note(ctx, j.write(ctx, fields, err))
}

func (j *journal) store(ctx context.Context, do func(context.Context) error) error {
	if j.isLost() {
		return nil // one wait for a store that is away is enough for a turn
	}
	ctx, cancel := j.s.inTime(context.WithoutCancel(ctx))
	defer cancel()
	return do(ctx)
}

func (j *journal) note(ctx context.Context, err error) {
	if err == nil {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.lost {
		j.s.log.WarnContext(ctx, "a turn has no journal: if it breaks, its calls may run again", "err", err)
	}
	j.lost = true
}

func (j *journal) isLost() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.lost
}

// answerTime is how long a journal outlives its turn: when the turn has ended, the
// end of its answer is still on its way. A replica that is killed then leaves a
// journal, since the client may never have had the answer.
const answerTime = 100 * time.Millisecond

// done ends the journal of a turn that ended well, in the background.
func (j *journal) done(ctx context.Context) {
	if !j.open {
		return
	}
	j.s.running.Go(func() {
		select {
		case <-time.After(answerTime):
		case <-j.s.closing.Done():
		}
		j.end()
		err := j.store(ctx, func(ctx context.Context) error {
			if _, err := j.s.store.Remove(ctx, j.s.scope, j.bag, j.attempt); err != nil {
				return err
			}
			if err := j.s.store.Delete(ctx, j.s.scope, j.key()); err != nil {
				return err
			}
			return j.s.store.Release(ctx, j.s.scope, j.lease(), j.owner)
		})
		if err != nil {
			j.s.log.WarnContext(ctx, "the journal of a turn that ended is left over", "err", err)
		}
	})
}

// refusedField says that the provider would not have the turn as it is.
const refusedField = "refused"

// refusedMax is what stays of a result of a turn that the provider refused.
const refusedMax = 2 << 10

// refused notes that the provider refused the request with the results in it: most
// often they do not fit the model's context. The same request sent again has the
// calls run as little as after any failure, but what they gave is cut short, or
// it would be refused for ever.
func (j *journal) refused(ctx context.Context, err error) {
	var answer *statusError
	refused := errors.As(err, &answer) && answer.status == http.StatusBadRequest // whatever it says: it would be the same again
	if !j.written || !refused && !overflowed(err) {
		return
	}
	j.note(ctx, j.write(ctx, sessions.Fields{refusedField: []byte("1")}, nil))
}

// shorten makes of a refused turn's results what the provider may take.
func (r Result) shorten() Result {
	r.Text, r.Images = excerpt.Of(r.Text, refusedMax), nil
	return r
}

// broken leaves the journal to whoever sends the request again.
func (j *journal) broken(ctx context.Context) {
	if !j.open {
		return
	}
	j.end()
	if err := j.store(ctx, func(ctx context.Context) error {
		return j.s.store.Release(ctx, j.s.scope, j.lease(), j.owner)
	}); err != nil {
		j.s.log.DebugContext(ctx, "a journal's lease was not given back and will lapse", "err", err)
	}
}
