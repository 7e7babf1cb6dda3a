package envoy

import (
	"net"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tracev3 "github.com/envoyproxy/go-control-plane/envoy/config/trace/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	httpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// CollectorCluster is where Envoy sends its spans.
const CollectorCluster = "otel_collector"

// Tracing makes Envoy tell of its own part in each request. Its spans, those of the
// service and of whoever else carries traceparent on are one trace: Envoy gives the
// service the context of its call by the metadata of that call.
type Tracing struct {
	Collector string  // OTLP over gRPC, as host:port
	Service   string  // the name that Envoy's spans have
	Sampling  float64 // percent of the requests whose caller has not decided
}

// tracing is nil unless it is asked for.
func (b *builder) tracing() *hcmv3.HttpConnectionManager_Tracing {
	t := b.Tracing
	if t == nil {
		return nil
	}
	return &hcmv3.HttpConnectionManager_Tracing{
		RandomSampling:    &typev3.Percent{Value: t.Sampling},
		SpawnUpstreamSpan: wrapperspb.Bool(true), // the request to the provider is a span of its own
		Provider: &tracev3.Tracing_Http{
			Name: "envoy.tracers.opentelemetry",
			ConfigType: &tracev3.Tracing_Http_TypedConfig{TypedConfig: b.any(&tracev3.OpenTelemetryConfig{
				GrpcService: &corev3.GrpcService{TargetSpecifier: &corev3.GrpcService_EnvoyGrpc_{
					EnvoyGrpc: &corev3.GrpcService_EnvoyGrpc{ClusterName: CollectorCluster},
				}},
				ServiceName: t.Service,
			})},
		},
	}
}

// collector is nil unless there is tracing.
func (b *builder) collector() []*clusterv3.Cluster {
	if b.Tracing == nil {
		return nil
	}
	host, port, err := net.SplitHostPort(b.Tracing.Collector)
	b.fail(err)
	c := b.cluster(CollectorCluster, host, port)
	c.TypedExtensionProtocolOptions = map[string]*anypb.Any{httpOptions: b.any(&httpv3.HttpProtocolOptions{
		UpstreamProtocolOptions: &httpv3.HttpProtocolOptions_ExplicitHttpConfig_{ExplicitHttpConfig: &httpv3.HttpProtocolOptions_ExplicitHttpConfig{
			ProtocolConfig: &httpv3.HttpProtocolOptions_ExplicitHttpConfig_Http2ProtocolOptions{Http2ProtocolOptions: &corev3.Http2ProtocolOptions{}},
		}},
	})}
	return []*clusterv3.Cluster{c}
}
