package extproc

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// `go test ./extproc -run TestRecorded -record` runs the scenarios below
// against real Envoys and stores the messages of both sides in
// testdata/recorded, one file a flavour.
var record = flag.Bool("record", false, "record message sequences from real Envoys")

var recordedFlavours = []flavour{
	{"1.40.0", "override"}, {"1.40.0", "static"}, {"1.40.0", "static-early"}, {"1.37.0", "static"},
}

// pattern is the content of every large recorded body, so that the recording
// needs only lengths.
func pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte('a' + i%23)
	}
	return b
}

type scenario struct {
	name     string
	handler  http.HandlerFunc
	upstream http.HandlerFunc
	method   string
	size     int // of the client's body; -1: none
	header   http.Header
	trailer  http.Header // needs an HTTP/2 client
}

var recordedScenarios = []scenario{
	{name: "copy", handler: copyHandler, upstream: echo, method: "POST", size: 13},
	{name: "copy of a large body", handler: copyHandler, upstream: echo, method: "POST", size: 300_000},
	{name: "mutated request", handler: growHandler, upstream: echo, method: "POST", size: 100_000},
	{name: "held answer", handler: holdHandler, upstream: echo, method: "POST", size: 13},
	{name: "streamed upstream", handler: copyHandler, upstream: threeMessages, method: "POST", size: 13},
	{name: "streamed immediate response", handler: immediateHandler, upstream: echo, method: "POST", size: 100_000},
	{name: "answer while the upstream hangs", handler: pendingHandler, upstream: hangUpstream, method: "POST", size: 13},
	{name: "body for a bare response", handler: holdHandler, upstream: bareUpstream, method: "POST", size: 13},
	{name: "bare request", handler: copyHandler, upstream: echo, method: "GET", size: -1},
	{name: "request trailers", handler: copyHandler, upstream: echo, method: "POST", size: 13, trailer: http.Header{"X-Sum": {"1"}}},
	{name: "response trailers", handler: copyHandler, upstream: trailerUpstream, method: "POST", size: 13},
	{name: "passed", handler: copyHandler, upstream: echo, method: "POST", size: 13, header: http.Header{"X-Match": {"no"}, "X-Secret": {"s"}}},
	{name: "passed with trailers", handler: copyHandler, upstream: trailerUpstream, method: "POST", size: 100_000,
		header: http.Header{"X-Match": {"no"}}, trailer: http.Header{"X-Sum": {"1"}}},
}

func echo(w http.ResponseWriter, r *http.Request) {
	b, _ := io.ReadAll(r.Body)
	_, _ = w.Write(b)
}

func threeMessages(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	for i := range 3 {
		_, _ = w.Write(pattern(9)[3*i : 3*i+3])
		w.(http.Flusher).Flush()
		time.Sleep(20 * time.Millisecond) // so that the messages stay apart in the recording
	}
}

func bareUpstream(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }

func hangUpstream(_ http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	<-r.Context().Done()
}

func trailerUpstream(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header().Set("Trailer", "X-Sum")
	_, _ = w.Write(pattern(9))
	w.(http.Flusher).Flush()
	w.Header().Set("X-Sum", "9")
}

func growHandler(w http.ResponseWriter, r *http.Request) {
	b, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	out := r.Clone(r.Context())
	out.ContentLength = int64(len(b) + 8)
	out.Body = io.NopCloser(bytes.NewReader(pattern(len(b) + 8)))
	out.Header.Set("X-Added", "1")
	out.Header.Del("User-Agent")
	copyHandler(w, out)
}

func holdHandler(w http.ResponseWriter, r *http.Request) {
	resp, err := Transport().RoundTrip(r)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusBadGateway)
	_, _ = io.WriteString(w, `{"error":{}}`)
}

func immediateHandler(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	for range 3 {
		_, _ = io.WriteString(w, ": keep-alive\n")
		w.(http.Flusher).Flush()
	}
	_, _ = io.WriteString(w, "data: done\n")
}

func pendingHandler(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := Transport().RoundTrip(r.WithContext(ctx))
	if !errors.Is(err, context.DeadlineExceeded) {
		panic(http.ErrAbortHandler)
	}
	http.Error(w, "loop timeout", http.StatusGatewayTimeout)
}

// line is one message of a recording.
type line struct {
	Scenario string          `json:"scenario,omitempty"` // starts one; the rest is empty
	From     string          `json:"from,omitempty"`     // envoy, us
	Msg      json.RawMessage `json:"msg,omitempty"`
	Len      int             `json:"len,omitempty"` // of a body that was taken out
}

type recorder struct {
	mu    sync.Mutex
	lines []line
}

func (r *recorder) add(l line) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, l)
}

func (r *recorder) message(t testing.TB, from string, msg proto.Message, body *[]byte) {
	l := line{From: from}
	if body != nil && len(*body) > 64 {
		l.Len, *body = len(*body), nil
	}
	text, err := protojson.Marshal(msg)
	if err != nil {
		t.Error(err)
	}
	var compact bytes.Buffer // protojson varies its spaces on purpose
	if err := json.Compact(&compact, text); err != nil {
		t.Error(err)
	}
	l.Msg = compact.Bytes()
	r.add(l)
}

// recordingService notes what passes between Envoy and a Server.
type recordingService struct {
	pb.ExternalProcessorServer
	t testing.TB
	*recorder
}

type recordingStream struct {
	pb.ExternalProcessor_ProcessServer
	service *recordingService
}

