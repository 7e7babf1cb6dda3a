package telemetry

import (
	"context"
	"net/http"

	"go.opentelemetry.io/otel/propagation"
	"google.golang.org/grpc/metadata"
)

// Parent gives a request's context its place in the caller's trace. Envoy's word
// is the stronger one: the metadata of its external-processing call names the
// span that stands for this very call, a child of the caller's. An Envoy that
// traces nothing leaves the request's own headers.
func (t *Telemetry) Parent(ctx context.Context, header http.Header, envoy metadata.MD) context.Context {
	ctx = t.Propagator.Extract(ctx, propagation.HeaderCarrier(header))
	if len(envoy) == 0 {
		return ctx
	}
	return t.Propagator.Extract(ctx, carrier(envoy))
}

// carrier reads gRPC metadata.
type carrier metadata.MD

func (c carrier) Get(key string) string {
	if values := metadata.MD(c).Get(key); len(values) > 0 {
		return values[0]
	}
	return ""
}

func (c carrier) Set(key, value string) { metadata.MD(c).Set(key, value) }

func (c carrier) Keys() []string {
	keys := make([]string, 0, len(c))
	for key := range c {
		keys = append(keys, key)
	}
	return keys
}
