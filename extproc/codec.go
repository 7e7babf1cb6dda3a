package extproc

import (
	"slices"
	"unicode/utf8"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	filterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	grpcproto "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
)

// Codec is for the gRPC server that a Server is registered with. It reads Envoy's
// headers and bodies with few allocations, and leaves all other messages to
// protobuf. A Server works without it, too.
func Codec() grpc.ServerOption {
	return grpc.ForceServerCodecV2(codec{encoding.GetCodecV2(grpcproto.Name)})
}

type codec struct{ encoding.CodecV2 }

// Unmarshal implements encoding.CodecV2.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	msg, ok := v.(*pb.ProcessingRequest)
	if !ok {
		return c.CodecV2.Unmarshal(data, v)
	}
	buf := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer buf.Free()
	return readMessage(buf.ReadOnlyData(), msg)
}

// readMessage is proto.Unmarshal, save that the raw value of a header is in Value, as
// if it had come there (headerValue tells no difference).
func readMessage(b []byte, msg *pb.ProcessingRequest) error {
	for rest := b; len(rest) > 0; {
		f, ok := nextField(&rest)
		if !ok || !readPart(f, msg) {
			msg.Reset()
			return proto.Unmarshal(b, msg) // it knows what is wrong, or what this does not
		}
	}
	return nil
}

// field is one of a message in protobuf's wire format.
type field struct {
	number protowire.Number
	kind   protowire.Type
	bytes  []byte // of BytesType
	varint uint64 // of VarintType
}

// is says whether it is the field of that number, with bytes.
func (f field) is(number protowire.Number) bool {
	return f.number == number && f.kind == protowire.BytesType
}

// nextField takes the next field from b.
func nextField(b *[]byte) (f field, ok bool) {
	number, kind, n := protowire.ConsumeTag(*b)
	if n < 0 {
		return f, false
	}
	f.number, f.kind = number, kind
	var m int
	switch kind {
	case protowire.BytesType:
		f.bytes, m = protowire.ConsumeBytes((*b)[n:])
	case protowire.VarintType:
		f.varint, m = protowire.ConsumeVarint((*b)[n:])
	default: // none of what is read here
		return f, false
	}
	if m < 0 {
		return f, false
	}
	*b = (*b)[n+m:]
	return f, true
}

// readPart reads a field of a ProcessingRequest; false if protobuf has to read the
// whole of the message.
func readPart(f field, msg *pb.ProcessingRequest) (ok bool) {
	if f.kind != protowire.BytesType || f.number < 8 && msg.Request != nil {
		return false
	}
	switch f.number {
	case 2:
		var h pb.ProcessingRequest_RequestHeaders
		h.RequestHeaders, ok = readHeaders(f.bytes)
		msg.Request = &h
	case 3:
		var h pb.ProcessingRequest_ResponseHeaders
		h.ResponseHeaders, ok = readHeaders(f.bytes)
		msg.Request = &h
	case 4:
		var body pb.ProcessingRequest_RequestBody
		body.RequestBody, ok = readBody(f.bytes)
		msg.Request = &body
	case 5:
		var body pb.ProcessingRequest_ResponseBody
		body.ResponseBody, ok = readBody(f.bytes)
		msg.Request = &body
	case 8:
		ok = msg.MetadataContext == nil
		msg.MetadataContext = &corev3.Metadata{}
		if len(f.bytes) > 0 {
			ok = ok && proto.Unmarshal(f.bytes, msg.MetadataContext) == nil
		}
	case 9:
		ok = readAttributes(f.bytes, msg)
	case 11:
		ok = readProtocol(f.bytes, msg)
	}
	return ok
}

// readAttributes reads an entry of attributes whose values are all texts.
func readAttributes(b []byte, msg *pb.ProcessingRequest) bool {
	filter, b, ok := readEntry(b)
	if !ok {
		return false
	}
	group := &structpb.Struct{Fields: map[string]*structpb.Value{}}
	for len(b) > 0 {
		f, ok := nextField(&b)
		if !ok || !f.is(1) || !readAttribute(f.bytes, group.Fields) {
			return false
		}
	}
	if msg.Attributes == nil {
		msg.Attributes = map[string]*structpb.Struct{}
	}
	msg.Attributes[filter] = group
	return true
}

