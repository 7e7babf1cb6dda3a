package extproc

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	filterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"
)

// fakeEnvoy plays Envoy's part of a stream by hand.
type fakeEnvoy struct {
	t      testing.TB
	stream pb.ExternalProcessor_ProcessClient
	cancel context.CancelFunc
}

// fakeService is a Server behind an in-memory gRPC connection.
type fakeService struct {
	*Server
	events eventLog
	grpc   *grpc.Server
	client pb.ExternalProcessorClient
	stop   func()
}

func serve(t testing.TB, h http.HandlerFunc, change ...func(*Options)) *fakeService {
	f := &fakeService{}
	opts := Options{
		Handler: h,
		Match:   func(r *http.Request) bool { return r.Header.Get("X-Match") != "no" },
		Strip:   []string{"x-secret"},
		Log:     slog.New(slog.DiscardHandler),
		Observe: f.events.add,
	}
	for _, c := range change {
		c(&opts)
	}
	f.Server = New(opts)
	lis := bufconn.Listen(1 << 20)
	// Fixed windows: gRPC's estimate of the bandwidth would let a test's bounds grow.
	server := grpc.NewServer(Codec(), grpc.InitialWindowSize(128<<10), grpc.InitialConnWindowSize(128<<10))
	f.grpc = server
	pb.RegisterExternalProcessorServer(server, f.Server)
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(lis)
	}()
	conn, err := grpc.NewClient("passthrough:fake", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithInitialWindowSize(128<<10), grpc.WithInitialConnWindowSize(128<<10),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return lis.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	f.client = pb.NewExternalProcessorClient(conn)
	f.stop = sync.OnceFunc(func() {
		server.Stop()
		_ = conn.Close()
		<-served
	})
	t.Cleanup(f.stop)
	return f
}

