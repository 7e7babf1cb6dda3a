package sessions

import (
	"context"
	"sync"

	"github.com/redis/go-redis/v9"
)

// subscriber is the one connection of this process that hears of changes. Plain,
// not sharded, pub/sub: a Cluster brings each message to every node, so that any
// of them will do, and it works behind any proxy and after any failover.
// go-redis connects and subscribes anew by itself when the connection breaks.
type subscriber struct {
	watchers[string] // by channel, which has the name of the key
	client           redis.UniversalClient
	ctx              context.Context
	cancel           context.CancelFunc
	kick             chan struct{} // the watched channels have changed
	start            sync.Once
	ended            sync.WaitGroup
}

func (s *subscriber) init(client redis.UniversalClient) {
	s.client, s.kick = client, make(chan struct{}, 1)
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.changed = func() {
		s.start.Do(func() { s.ended.Go(s.listen) })
		select {
		case s.kick <- struct{}{}:
		default:
		}
	}
}

func (s *subscriber) close() {
	s.start.Do(func() {})
	s.cancel()
	s.ended.Wait()
}

func (s *subscriber) listen() {
	conn := s.client.Subscribe(s.ctx) // to nothing yet, and connected only when needed
	defer conn.Close()
	have := map[string]bool{}
	var messages <-chan any
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-s.kick:
			s.adjust(conn, have)
			if messages == nil && len(have) > 0 {
				messages = conn.ChannelWithSubscriptions()
			}
		case m, ok := <-messages:
			if !ok {
				return
			}
			switch m := m.(type) {
			case *redis.Message:
				s.wake(m.Channel)
			case *redis.Subscription:
				// What happened before it, or while it was broken, went unheard.
				s.wake(m.Channel)
			}
		}
	}
}

// adjust subscribes to what is watched and to nothing else. Errors do not matter:
// go-redis notes the channels first, and subscribes to them when it can.
func (s *subscriber) adjust(conn *redis.PubSub, have map[string]bool) {
	want := s.keys()
	var add, drop []string
	for channel := range want {
		if !have[channel] {
			add = append(add, channel)
			have[channel] = true
		}
	}
	for channel := range have {
		if !want[channel] {
			drop = append(drop, channel)
			delete(have, channel)
		}
	}
	ctx, cancel := context.WithTimeout(s.ctx, opTimeout)
	defer cancel()
	if len(add) > 0 {
		_ = conn.Subscribe(ctx, add...)
	}
	if len(drop) > 0 {
		_ = conn.Unsubscribe(ctx, drop...)
	}
}

// check tries whether channels can be subscribed to.
func (s *subscriber) check(ctx context.Context, channel string) error {
	ctx, cancel := context.WithTimeout(ctx, opTimeout)
	defer cancel()
	conn := s.client.Subscribe(ctx, channel)
	defer conn.Close()
	_, err := conn.Receive(ctx)
	return err
}