func (s *recordingService) Process(st pb.ExternalProcessor_ProcessServer) error {
	return s.ExternalProcessorServer.Process(&recordingStream{st, s})
}

func (s *recordingStream) Recv() (*pb.ProcessingRequest, error) {
	msg, err := s.ExternalProcessor_ProcessServer.Recv()
	if err == nil {
		clean := proto.CloneOf(msg)
		scrub(clean)
		s.service.message(s.service.t, "envoy", clean, envoyBody(clean))
	}
	return msg, err
}

func (s *recordingStream) Send(msg *pb.ProcessingResponse) error {
	clean := proto.CloneOf(msg)
	s.service.message(s.service.t, "us", clean, ourBody(clean))
	return s.ExternalProcessor_ProcessServer.Send(msg)
}

// scrub takes out what differs from run to run.
func scrub(msg *pb.ProcessingRequest) {
	msg.Attributes = nil
	for _, h := range append(msg.GetRequestHeaders().GetHeaders().GetHeaders(), msg.GetResponseHeaders().GetHeaders().GetHeaders()...) {
		switch h.Key {
		case "x-request-id", "date", "x-envoy-upstream-service-time":
			h.RawValue = []byte("-")
		}
	}
}

func envoyBody(msg *pb.ProcessingRequest) *[]byte {
	if b := msg.GetRequestBody(); b != nil {
		return &b.Body
	}
	if b := msg.GetResponseBody(); b != nil {
		return &b.Body
	}
	return nil
}

func ourBody(msg *pb.ProcessingResponse) *[]byte {
	for _, s := range []*pb.StreamedBodyResponse{
		msg.GetRequestBody().GetResponse().GetBodyMutation().GetStreamedResponse(),
		msg.GetResponseBody().GetResponse().GetBodyMutation().GetStreamedResponse(),
		msg.GetStreamedImmediateResponse().GetBodyResponse(),
	} {
		if s != nil {
			return &s.Body
		}
	}
	return nil
}

func recordingPath(f flavour) string {
	return filepath.Join("testdata", "recorded", f.version+"-"+f.mode+".jsonl")
}

// recordFlavour runs all scenarios on a real Envoy.
func recordFlavour(t *testing.T, f flavour) {
	rec := &recorder{}
	r := newRig(t, f, rigOptions{wrap: func(s pb.ExternalProcessorServer) pb.ExternalProcessorServer {
		return &recordingService{s, t, rec}
	}})
	client := h2Client()
	defer client.CloseIdleConnections()
	for _, s := range recordedScenarios {
		rec.add(line{Scenario: s.name})
		r.on(s.handler, s.upstream)
		var body io.Reader
		if s.size >= 0 {
			body = bytes.NewReader(pattern(s.size))
		}
		req, err := http.NewRequestWithContext(withTimeout(t), s.method, r.url("/v1/x?q=1"), body)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = "llm.example"
		for key, values := range s.header {
			req.Header[key] = values
		}
		c := r.client
		if s.trailer != nil {
			c, req.Trailer, req.ContentLength = client, s.trailer, -1
		}
		resp, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	}
	r.clean(t)
	r.grpc.Stop() // so that no message comes late
	var out bytes.Buffer
	for _, l := range rec.lines {
		text, err := json.Marshal(l)
		if err != nil {
			t.Fatal(err)
		}
		out.Write(append(text, '\n'))
	}
	if err := os.MkdirAll(filepath.Dir(recordingPath(f)), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(recordingPath(f), out.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// recording is what both sides sent in one scenario.
type recording struct {
	scenario scenario
	envoy    []*pb.ProcessingRequest
	us       []*pb.ProcessingResponse
}

func loadRecordings(t testing.TB, f flavour) []*recording {
	t.Helper()
	file, err := os.Open(recordingPath(f))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var all []*recording
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	offset := map[string]int{}
	for lines.Scan() {
		var l line
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			t.Fatal(err)
		}
		if l.Scenario != "" {
			all = append(all, &recording{scenario: findScenario(t, l.Scenario)})
			offset = map[string]int{}
			continue
		}
		if err := all[len(all)-1].add(l, offset); err != nil {
			t.Fatal(err)
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

// add puts a body that was taken out back in: it is a part of pattern.
func (r *recording) add(l line, offset map[string]int) error {
	var msg proto.Message
	var body *[]byte
	var side string
	if l.From == "envoy" {
		m := &pb.ProcessingRequest{}
		if err := protojson.Unmarshal(l.Msg, m); err != nil {
			return err
		}
		r.envoy = append(r.envoy, m)
		msg, body, side = m, envoyBody(m), "envoy "+messageName(m)
	} else {
		m := &pb.ProcessingResponse{}
		if err := protojson.Unmarshal(l.Msg, m); err != nil {
			return err
		}
		r.us = append(r.us, m)
		msg, body, side = m, ourBody(m), fmt.Sprintf("us %T", m.GetResponse())
	}
	if body == nil {
		if l.Len > 0 {
			return fmt.Errorf("a length without a body in %v", msg)
		}
		return nil
	}
	start := offset[side]
	if l.Len > 0 {
		*body = pattern(start + l.Len)[start:]
	}
	offset[side] = start + len(*body)
	return nil
}

func findScenario(t testing.TB, name string) scenario {
	t.Helper()
	for _, s := range recordedScenarios {
		if s.name == name {
			return s
		}
	}
	t.Fatalf("no scenario %q", strings.TrimSpace(name))
	return scenario{}
}
