package sessions

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// opTimeout bounds one operation with all its retries, so that with the node
	// then taken for down a turn loses less than 250 ms.
	opTimeout = 200 * time.Millisecond
	// lateAfter is how long after its caller has given up an operation may still
	// run: room for clocks that go apart a little.
	lateAfter = time.Second
	// maxTries and retryPause bound the wait for a node that says it is loading
	// or no longer the primary, maxReconnects that for one that says nothing.
	maxTries      = 5
	maxReconnects = 2
	retryPause    = 20 * time.Millisecond
)

//go:embed redis.lua
var source string

var script = redis.NewScript(source)

// call is one operation of the script.
type call struct {
	op    string
	keys  []string // all in one hash slot
	args  []any
	once  bool // must not run twice, even if the first reply was lost
	soft  bool // may fail without failing the others it is sent with
	whole bool // send the script, not its hash
}

// job is a call on its way.
type job struct {
	call
	node  *node
	again bool
	cmd   *redis.Cmd
}

var errNoReply = errors.New("no reply")

// sent is a command that go-redis does not retry by itself, for it cannot know
// which may run twice.
type sent struct{ *redis.Cmd }

func (sent) NoRetry() bool { return true }

// run sends calls in one round trip and gives their replies in order.
func (r *Redis) run(parent context.Context, calls ...call) ([]any, error) {
	if err := parent.Err(); err != nil {
		return nil, err
	}
	if r.ctx.Err() != nil {
		return nil, fmt.Errorf("%w: closed", ErrUnavailable)
	}
	ctx, cancel := context.WithTimeout(parent, opTimeout)
	defer cancel()
	jobs := make([]*job, 0, len(calls))
	for _, c := range calls {
		n, err := r.nodeOf(ctx, c.keys[0])
		if err == nil {
			err = n.refusal()
		}
		switch {
		case err == nil:
			jobs = append(jobs, &job{call: c, node: n, again: true})
		case !c.soft:
			return nil, r.failed(parent, c, n, err)
		}
	}
	r.exec(ctx, jobs)
	replies := make([]any, len(jobs))
	var failure error
	for i, j := range jobs {
		err := j.cmd.Err()
		if err != nil {
			if err = r.failed(parent, j.call, j.node, err); !j.soft && failure == nil {
				failure = err
			}
		}
		replies[i] = j.cmd.Val()
	}
	return replies, failure
}

// exec sends jobs until each has a reply or an error that stays.
func (r *Redis) exec(ctx context.Context, jobs []*job) {
	for try := range maxTries {
		pipe := r.client.Pipeline()
		for _, j := range jobs {
			if j.again {
				j.cmd = r.command(ctx, j)
				_ = pipe.Process(ctx, sent{j.cmd})
			}
		}
		if pipe.Len() == 0 {
			return
		}
		_, err := pipe.Exec(ctx)
		var pause time.Duration
		for _, j := range jobs {
			if j.again {
				j.again = false
				if j.cmd.Err() == nil && j.cmd.Val() == nil {
					// go-redis gives the refusal of a log-in to nobody but Exec. The
					// script itself always replies with something.
					j.cmd.SetErr(cmp.Or(err, errNoReply))
				}
				pause = max(pause, j.judge(try))
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

func (r *Redis) command(ctx context.Context, j *job) *redis.Cmd {
	late := time.Now().Add(lateAfter)
	if end, ok := ctx.Deadline(); ok {
		late = end.Add(lateAfter)
	}
	args := make([]any, 0, 5+len(j.keys)+len(j.args))
	if j.whole {
		args = append(args, "eval", source, len(j.keys))
	} else {
		args = append(args, "evalsha", script.Hash(), len(j.keys))
	}
	for _, key := range j.keys {
		args = append(args, key)
	}
	args = append(args, j.op, late.UnixMilli()+j.node.ahead.Load())
	return redis.NewCmd(ctx, append(args, j.args...)...)
}

// judge looks at what came back: whether to send the job again, and when.
func (j *job) judge(try int) (pause time.Duration) {
	err := j.cmd.Err()
	if err == nil {
		return 0
	}
	var reply redis.Error
	if !errors.As(err, &reply) {
		// Broken, often before this command: a pooled connection to a server that
		// has restarted. What was never sent may be sent again in any case.
		var dialing *net.OpError
		unsent := errors.As(err, &dialing) && dialing.Op == "dial"
		j.again = (!j.once || unsent) && try < maxReconnects && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled)
		return time.Duration(try) * retryPause
	}
	text := reply.Error()
	switch {
	case strings.HasPrefix(text, "NOSCRIPT"):
		j.again, j.whole = true, true
	case strings.HasPrefix(text, "LATE "):
		// The reply was not late, so the clocks differ.
		if now, e := strconv.ParseInt(strings.Fields(text)[1], 10, 64); e == nil {
			j.again = true
			j.node.ahead.Store(now - time.Now().UnixMilli())
		}
	case unready(text):
		j.again = true
		return retryPause
	}
	return 0
}

// unready says whether a server has refused a command because it is not, not yet
// or no longer the one to ask. It has then run nothing of it.
func unready(text string) bool {
	for _, code := range []string{"READONLY", "LOADING", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "NOREPLICAS", "BUSY ", "ERR max number of clients"} {
		if strings.HasPrefix(text, code) || strings.Contains(text, "-"+code) {
			return true
		}
	}
	return false
}

// failed makes the caller's error of what befell a call, and takes the node for
// down if that is what it means.
func (r *Redis) failed(parent context.Context, c call, n *node, err error) error {
	if ended := parent.Err(); ended != nil {
		return ended
	}
	var reply redis.Error
	if !errors.As(err, &reply) || unready(reply.Error()) || redis.IsAuthError(err) {
		r.trip(n, c.keys[0], err)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("no answer within %v", opTimeout)
	}
	return fmt.Errorf("%w: %s: %v", ErrUnavailable, c.op, err)
}
