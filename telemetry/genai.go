package telemetry

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/semconv/v1.41.0/genaiconv"
)

// Segment is an exchange with the model that ended.
type Segment struct {
	Provider      []attribute.KeyValue // as [Provider] gives it
	RequestModel  string
	ResponseModel string
	Duration      time.Duration
	FirstChunk    time.Duration // 0: not streamed
	ErrorType     string        // "" for an answer

	// Tokens as the provider reports them; Input has those of the cache in it.
	Input, Output, CacheRead, CacheWrite int64
}

// Segment counts an exchange with the model.
func (m *Metrics) Segment(ctx context.Context, s Segment) {
	attrs := append(make([]attribute.KeyValue, 0, 8), s.Provider...)
	attrs = append(attrs, semconv.GenAIOperationNameChat)
	// A name counts once a provider has answered to it: what clients make up does
	// not use up the room.
	name := m.models.known
	if s.ErrorType == "" {
		name = m.models.admit
	}
	if s.RequestModel != "" {
		attrs = append(attrs, semconv.GenAIRequestModel(name(s.RequestModel)))
	}
	if s.ResponseModel != "" {
		attrs = append(attrs, semconv.GenAIResponseModel(name(s.ResponseModel)))
	}
	base := attribute.NewSet(attrs...)
	if s.Input > 0 || s.Output > 0 {
		m.tokenUsage(ctx, attrs, s)
	}
	if s.FirstChunk > 0 {
		m.firstChunk.RecordSet(ctx, s.FirstChunk.Seconds(), base)
	}
	if s.ErrorType != "" {
		base = attribute.NewSet(append(attrs, semconv.ErrorTypeKey.String(s.ErrorType))...)
	}
	m.operation.RecordSet(ctx, s.Duration.Seconds(), base)
}

func (m *Metrics) tokenUsage(ctx context.Context, attrs []attribute.KeyValue, s Segment) {
	with := func(a attribute.KeyValue) attribute.Set {
		return attribute.NewSet(append(attrs[:len(attrs):len(attrs)], a)...)
	}
	m.tokens.RecordSet(ctx, s.Input, with(semconv.GenAITokenTypeKey.String(string(genaiconv.TokenTypeInput))))
	m.tokens.RecordSet(ctx, s.Output, with(semconv.GenAITokenTypeKey.String(string(genaiconv.TokenTypeOutput))))
	for _, part := range []struct {
		cache  string
		tokens int64
	}{{"read", s.CacheRead}, {"write", s.CacheWrite}, {"none", s.Input - s.CacheRead - s.CacheWrite}} {
		if part.tokens > 0 {
			m.cached.Add(ctx, part.tokens, metric.WithAttributeSet(with(attribute.String("cache", part.cache))))
		}
	}
}

// maxModels bounds the names of models in metrics: clients choose them.
const maxModels = 100

// otherModel stands for names beyond that.
const otherModel = "other"

// names are those that metrics may have as attributes.
type names struct {
	mu   sync.Mutex
	seen map[string]bool
}

// admit gives the name, as long as there is room for it.
func (n *names) admit(name string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.seen == nil {
		n.seen = map[string]bool{}
	}
	if len(n.seen) < maxModels {
		n.seen[name] = true
	}
	return n.orOther(name)
}

// known gives the name if it was admitted.
func (n *names) known(name string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.orOther(name)
}

func (n *names) orOther(name string) string {
	if n.seen[name] {
		return name
	}
	return otherModel
}
