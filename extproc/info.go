package extproc

import (
	"context"
	"encoding/json"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/structpb"
)

// Info is what Envoy says about an exchange beside its HTTP messages.
type Info struct {
	// Attributes are the filter's request_attributes, flattened:
	// "xds.route_name", "source.address", …; a value that is no string is JSON.
	Attributes map[string]string
	// DynamicMetadata holds the namespaces that metadata_options forwards; may be nil.
	DynamicMetadata *corev3.Metadata
	// Looped says that the request carried a valid marker: it was sent to the
	// loop listener and came back through the filter by mistake.
	Looped bool

	stream context.Context
}

// Metadata gives the values of a key of the gRPC initial metadata: ExtProcPerRoute's
// overrides.grpc_initial_metadata arrives here.
func (i *Info) Metadata(key string) []string {
	if i == nil || i.stream == nil {
		return nil
	}
	return metadata.ValueFromIncomingContext(i.stream, key)
}

// exchangeContext is the context of an exchange's request.
type exchangeContext struct {
	context.Context
	x    *exchange
	info *Info
}

// Value implements context.Context.
func (c *exchangeContext) Value(key any) any {
	switch key {
	case exchangeKey:
		return c.x
	case infoKey:
		return c.info
	}
	return c.Context.Value(key)
}

type contextKey int

const (
	infoKey contextKey = iota
	exchangeKey
)

// InfoFrom returns the Info of the exchange whose request context this is.
func InfoFrom(ctx context.Context) (*Info, bool) {
	info, ok := ctx.Value(infoKey).(*Info)
	return info, ok
}

func newInfo(ctx context.Context, first *pb.ProcessingRequest, looped bool) *Info {
	return &Info{
		stream:          ctx,
		Attributes:      attributes(first),
		DynamicMetadata: first.GetMetadataContext(),
		Looped:          looped,
	}
}

// attributes flattens the one level that Envoy adds: the filter's name.
func attributes(first *pb.ProcessingRequest) map[string]string {
	flat := map[string]string{}
	for _, group := range first.GetAttributes() {
		for name, value := range group.GetFields() {
			if text, ok := value.GetKind().(*structpb.Value_StringValue); ok {
				flat[name] = text.StringValue
				continue
			}
			// A structpb value always has a JSON form.
			text, _ := json.Marshal(value.AsInterface())
			flat[name] = string(text)
		}
	}
	return flat
}
