package telemetry

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/semconv/v1.41.0/genaiconv"
)

// Segment is an exchange with the model that ended.
type Segment struct {
	Provider      []attribute.KeyValue // as [Provider] gives it: at most three
	RequestModel  string
	ResponseModel string
	Duration      time.Duration
	FirstChunk    time.Duration // 0: not streamed
	ErrorType     string        // "" for an answer

	// Tokens as the provider reports them; Input has those of the cache in it.
	Input, Output, CacheRead, CacheWrite int64
}

// exchange is what the metrics of an exchange with the model are told apart by.
type exchange struct {
	provider          [3]attribute.KeyValue
	request, response string
	failed            string
}

// exchangeLabels are those of its metrics: without and with the error's type, and
// of each kind of token.
type exchangeLabels struct {
	base, ended, input, output measured
	cache                      [3]measured // read, write, none
}

func (e exchange) labels() (l exchangeLabels) {
	attrs := make([]attribute.KeyValue, 0, 8)
	for _, a := range e.provider {
		if a.Valid() {
			attrs = append(attrs, a)
		}
	}
	attrs = append(attrs, semconv.GenAIOperationNameChat)
	if e.request != "" {
		attrs = append(attrs, semconv.GenAIRequestModel(e.request))
	}
	if e.response != "" {
		attrs = append(attrs, semconv.GenAIResponseModel(e.response))
	}
	with := func(a attribute.KeyValue) measured { return measure(append(attrs[:len(attrs):len(attrs)], a)...) }
	l.base = measure(attrs[:len(attrs):len(attrs)]...)
	l.ended = l.base
	if e.failed != "" {
		l.ended = with(semconv.ErrorTypeKey.String(e.failed))
	}
	l.input = with(semconv.GenAITokenTypeKey.String(string(genaiconv.TokenTypeInput)))
	l.output = with(semconv.GenAITokenTypeKey.String(string(genaiconv.TokenTypeOutput)))
	for i, word := range []string{"read", "write", "none"} {
		l.cache[i] = with(attribute.String("cache", word))
	}
	return l
}

// Segment counts an exchange with the model.
func (m *Metrics) Segment(ctx context.Context, s Segment) {
	// A name counts once a provider has answered to it: what clients make up does
	// not use up the room.
	name := m.models.known
	if s.ErrorType == "" {
		name = m.models.admit
	}
	e := exchange{failed: s.ErrorType}
	copy(e.provider[:], s.Provider)
	if s.RequestModel != "" {
		e.request = name(s.RequestModel)
	}
	if s.ResponseModel != "" {
		e.response = name(s.ResponseModel)
	}
	labels := m.exchange.of(e, exchange.labels)
	if s.Input > 0 || s.Output > 0 {
		m.tokens.Int64Histogram.Record(ctx, s.Input, labels.input.record...)
		m.tokens.Int64Histogram.Record(ctx, s.Output, labels.output.record...)
		for i, tokens := range []int64{s.CacheRead, s.CacheWrite, s.Input - s.CacheRead - s.CacheWrite} {
			if tokens > 0 {
				m.cached.Add(ctx, tokens, labels.cache[i].add...)
			}
		}
	}
	if s.FirstChunk > 0 {
		m.firstChunk.Float64Histogram.Record(ctx, s.FirstChunk.Seconds(), labels.base.record...)
	}
	m.operation.Float64Histogram.Record(ctx, s.Duration.Seconds(), labels.ended.record...)
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
	if !n.seen[name] && len(n.seen) < maxModels {
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
