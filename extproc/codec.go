package extproc

import (
	"slices"
	"unicode/utf8"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	grpcproto "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
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
	bytes  []byte // with BytesType: the value
	whole  []byte // with tag and length
	varint uint64
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
	default:
		m = protowire.ConsumeFieldValue(number, kind, (*b)[n:])
	}
	if m < 0 {
		return f, false
	}
	f.whole, *b = (*b)[:n+m], (*b)[n+m:]
	return f, true
}

// readPart reads a field of a ProcessingRequest; false if protobuf has to read the
// whole of the message.
func readPart(f field, msg *pb.ProcessingRequest) bool {
	const first, last = 2, 7 // of the oneof
	if f.number < first || f.number > last {
		return proto.UnmarshalOptions{Merge: true}.Unmarshal(f.whole, msg) == nil
	}
	if msg.Request != nil || f.kind != protowire.BytesType {
		return false
	}
	switch f.number {
	case 2:
		h, ok := readHeaders(f.bytes)
		msg.Request = &pb.ProcessingRequest_RequestHeaders{RequestHeaders: h}
		return ok
	case 3:
		h, ok := readHeaders(f.bytes)
		msg.Request = &pb.ProcessingRequest_ResponseHeaders{ResponseHeaders: h}
		return ok
	case 4:
		body, ok := readBody(f.bytes)
		msg.Request = &pb.ProcessingRequest_RequestBody{RequestBody: body}
		return ok
	case 5:
		body, ok := readBody(f.bytes)
		msg.Request = &pb.ProcessingRequest_ResponseBody{ResponseBody: body}
		return ok
	}
	return false // trailers
}

// readHeaders reads an HttpHeaders.
func readHeaders(b []byte) (*pb.HttpHeaders, bool) {
	out := &pb.HttpHeaders{}
	for len(b) > 0 {
		f, ok := nextField(&b)
		switch {
		case ok && f.number == 1 && f.kind == protowire.BytesType && out.Headers == nil:
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
		if f, ok := nextField(&rest); !ok || f.number != 1 || f.kind != protowire.BytesType {
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
		case ok && f.number == 1 && f.kind == protowire.BytesType:
			out.Body = slices.Clone(f.bytes)
		case ok && f.number == 2 && f.kind == protowire.VarintType:
			out.EndOfStream = f.varint != 0
		default:
			return nil, false
		}
	}
	return out, true
}