func (f *fakeService) open(t testing.TB) *fakeEnvoy {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	stream, err := f.client.Process(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return &fakeEnvoy{t, stream, cancel}
}

// config is the protocol_config of a mode.
func config(mode Mode) *pb.ProtocolConfiguration {
	body := filterv3.ProcessingMode_NONE
	switch mode {
	case ModeStatic:
		body = filterv3.ProcessingMode_FULL_DUPLEX_STREAMED
	case ModeUnsupported:
		body = filterv3.ProcessingMode_BUFFERED
	}
	return &pb.ProtocolConfiguration{RequestBodyMode: body, ResponseBodyMode: body}
}

func headerMap(pairs ...string) *corev3.HeaderMap {
	m := &corev3.HeaderMap{}
	for i := 0; i < len(pairs); i += 2 {
		m.Headers = append(m.Headers, &corev3.HeaderValue{Key: pairs[i], RawValue: []byte(pairs[i+1])})
	}
	return m
}

func requestHeaders(mode Mode, bare bool, more ...string) *pb.ProcessingRequest {
	pairs := append([]string{":method", "POST", ":path", "/v1/x?q=1", ":authority", "llm.example", ":scheme", "http"}, more...)
	return &pb.ProcessingRequest{
		ProtocolConfig: config(mode),
		Request:        &pb.ProcessingRequest_RequestHeaders{RequestHeaders: &pb.HttpHeaders{Headers: headerMap(pairs...), EndOfStream: bare}},
	}
}

func requestBody(data string, last bool) *pb.ProcessingRequest {
	return &pb.ProcessingRequest{Request: &pb.ProcessingRequest_RequestBody{RequestBody: &pb.HttpBody{Body: []byte(data), EndOfStream: last}}}
}

func requestTrailers(pairs ...string) *pb.ProcessingRequest {
	return &pb.ProcessingRequest{Request: &pb.ProcessingRequest_RequestTrailers{RequestTrailers: &pb.HttpTrailers{Trailers: headerMap(pairs...)}}}
}

func responseHeaders(bare bool, pairs ...string) *pb.ProcessingRequest {
	return &pb.ProcessingRequest{Request: &pb.ProcessingRequest_ResponseHeaders{ResponseHeaders: &pb.HttpHeaders{Headers: headerMap(pairs...), EndOfStream: bare}}}
}

func responseBody(data string, last bool) *pb.ProcessingRequest {
	return &pb.ProcessingRequest{Request: &pb.ProcessingRequest_ResponseBody{ResponseBody: &pb.HttpBody{Body: []byte(data), EndOfStream: last}}}
}

func responseTrailers(pairs ...string) *pb.ProcessingRequest {
	return &pb.ProcessingRequest{Request: &pb.ProcessingRequest_ResponseTrailers{ResponseTrailers: &pb.HttpTrailers{Trailers: headerMap(pairs...)}}}
}

func (e *fakeEnvoy) send(msgs ...*pb.ProcessingRequest) {
	e.t.Helper()
	for _, msg := range msgs {
		if err := e.stream.Send(msg); err != nil {
			e.t.Fatal(err)
		}
	}
}

// want receives one message for each text and compares.
func (e *fakeEnvoy) want(texts ...string) {
	e.t.Helper()
	for _, text := range texts {
		msg, err := e.stream.Recv()
		if err != nil {
			e.t.Fatalf("instead of %s: %v", text, err)
		}
		if got := describe(msg); got != text {
			e.t.Fatalf("got  %s\nwant %s", got, text)
		}
	}
}

// describe writes a message to Envoy as one line.
func describe(msg *pb.ProcessingResponse) string {
	switch r := msg.GetResponse().(type) {
	case *pb.ProcessingResponse_RequestHeaders:
		return "request headers" + describeCommon(r.RequestHeaders.GetResponse())
	case *pb.ProcessingResponse_RequestBody:
		return "request body" + describeCommon(r.RequestBody.GetResponse())
	case *pb.ProcessingResponse_RequestTrailers:
		return "request trailers" + describeMutation(r.RequestTrailers.GetHeaderMutation())
	case *pb.ProcessingResponse_ResponseHeaders:
		return "response headers" + describeCommon(r.ResponseHeaders.GetResponse())
	case *pb.ProcessingResponse_ResponseBody:
		return "response body" + describeCommon(r.ResponseBody.GetResponse())
	case *pb.ProcessingResponse_ResponseTrailers:
		return "response trailers" + describeMutation(r.ResponseTrailers.GetHeaderMutation())
	case *pb.ProcessingResponse_ImmediateResponse:
		i := r.ImmediateResponse
		return fmt.Sprintf("immediate %d%s %q", i.GetStatus().GetCode(), describeMutation(i.GetHeaders()), i.GetBody())
	case *pb.ProcessingResponse_StreamedImmediateResponse:
		if h := r.StreamedImmediateResponse.GetHeadersResponse(); h != nil {
			text := "streamed head"
			for _, v := range h.GetHeaders().GetHeaders() {
				text += " " + v.GetKey() + "=" + headerValue(v)
			}
			return text
		}
		return "streamed body" + describeBody(r.StreamedImmediateResponse.GetBodyResponse())
	}
	if msg.GetModeOverride() != nil {
		return "override"
	}
	return "nothing"
}

func describeCommon(c *pb.CommonResponse) string {
	text := describeMutation(c.GetHeaderMutation())
	if s := c.GetBodyMutation().GetStreamedResponse(); s != nil {
		text += describeBody(s)
	}
	if c.GetStatus() == pb.CommonResponse_CONTINUE_AND_REPLACE {
		text += fmt.Sprintf(" replace %q", c.GetBodyMutation().GetBody())
	}
	return text
}

func describeBody(s *pb.StreamedBodyResponse) string {
	text := fmt.Sprintf(" %q", s.GetBody())
	if len(s.GetBody()) > 64 {
		text = fmt.Sprintf(" %d bytes", len(s.GetBody()))
	}
	if s.GetEndOfStream() {
		text += " end"
	}
	return text
}

func describeMutation(m *pb.HeaderMutation) string {
	var text strings.Builder
	for _, o := range m.GetSetHeaders() {
		sign := "="
		if o.GetAppend().GetValue() {
			sign = "+="
		}
		fmt.Fprintf(&text, " %s%s%s", o.GetHeader().GetKey(), sign, headerValue(o.GetHeader()))
	}
	for _, name := range m.GetRemoveHeaders() {
		text.WriteString(" -" + name)
	}
	return text.String()
}
