package main

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcp-via-llm/mcp-via-llm/sessions"
)

// fill brings the number of conversations in the stack's Redis to n, each with a kilobyte of hidden history.
func (b *bench) fill(ctx context.Context, n int) error {
	store, err := sessions.Open(sessions.Options{RedisURL: b.redis, KeyPrefix: keyPrefix})
	if err != nil {
		return err
	}
	defer store.Close() //nolint:errcheck // what was written stands
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	fields := sessions.Fields{"turn": bytes.Repeat([]byte("hidden "), kilobyte/7)}
	var next atomic.Int64
	next.Store(int64(b.filled))
	var writers sync.WaitGroup
	for range 8 {
		writers.Go(func() {
			for ctx.Err() == nil {
				i := next.Add(1)
				if i > int64(n) {
					return
				}
				scope := sessions.Scope{Client: fmt.Sprintf("default/%d", i%1000), ID: fmt.Sprint(i)}
				err := store.Put(ctx, scope, "t:filled", fields, time.Hour)
				for try := 0; err != nil && try < 10; try++ { // the store gives up early, as a turn needs it to
					time.Sleep(time.Second)
					err = store.Put(ctx, scope, "t:filled", fields, time.Hour)
				}
				if err != nil {
					cancel(err)
				}
			}
		})
	}
	writers.Wait()
	b.filled = max(b.filled, n)
	return context.Cause(ctx)
}
