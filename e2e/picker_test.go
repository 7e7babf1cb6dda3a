package e2e

import (
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"

	"github.com/mcp-via-llm/mcp-via-llm/e2e/llm"
)

// picker is the simplest full-duplex external processor, as an endpoint picker is one: it sets a request header and
// passes both bodies on.
type picker struct {
	extprocv3.UnimplementedExternalProcessorServer
}

func (picker) Process(stream extprocv3.ExternalProcessor_ProcessServer) error {
	for {
		in, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := stream.Send(passOn(in)); err != nil {
			return err
		}
	}
}

func passOn(in *extprocv3.ProcessingRequest) *extprocv3.ProcessingResponse {
	switch m := in.Request.(type) {
	case *extprocv3.ProcessingRequest_RequestHeaders:
		picked := &corev3.HeaderValueOption{Header: &corev3.HeaderValue{Key: "x-picked", RawValue: []byte("yes")}}
		return &extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_RequestHeaders{RequestHeaders: &extprocv3.HeadersResponse{
			Response: &extprocv3.CommonResponse{HeaderMutation: &extprocv3.HeaderMutation{SetHeaders: []*corev3.HeaderValueOption{picked}}},
		}}}
	case *extprocv3.ProcessingRequest_RequestBody:
		return &extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_RequestBody{RequestBody: bodyOn(m.RequestBody)}}
	case *extprocv3.ProcessingRequest_RequestTrailers:
		return &extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_RequestTrailers{RequestTrailers: &extprocv3.TrailersResponse{}}}
	case *extprocv3.ProcessingRequest_ResponseHeaders:
		return &extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_ResponseHeaders{ResponseHeaders: &extprocv3.HeadersResponse{}}}
	case *extprocv3.ProcessingRequest_ResponseBody:
		return &extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_ResponseBody{ResponseBody: bodyOn(m.ResponseBody)}}
	default:
		return &extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_ResponseTrailers{ResponseTrailers: &extprocv3.TrailersResponse{}}}
	}
}

func bodyOn(body *extprocv3.HttpBody) *extprocv3.BodyResponse {
	return &extprocv3.BodyResponse{Response: &extprocv3.CommonResponse{BodyMutation: &extprocv3.BodyMutation{
		Mutation: &extprocv3.BodyMutation_StreamedResponse{StreamedResponse: &extprocv3.StreamedBodyResponse{
			Body: body.GetBody(), EndOfStream: body.GetEndOfStream(),
		}},
	}}}
}

// withPicker puts the second processor into the chain of the main listener, right before the router, and adds its
// cluster.
func withPicker(address net.Addr) func(map[string]any) error {
	tcp, ok := address.(*net.TCPAddr)
	if !ok {
		panic("the picker listens on TCP")
	}
	filter := map[string]any{"name": "picker", "typed_config": map[string]any{
		"@type":        "type.googleapis.com/envoy.extensions.filters.http.ext_proc.v3.ExternalProcessor",
		"grpc_service": map[string]any{"envoy_grpc": map[string]any{"cluster_name": "picker"}},
		"processing_mode": map[string]any{
			"request_header_mode": "SEND", "request_body_mode": "FULL_DUPLEX_STREAMED", "request_trailer_mode": "SEND",
			"response_header_mode": "SEND", "response_body_mode": "FULL_DUPLEX_STREAMED", "response_trailer_mode": "SEND",
		},
		"message_timeout": "5s",
	}}
	cluster := map[string]any{
		"name": "picker", "type": "STATIC", "connect_timeout": "5s",
		"load_assignment": map[string]any{"cluster_name": "picker", "endpoints": []any{map[string]any{"lb_endpoints": []any{
			map[string]any{"endpoint": map[string]any{"address": map[string]any{"socket_address": map[string]any{
				"address": "127.0.0.1", "port_value": tcp.Port,
			}}}},
		}}}},
		"typed_extension_protocol_options": map[string]any{"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": map[string]any{
			"@type":                "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
			"explicit_http_config": map[string]any{"http2_protocol_options": map[string]any{}},
		}},
	}
	return func(bootstrap map[string]any) error {
		manager, err := mainManager(bootstrap)
		if err != nil {
			return err
		}
		filters, err := at[[]any](manager, "http_filters")
		if err != nil {
			return err
		}
		last := len(filters) - 1
		manager["http_filters"] = append(append(filters[:last:last], filter), filters[last])
		resources, err := at[map[string]any](bootstrap, "static_resources")
		if err != nil {
			return err
		}
		clusters, err := at[[]any](resources, "clusters")
		resources["clusters"] = append(clusters, cluster)
		return err
	}
}

// TestSecondProcessor asserts that bodies of 130 kB and more pass whole through two full-duplex processors in one chain.
// Older Envoys truncate them (envoyproxy/envoy#43983; seen here on 1.37.0).
func TestSecondProcessor(t *testing.T) {
	on(t, current(), func(t *testing.T, v variant) {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		server := grpc.NewServer()
		extprocv3.RegisterExternalProcessorServer(server, picker{})
		go server.Serve(listener) // ends with Stop
		t.Cleanup(server.Stop)

		r := start(t, v, setup{config: addConfig(""), edit: withPicker(listener.Addr())})
		for n := range 40 {
			size := []int{10, 4_000, 130_000, 500_000}[n%4]
			text := strings.Repeat("y", size)
			r.LLM.Use(llm.Sequence(llm.Calls(llm.Call("c", "calc__add_numbers", `{"a":5,"b":7}`)), llm.Text(text)))
			body := ask(n%8 >= 4, text)
			got := post(t, r, body)
			if got.status != 200 || withoutEnvelope(t, got.body, n%8 >= 4) != text {
				t.Fatalf("%d bytes: status %d, %d bytes of body", size, got.status, len(got.body))
			}
			arrived := r.LLM.Requests()[0]
			if arrived.Header.Get("X-Picked") != "yes" || !strings.Contains(string(arrived.Body), text) {
				t.Errorf("%d bytes: the LLM got %d bytes, x-picked %q", size, len(arrived.Body), arrived.Header.Get("X-Picked"))
			}
		}
	})
}