// readAttribute reads an entry of a Struct whose value is a text.
func readAttribute(b []byte, into map[string]*structpb.Value) bool {
	name, value, ok := readEntry(b)
	if !ok {
		return false
	}
	const stringValue = 3
	text, ok := nextField(&value)
	if !ok || !text.is(stringValue) || len(value) > 0 || !utf8.Valid(text.bytes) {
		return false
	}
	v := new(struct {
		value structpb.Value
		kind  structpb.Value_StringValue
	})
	v.kind.StringValue = string(text.bytes)
	v.value.Kind = &v.kind
	into[name] = &v.value
	return true
}

// readEntry reads an entry of a map of messages, by text.
func readEntry(b []byte) (key string, value []byte, ok bool) {
	k, ok := nextField(&b)
	if !ok || !k.is(1) || !utf8.Valid(k.bytes) {
		return "", nil, false
	}
	v, ok := nextField(&b)
	return string(k.bytes), v.bytes, ok && v.is(2) && len(b) == 0
}

// readProtocol reads the ProtocolConfiguration.
func readProtocol(b []byte, msg *pb.ProcessingRequest) bool {
	out := &pb.ProtocolConfiguration{}
	for len(b) > 0 {
		f, ok := nextField(&b)
		if !ok || f.kind != protowire.VarintType {
			return false
		}
		switch f.number {
		case 1:
			out.RequestBodyMode = filterv3.ProcessingMode_BodySendMode(f.varint)
		case 2:
			out.ResponseBodyMode = filterv3.ProcessingMode_BodySendMode(f.varint)
		case 3:
			out.SendBodyWithoutWaitingForHeaderResponse = f.varint != 0
		default:
			return false
		}
	}
	had := msg.ProtocolConfig != nil
	msg.ProtocolConfig = out
	return !had
}

// readHeaders reads an HttpHeaders.
func readHeaders(b []byte) (*pb.HttpHeaders, bool) {
	out := &pb.HttpHeaders{}
	for len(b) > 0 {
		f, ok := nextField(&b)
		switch {
		case ok && f.is(1) && out.Headers == nil:
			if out.Headers, ok = readHeaderMap(f.bytes); !ok {
				return nil, false
			}
		case ok && f.number == 3 && f.kind == protowire.VarintType:
			out.EndOfStream = f.varint != 0
		default:
			return nil, false
		}
	}
	return out, true
}

// readHeaderMap reads a HeaderMap: all texts are parts of one string, and all values
// of one slice.
func readHeaderMap(b []byte) (*corev3.HeaderMap, bool) {
	count := 0
	for rest := b; len(rest) > 0; count++ {
		if f, ok := nextField(&rest); !ok || !f.is(1) {
			return nil, false
		}
	}
	values := make([]corev3.HeaderValue, count)
	out := &corev3.HeaderMap{Headers: make([]*corev3.HeaderValue, count)}
	text := string(b)
	for i := range values {
		f, _ := nextField(&b)
		end := len(text) - len(b)
		if !readHeader(f.bytes, text[end-len(f.bytes):end], &values[i]) {
			return nil, false
		}
		out.Headers[i] = &values[i]
	}
	return out, true
}

// readHeader reads a HeaderValue, whose bytes are also those of text.
func readHeader(b []byte, text string, out *corev3.HeaderValue) bool {
	for len(b) > 0 {
		f, ok := nextField(&b)
		if !ok || f.kind != protowire.BytesType {
			return false
		}
		end := len(text) - len(b)
		s := text[end-len(f.bytes) : end]
		switch f.number {
		case 1:
			if out.Key = s; !utf8.ValidString(s) {
				return false
			}
		case 2, 3: // one of the two is set
			if out.Value != "" || f.number == 2 && !utf8.ValidString(s) {
				return false
			}
			out.Value = s
		default:
			return false
		}
	}
	return true
}

// readBody reads an HttpBody.
func readBody(b []byte) (*pb.HttpBody, bool) {
	out := &pb.HttpBody{}
	for len(b) > 0 {
		f, ok := nextField(&b)
		switch {
		case ok && f.is(1):
			out.Body = slices.Clone(f.bytes)
		case ok && f.number == 2 && f.kind == protowire.VarintType:
			out.EndOfStream = f.varint != 0
		default:
			return nil, false
		}
	}
	return out, true
}
