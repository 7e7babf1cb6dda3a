package extproc

import (
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	filterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
)

// envoyHeaders are a usual request's.
func envoyHeaders() *pb.ProcessingRequest {
	m := &corev3.HeaderMap{}
	for _, h := range [][2]string{
		{":authority", "gateway.example"}, {":path", "/v1/chat/completions"}, {":method", "POST"}, {":scheme", "http"},
		{"accept", "application/json"}, {"content-type", "application/json"}, {"authorization", "Bearer sk-0123456789abcdef"},
		{"user-agent", "OpenAI/Python 1.99.0"}, {"x-stainless-lang", "python"}, {"x-stainless-retry-count", "0"}, {"accept-encoding", "gzip, deflate"},
		{"content-length", "1234"}, {"x-forwarded-proto", "http"}, {"x-request-id", "7fa3e1a8-5e53-4d2e-8a3c-3f1f0a4b9c2d"}, {"x-odd", "caf\xe9"}, {"x-empty", ""},
	} {
		m.Headers = append(m.Headers, &corev3.HeaderValue{Key: h[0], RawValue: []byte(h[1])})
	}
	text := func(s string) *structpb.Value { return structpb.NewStringValue(s) }
	return &pb.ProcessingRequest{
		Request: &pb.ProcessingRequest_RequestHeaders{RequestHeaders: &pb.HttpHeaders{Headers: m}},
		Attributes: map[string]*structpb.Struct{"envoy.filters.http.ext_proc": {Fields: map[string]*structpb.Value{
			"source.address": text("127.0.0.1:5000"), "xds.route_name": text("llm"),
		}}},
		MetadataContext: &corev3.Metadata{},
		ProtocolConfig:  &pb.ProtocolConfiguration{RequestBodyMode: filterv3.ProcessingMode_FULL_DUPLEX_STREAMED, ResponseBodyMode: filterv3.ProcessingMode_FULL_DUPLEX_STREAMED},
	}
}

// asText puts raw values where readMessage has them.
func asText(m *corev3.HeaderMap) {
	for _, v := range m.GetHeaders() {
		if len(v.GetRawValue()) > 0 {
			v.Value = string(v.RawValue)
		}
		if v != nil {
			v.RawValue = nil
		}
	}
}

func FuzzCodec(f *testing.F) {
	body := &pb.HttpBody{Body: []byte("some text"), EndOfStream: true}
	trailers := &pb.HttpTrailers{Trailers: &corev3.HeaderMap{Headers: []*corev3.HeaderValue{{Key: "x-sum", RawValue: []byte("1")}}}}
	response := &pb.HttpHeaders{Headers: envoyHeaders().GetRequestHeaders().Headers, EndOfStream: true}
	metadata := envoyHeaders()
	metadata.MetadataContext = &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{"a": {}}}
	for _, m := range []*pb.ProcessingRequest{
		envoyHeaders(), metadata,
		{Request: &pb.ProcessingRequest_RequestBody{RequestBody: body}},
		{Request: &pb.ProcessingRequest_ResponseBody{ResponseBody: body}, ObservabilityMode: true},
		{Request: &pb.ProcessingRequest_ResponseBody{ResponseBody: &pb.HttpBody{GrpcMessageCompressed: true}}},
		{Request: &pb.ProcessingRequest_ResponseHeaders{ResponseHeaders: response}},
		{Request: &pb.ProcessingRequest_RequestTrailers{RequestTrailers: trailers}},
		{Request: &pb.ProcessingRequest_ResponseTrailers{ResponseTrailers: trailers}},
		{Request: &pb.ProcessingRequest_RequestHeaders{RequestHeaders: &pb.HttpHeaders{Headers: &corev3.HeaderMap{Headers: []*corev3.HeaderValue{{Key: "a", Value: "text", RawValue: []byte("raw")}}}}}},
	} {
		b, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
		f.Add(append(b, b...))
		f.Add(b[:len(b)-1])
	}
	f.Add([]byte{0x12, 0x07, 0x0a, 0x05, 0x0a, 0x03, 0x0a, 0x01, 0xff}) // a key that is no text
	f.Fuzz(func(t *testing.T, b []byte) {
		var want, got pb.ProcessingRequest
		wrong, err := proto.Unmarshal(b, &want), readMessage(b, &got)
		if (wrong == nil) != (err == nil) {
			t.Fatalf("error %v, by protobuf %v", err, wrong)
		}
		if err != nil {
			return
		}
		for _, m := range []*pb.ProcessingRequest{&want, &got} {
			asText(m.GetRequestHeaders().GetHeaders())
			asText(m.GetResponseHeaders().GetHeaders())
			asText(m.GetRequestTrailers().GetTrailers())
			asText(m.GetResponseTrailers().GetTrailers())
		}
		if !proto.Equal(&want, &got) {
			t.Fatalf("read %v, want %v", &got, &want)
		}
	})
}

func BenchmarkCodec(b *testing.B) {
	raw, err := proto.Marshal(envoyHeaders())
	if err != nil {
		b.Fatal(err)
	}
	for name, read := range map[string]func([]byte, *pb.ProcessingRequest) error{
		"own":      readMessage,
		"protobuf": func(b []byte, m *pb.ProcessingRequest) error { return proto.Unmarshal(b, m) },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(raw)))
			for b.Loop() {
				var m pb.ProcessingRequest
				if err := read(raw, &m); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
