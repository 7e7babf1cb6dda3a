package sessions

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// probeEvery is how often a node that is taken for down is tried, in the
// background: a turn never waits to find out.
const probeEvery = 250 * time.Millisecond

// node is what is known of one Redis server, or of all behind one address.
type node struct {
	addr  string       // of a primary of a cluster, else empty
	ahead atomic.Int64 // its clock minus ours, in milliseconds, if that matters

	mu   sync.Mutex
	down error // why it is not asked, nil if it is
}

// errDown marks a refusal by ourselves, which proves nothing new.
var errDown = errors.New("not asked")

func (n *node) refusal() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.down != nil {
		return fmt.Errorf("%w since: %v", errDown, n.down)
	}
	return nil
}

// nodeOf gives the node that has a key. In a cluster of which nothing is known
// yet and nothing can be learnt it gives the one that stands for all.
func (r *Redis) nodeOf(ctx context.Context, key string) (*node, error) {
	all := r.node("")
	if r.cluster == nil {
		return all, nil
	}
	if err := all.refusal(); err != nil {
		return all, err
	}
	primary, err := r.cluster.MasterForKey(ctx, key)
	if err != nil {
		return all, err
	}
	return r.node(primary.Options().Addr), nil
}

func (r *Redis) node(addr string) *node {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.nodes[addr]
	if n == nil {
		n = &node{addr: addr}
		r.nodes[addr] = n
	}
	return n
}

// trip takes a node for down until a probe with a key of its own gets through.
func (r *Redis) trip(n *node, key string, cause error) {
	if errors.Is(cause, errDown) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.down != nil || r.ctx.Err() != nil {
		return
	}
	n.down = cause
	r.probing.Go(func() { r.probe(n, key) })
}

// probe ends when the node works, is not the one for the key any more, or the
// store is closed.
func (r *Redis) probe(n *node, key string) {
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()
	for {
		select {
		case <-r.ctx.Done():
			return
		case <-tick.C:
			if r.works(n, key) {
				n.mu.Lock()
				n.down = nil
				n.mu.Unlock()
				return
			}
		}
	}
}

func (r *Redis) works(n *node, key string) bool {
	ctx, cancel := context.WithTimeout(r.ctx, opTimeout)
	defer cancel()
	if r.cluster != nil {
		r.cluster.ReloadState(ctx)
		primary, err := r.cluster.MasterForKey(ctx, key)
		if err != nil {
			return false
		}
		if addr := primary.Options().Addr; addr != n.addr {
			return true
		}
	}
	// A key of the same slot: the part in braces decides.
	j := &job{call: call{op: "probe", keys: []string{key + ":p"}}, node: n, again: true}
	r.exec(ctx, []*job{j})
	return j.cmd.Err() == nil
}
