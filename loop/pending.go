package loop

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"time"

	"github.com/mcp-via-llm/mcp-via-llm/sessions"
)

// pend stores the record of a mixed turn and starts its hidden calls. They go on
// when the turn has ended, for as long as the record may live.
func (s *session) pend(ctx context.Context, anchor string, r *record, run func(context.Context, heldCall) Result) error {
	r.attempt = rand.Text()
	owner := rand.Text()
	lease, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	if _, err := s.store.Acquire(lease, s.scope, leaseName(r.attempt), owner, leaseTTL); err != nil {
		return err
	}
	if err := s.keep(ctx, anchor, r); err != nil {
		return err
	}
	s.bury(ctx, anchor, r)
	s.event(EventPending)
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	unhook := context.AfterFunc(s.ctx, stop)
	s.running.Go(func() {
		defer stop()
		defer unhook()
		s.execute(background, anchor, owner, r, r.missing(), run)
	})
	return nil
}

// bury keeps what tells of a mixed turn after its record has expired.
func (s *session) bury(ctx context.Context, anchor string, r *record) {
	fields, err := encodeRecord(r)
	if err == nil {
		err = s.store.Put(ctx, s.scope, graveKey(anchor), fields, 2*s.ttl)
	}
	if err != nil {
		s.log.Warn("a mixed turn will not be known as expired", "err", err)
	}
}

// execute runs calls of a record and stores each result as it comes. A record
// that is gone, or a lease that somebody else has, ends the calls.
func (s *session) execute(ctx context.Context, anchor, owner string, r *record, places []int, run func(context.Context, heldCall) Result) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var beat sync.WaitGroup
	beat.Go(func() { s.beat(ctx, cancel, anchor, owner, r.attempt) })
	var calls sync.WaitGroup
	for _, i := range places {
		calls.Go(func() {
			result := run(ctx, r.calls[i])
			if ctx.Err() != nil && result.Outcome == "cancelled" {
				return // whoever goes on decides what became of it
			}
			s.settle(anchor, r, i, result)
		})
	}
	calls.Wait()
	cancel(nil)
	beat.Wait()
	s.release(ctx, owner, r)
}

// release gives the lease back. It must not end with the turn: a resume waits for it.
func (s *session) release(ctx context.Context, owner string, r *record) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTime)
	defer cancel()
	if err := s.store.Release(ctx, s.scope, leaseName(r.attempt), owner); err != nil {
		s.log.Debug("a lease was not given back and will lapse", "err", err)
	}
}

// settle stores the result of one hidden call, trying again for as long as a
// store that restarts may need.
func (s *session) settle(anchor string, r *record, place int, result Result) {
	fields, err := encodeResult(r.attempt, place, result)
	for try := 0; err == nil && try < settleTries; try++ {
		if try > 0 {
			select {
			case <-time.After(time.Second):
			case <-s.ctx.Done():
				return
			}
		}
		if s.settleOnce(s.ctx, anchor, r, place, fields) == nil {
			return
		}
	}
	s.log.Warn("the result of a mixed turn's call could not be stored", "tool", r.calls[place].name)
}

const settleTries = 30

// settleOnce stores a result, unless the record is gone or has one: what the model
// was told once, such as that nobody knows, it is told again.
func (s *session) settleOnce(ctx context.Context, anchor string, r *record, place int, fields sessions.Fields) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	found, err := s.store.Load(ctx, s.scope, 0, turnKey(anchor))
	if err != nil {
		return err
	}
	if _, there := found[0][resultField(r.attempt, place)]; there || found[0] == nil {
		s.log.Debug("a result came too late")
		return nil
	}
	_, err = s.store.Update(ctx, s.scope, turnKey(anchor), fields, s.ttl)
	return err
}

// beat renews the lease until ctx ends. When the record or the lease is lost it
// cancels the calls.
func (s *session) beat(ctx context.Context, cancel context.CancelCauseFunc, anchor, owner, attempt string) {
	ticker := time.NewTicker(min(heartbeat, s.ttl))
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		held, err := s.store.Renew(ctx, s.scope, leaseName(attempt), owner, leaseTTL)
		if err == nil && !held {
			cancel(errors.New("another replica has taken the calls over"))
			return
		}
		found, err := s.store.Load(ctx, s.scope, 0, turnKey(anchor)) // looking on does not make it live longer
		if err == nil && found[0] == nil {
			cancel(errors.New("the record of the mixed turn is gone"))
			return
		}
	}
}

// await waits until all hidden calls of a record have results. Calls of a replica
// that is gone are run again where that does no harm; of the others the model is
// told that nobody knows.
func (s *session) await(ctx context.Context, anchor string, r *record, run func(context.Context, heldCall) Result) error {
	if len(r.missing()) == 0 {
		return nil
	}
	changed, stop := s.store.Watch(s.scope, turnKey(anchor))
	defer stop()
	poll := time.NewTicker(pollEvery)
	defer poll.Stop()
	for {
		found, err := s.load(ctx, turnKey(anchor))
		if err != nil {
			return err
		}
		if found[0] == nil {
			s.event(EventExpired)
			return nil
		}
		if r.take(found[0]); len(r.missing()) == 0 {
			s.event(EventResumed)
			return nil
		}
		if err := s.takeOver(ctx, anchor, r, run); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-changed:
		case <-poll.C:
		}
	}
}

// takeOver does nothing as long as the record's calls have an owner.
func (s *session) takeOver(ctx context.Context, anchor string, r *record, run func(context.Context, heldCall) Result) error {
	owner := rand.Text()
	got, err := s.store.Acquire(ctx, s.scope, leaseName(r.attempt), owner, leaseTTL)
	if err != nil || !got {
		return err
	}
	again, err := s.sortOut(ctx, anchor, r)
	if err != nil {
		s.release(ctx, owner, r) // whoever tries again need not wait for it
		return err
	}
	s.execute(ctx, anchor, owner, r, again, run)
	return nil
}

// sortOut gives the calls without a result that are to be run again, and notes of
// the others that nobody knows.
func (s *session) sortOut(ctx context.Context, anchor string, r *record) (again []int, err error) {
	found, err := s.load(ctx, turnKey(anchor)) // the last owner may just have finished
	if err != nil || found[0] == nil {
		return nil, err
	}
	if err := r.take(found[0]); err != nil {
		return nil, err
	}
	missing := r.missing()
	if len(missing) > 0 {
		s.event(EventTakenOver)
	}
	for _, i := range missing {
		if r.calls[i].repeatable {
			again = append(again, i)
			continue
		}
		fields, err := encodeResult(r.attempt, i, Result{Text: noticeUnknown, Outcome: "unknown"})
		if err == nil {
			err = s.settleOnce(ctx, anchor, r, i, fields)
		}
		if err != nil {
			return nil, err
		}
	}
	return again, nil
}
