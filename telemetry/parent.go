package telemetry

import (
	"context"
	"net/http"

	"go.opentelemetry.io/otel/propagation"
)

// Parent gives a request's context its place in the caller's trace. Envoy's word
// is the stronger one: the metadata of its external-processing call names the
// span that stands for this very call, a child of the caller's. An Envoy that
// traces nothing leaves the request's own headers. envoy gives the values of a key of
// that metadata; nil: there is none.
func (t *Telemetry) Parent(ctx context.Context, header http.Header, envoy func(key string) []string) context.Context {
	ctx = t.Propagator.Extract(ctx, propagation.HeaderCarrier(header))
	if envoy == nil {
		return ctx
	}
	return t.Propagator.Extract(ctx, carrier(envoy))
}

// carrier reads gRPC metadata. Of all that Envoy puts there only its place counts, so
// no keys are listed.
type carrier func(key string) []string

func (c carrier) Get(key string) string {
	if values := c(key); len(values) > 0 {
		return values[0]
	}
	return ""
}

func (carrier) Set(string, string) {}

func (carrier) Keys() []string { return nil }
