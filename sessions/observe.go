package sessions

import (
	"context"
	"errors"
	"net/url"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"
)

// Event is one finished operation of a store, for metrics and logs.
type Event struct {
	Op       string // the method's name in lower case, or "decode" for a value that could not be read
	Duration time.Duration
	Err      error
	Found    int // records that Load found
	Missing  int // records that Load did not find
}

// Outcome is one word for what became of the operation: ok, cancelled (the
// caller's context ended), unavailable, too_large, invalid or corrupt.
func (e Event) Outcome() string {
	switch {
	case e.Err == nil:
		return "ok"
	case errors.Is(e.Err, ErrUnavailable):
		return "unavailable"
	case errors.Is(e.Err, ErrTooLarge):
		return "too_large"
	case errors.Is(e.Err, ErrInvalid):
		return "invalid"
	case errors.Is(e.Err, ErrCorrupt):
		return "corrupt"
	}
	return "cancelled"
}

// observer tells of each operation of a store, and makes spans of those inside a
// span. Watch and Close pass through.
type observer struct {
	Store
	tell   func(context.Context, Event) // nil: nobody
	tracer trace.Tracer                 // nil: no spans
	server trace.SpanStartOption        // what all spans say of Redis
}

// observed puts an observer before a store, if somebody wants to know.
func observed(s Store, o Options) Store {
	if o.Observe == nil && o.Traces == nil {
		return s
	}
	out := &observer{Store: s, tell: o.Observe}
	if o.Traces != nil {
		out.server = trace.WithAttributes(append(address(o.RedisURL), semconv.DBSystemNameRedis)...)
		out.tracer = o.Traces.Tracer("github.com/mcp-via-llm/mcp-via-llm/sessions", trace.WithSchemaURL(semconv.SchemaURL))
	}
	return out
}

// address is where Redis is, of one node: behind Sentinel and in a cluster each
// operation may go elsewhere.
func address(redisURL string) []attribute.KeyValue {
	u, err := url.Parse(redisURL)
	if err != nil || u.Scheme != "redis" && u.Scheme != "rediss" || u.Query().Has("master_name") || u.Query().Has("addr") {
		return nil
	}
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		port = 6379
	}
	return []attribute.KeyValue{semconv.ServerAddress(u.Hostname()), semconv.ServerPort(port)}
}

// Size is that of a store in memory; ok is false for others.
func Size(s Store) (keys int, bytes int64, ok bool) {
	if o, is := s.(*observer); is {
		s = o.Store
	}
	m, ok := s.(*Memory)
	if !ok {
		return 0, 0, false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.entries), m.bytes, true
}

// operation is one that runs.
type operation struct {
	o     *observer
	ctx   context.Context
	span  trace.Span
	name  string
	start time.Time
}

func (o *observer) begin(ctx context.Context, name string) operation {
	op := operation{o: o, name: name, start: time.Now()}
	op.ctx, op.span = o.span(ctx, name)
	return op
}

// end tells of an operation that has ended.
func (op operation) end(err error) { op.o.done(op.ctx, op.span, op.event(err)) }

// endLoad is end for what finds records.
func (op operation) endLoad(found []Fields, err error) {
	e := op.event(err)
	for _, f := range found {
		if f == nil {
			e.Missing++
		} else {
			e.Found++
		}
	}
	op.o.done(op.ctx, op.span, e)
}

func (op operation) event(err error) Event {
	return Event{Op: op.name, Duration: time.Since(op.start), Err: err}
}

// span is nil outside a span that still runs: what a heartbeat does belongs to none.
func (o *observer) span(ctx context.Context, op string) (context.Context, trace.Span) {
	if o.tracer == nil || !trace.SpanFromContext(ctx).IsRecording() {
		return ctx, nil
	}
	return o.tracer.Start(ctx, "session store "+op, trace.WithSpanKind(trace.SpanKindClient), o.server, trace.WithAttributes(semconv.DBOperationName(op)))
}

