package envoy

import (
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
)

// requestAttributes are what the service may know of a request beside its
// headers: the route, and who calls.
var requestAttributes = []string{
	"xds.route_name", "xds.cluster_name", "source.address", "request.id", "connection.uri_san_peer_certificate",
}

// jwtMetadata is where Envoy's jwt_authn filter leaves the claims of the caller's
// token, if there is such a filter in front of this one.
const jwtMetadata = "envoy.filters.http.jwt_authn"

// messageTimeout bounds the service's first answer only. Envoy's default of
// 200 ms is too short for a busy machine.
const messageTimeout = 5 * time.Second

// filter is the external processor in the chain: off, until a route overrides it.
func (b *builder) filter() *hcmv3.HttpFilter {
	f := &extprocv3.ExternalProcessor{
		GrpcService: &corev3.GrpcService{TargetSpecifier: &corev3.GrpcService_EnvoyGrpc_{
			EnvoyGrpc: &corev3.GrpcService_EnvoyGrpc{ClusterName: ServiceCluster},
		}},
		FailureModeAllow:  b.FailOpen,
		ProcessingMode:    processingMode(b.Mode),
		AllowModeOverride: b.Mode == Override,
		RequestAttributes: requestAttributes,
		MetadataOptions: &extprocv3.MetadataOptions{ForwardingNamespaces: &extprocv3.MetadataOptions_MetadataNamespaces{
			Untyped: []string{jwtMetadata},
		}},
		MessageTimeout:           durationpb.New(messageTimeout),
		StatusOnError:            &typev3.HttpStatus{Code: typev3.StatusCode_ServiceUnavailable},
		AllowContentLengthHeader: b.Minor >= 38, // the field is unknown to 1.37
	}
	return &hcmv3.HttpFilter{
		Name:       FilterName,
		Disabled:   true,
		ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: b.any(f)},
	}
}

func processingMode(m Mode) *extprocv3.ProcessingMode {
	if m == Static {
		return &extprocv3.ProcessingMode{
			RequestHeaderMode:   extprocv3.ProcessingMode_SEND,
			ResponseHeaderMode:  extprocv3.ProcessingMode_SEND,
			RequestBodyMode:     extprocv3.ProcessingMode_FULL_DUPLEX_STREAMED,
			ResponseBodyMode:    extprocv3.ProcessingMode_FULL_DUPLEX_STREAMED,
			RequestTrailerMode:  extprocv3.ProcessingMode_SEND,
			ResponseTrailerMode: extprocv3.ProcessingMode_SEND,
		}
	}
	return &extprocv3.ProcessingMode{
		RequestHeaderMode:   extprocv3.ProcessingMode_SEND,
		ResponseHeaderMode:  extprocv3.ProcessingMode_SKIP,
		RequestBodyMode:     extprocv3.ProcessingMode_NONE,
		ResponseBodyMode:    extprocv3.ProcessingMode_NONE,
		RequestTrailerMode:  extprocv3.ProcessingMode_SKIP,
		ResponseTrailerMode: extprocv3.ProcessingMode_SKIP,
	}
}

// enabled is what a route carries to turn the filter on.
func (b *builder) enabled(client string) map[string]*anypb.Any {
	overrides := &extprocv3.ExtProcOverrides{}
	if client != "" {
		overrides.GrpcInitialMetadata = []*corev3.HeaderValue{{Key: ClientMetadata, Value: client}}
	}
	return map[string]*anypb.Any{FilterName: b.any(&extprocv3.ExtProcPerRoute{
		Override: &extprocv3.ExtProcPerRoute_Overrides{Overrides: overrides},
	})}
}

func (b *builder) any(m proto.Message) *anypb.Any {
	packed, err := anypb.New(m)
	b.fail(err)
	return packed
}