func (o *observer) done(ctx context.Context, span trace.Span, e Event) {
	if span != nil {
		if e.Err != nil {
			span.SetAttributes(semconv.ErrorTypeKey.String(e.Outcome()))
			span.SetStatus(codes.Error, e.Outcome())
		}
		span.End()
	}
	if o.tell != nil {
		o.tell(ctx, e)
	}
}

func (o *observer) Load(ctx context.Context, s Scope, ttl time.Duration, keys ...string) (found []Fields, err error) {
	op := o.begin(ctx, "load")
	defer func() { op.endLoad(found, err) }()
	return o.Store.Load(op.ctx, s, ttl, keys...)
}

func (o *observer) LoadWith(ctx context.Context, s Scope, ttl time.Duration, bag string, keys ...string) (found []Fields, members []string, err error) {
	op := o.begin(ctx, "load")
	defer func() { op.endLoad(found, err) }()
	return o.Store.LoadWith(op.ctx, s, ttl, bag, keys...)
}

func (o *observer) Put(ctx context.Context, s Scope, key string, f Fields, ttl time.Duration) (err error) {
	op := o.begin(ctx, "put")
	defer func() { op.end(err) }()
	return o.Store.Put(op.ctx, s, key, f, ttl)
}

func (o *observer) Settle(ctx context.Context, s Scope, key, field string, value []byte, ttl time.Duration) (actual []byte, err error) {
	op := o.begin(ctx, "settle")
	defer func() { op.end(err) }()
	return o.Store.Settle(op.ctx, s, key, field, value, ttl)
}

func (o *observer) Update(ctx context.Context, s Scope, key string, f Fields, ttl time.Duration) (ok bool, err error) {
	op := o.begin(ctx, "update")
	defer func() { op.end(err) }()
	return o.Store.Update(op.ctx, s, key, f, ttl)
}

func (o *observer) Delete(ctx context.Context, s Scope, keys ...string) (err error) {
	op := o.begin(ctx, "delete")
	defer func() { op.end(err) }()
	return o.Store.Delete(op.ctx, s, keys...)
}

func (o *observer) Acquire(ctx context.Context, s Scope, name, owner string, ttl time.Duration) (ok bool, err error) {
	op := o.begin(ctx, "acquire")
	defer func() { op.end(err) }()
	return o.Store.Acquire(op.ctx, s, name, owner, ttl)
}

func (o *observer) Renew(ctx context.Context, s Scope, name, owner string, ttl time.Duration) (ok bool, err error) {
	op := o.begin(ctx, "renew")
	defer func() { op.end(err) }()
	return o.Store.Renew(op.ctx, s, name, owner, ttl)
}

func (o *observer) Release(ctx context.Context, s Scope, name, owner string) (err error) {
	op := o.begin(ctx, "release")
	defer func() { op.end(err) }()
	return o.Store.Release(op.ctx, s, name, owner)
}

func (o *observer) Add(ctx context.Context, s Scope, bag, member string, ttl time.Duration) (err error) {
	op := o.begin(ctx, "add")
	defer func() { op.end(err) }()
	return o.Store.Add(op.ctx, s, bag, member, ttl)
}

func (o *observer) Members(ctx context.Context, s Scope, bag string) (members []string, err error) {
	op := o.begin(ctx, "members")
	defer func() { op.end(err) }()
	return o.Store.Members(op.ctx, s, bag)
}

func (o *observer) Remove(ctx context.Context, s Scope, bag, member string) (ok bool, err error) {
	op := o.begin(ctx, "remove")
	defer func() { op.end(err) }()
	return o.Store.Remove(op.ctx, s, bag, member)
}

func (o *observer) Count(ctx context.Context, client string) (n int, err error) {
	op := o.begin(ctx, "count")
	defer func() { op.end(err) }()
	return o.Store.Count(op.ctx, client)
}

func (o *observer) Erase(ctx context.Context, client string) (n int, err error) {
	op := o.begin(ctx, "erase")
	defer func() { op.end(err) }()
	return o.Store.Erase(op.ctx, client)
}

func (o *observer) Ping(ctx context.Context) (err error) {
	op := o.begin(ctx, "ping")
	defer func() { op.end(err) }()
	return o.Store.Ping(op.ctx)
}
